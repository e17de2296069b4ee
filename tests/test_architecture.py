"""docs/architecture.md: the way of one transition names functions that exist, is short enough to be read, and is what a
training executes; and every file that the page names exists."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import HELPERS

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "architecture.md").read_text()
SECTION = PAGE.split("## One transition")[1].split("\n## ")[0]
MOST_FILES, MOST_LINES = 11, 400
# A small training of each learner, plain: every loop is seen. And the same by the compiled passes.
WORDS = {"ppo": ["--algo", "ppo", "--update_interval", "16"], "ddpg": ["--algo", "ddpg"]}
# Packages whose files the section names if one of a cycle runs.
WATCHED = ("marl/rollout/", "marl/learners/", "marl/networks/", "marl/fast/", "marl/compute/")


def path_of_a_transition() -> list[tuple[str, list[str]]]:
    """(file, functions) of each step, in PPO."""
    rows = re.findall(r"^\| [^|]+ \| `([^`]+)` \| (.+) \|$", SECTION, re.MULTILINE)
    return [(file, re.findall(r"`([^`]+)`", functions)) for file, functions in rows]


def function_at(file: str, name: str) -> ast.FunctionDef:
    """A function, or a method Class.name."""
    scope: list[ast.stmt] = ast.parse((ROOT / file).read_text()).body
    for part in name.split("."):
        (found,) = [node for node in scope if getattr(node, "name", None) == part]
        scope = found.body
    return found


def files_named() -> set[str]:
    return set(re.findall(r"`((?:arena|opponents|marl)/[\w/]+\.py)`", SECTION))


@pytest.fixture(scope="module")
def calls():
    """Functions (file, line) that a cycle calls, in the order of their first calls, by learner and flags."""
    found: dict[tuple[str, ...], list[tuple[str, int]]] = {}

    def ask(algo: str, *words: str, **environment: str) -> list[tuple[str, int]]:
        asked = [*WORDS[algo], "--matches", "4", *words]
        if tuple(asked) not in found:
            done = subprocess.run(
                [sys.executable, str(HELPERS / "traced_cycle.py"), *asked],
                env=os.environ | {"PYTHONPATH": os.pathsep.join((str(ROOT), str(HELPERS.parent)))} | environment,
                cwd=ROOT,
                capture_output=True,
                text=True,
                timeout=300,
            )
            assert done.returncode == 0, done.stderr
            lines = (line.rsplit(" ", 1) for line in done.stdout.splitlines())
            found[tuple(asked)] = [(file, int(line)) for file, line in lines]
        return found[tuple(asked)]

    return ask


def test_the_path_of_a_transition_is_short() -> None:
    steps = path_of_a_transition()
    assert len({file for file, _ in steps}) == len(steps) <= MOST_FILES
    functions = [function_at(file, name) for file, names in steps for name in names]
    assert sum(found.end_lineno - found.lineno + 1 for found in functions) <= MOST_LINES


def test_a_round_of_ppo_takes_this_way_in_this_order(calls) -> None:
    order = calls("ppo", "--compile", "off", NUMBA_DISABLE_JIT="1")
    firsts = []
    for file, names in path_of_a_transition():
        places = []
        for name in names:
            found = function_at(file, name)
            line = min([found.lineno, *(decorator.lineno for decorator in found.decorator_list)])
            assert (file, line) in order, f"{name} of {file} is not called"
            places.append(order.index((file, line)))
        assert places == sorted(places), f"functions of {file} are called in another order"
        firsts.append(places[0])
    assert firsts == sorted(firsts), "files come in another order"


@pytest.mark.parametrize("algo", WORDS)
def test_every_file_of_a_plain_cycle_is_named(calls, algo) -> None:
    ran = {file for file, _ in calls(algo, "--compile", "off", NUMBA_DISABLE_JIT="1")}
    assert {file for file in ran if file.startswith(WATCHED)} <= files_named()
    assert not any(file.startswith("marl/fast/") for file in ran)
    assert f"marl/learners/{algo}.py" in ran


@pytest.mark.parametrize("algo", WORDS)
def test_every_file_of_a_default_cycle_is_named(calls, algo) -> None:
    """With the compiled passes: the losses of the text are not called, everything around them is."""
    order = calls(algo)
    ran = {file for file, _ in order}
    assert {file for file in ran if file.startswith(WATCHED)} <= files_named()
    own = {f"marl/fast/{algo}_passes.py", "marl/fast/seam.py", f"marl/learners/{algo}.py"}
    assert ran >= own | {"marl/rollout/rollout.py", "marl/learners/learner.py", "marl/learners/adam.py"}
    losses = function_at(f"marl/learners/{algo}.py", f"{algo.capitalize()}.losses")
    assert (f"marl/learners/{algo}.py", losses.lineno) not in order


def test_no_file_is_named_in_vain(calls) -> None:
    ran = set()
    for algo in WORDS:
        for order in (calls(algo), calls(algo, "--compile", "off", NUMBA_DISABLE_JIT="1")):
            ran |= {file for file, _ in order}
    # Of other learners; and loops, whose compiled code alone is called where an earlier process has compiled them.
    loops = {file for file in files_named() if re.fullmatch(r"marl/fast/(\w+_kernels|gather_rows)\.py", file)}
    assert files_named() - ran <= {"marl/learners/q_learning.py", *loops}


def test_every_file_that_the_page_names_exists() -> None:
    named = set(re.findall(r"`((?:arena|opponents|marl|tests)/[\w/]+\.py)`", PAGE))
    assert named
    assert [name for name in sorted(named) if not (ROOT / name).is_file()] == []
