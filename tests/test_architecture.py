"""docs/architecture.md: the way of one transition names functions that exist, is short enough to be read, and is what
trainings execute, plain and by default; and every file that the page names exists."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import HELPERS, traced_cycle
from helpers.traced_cycle import WORDS
from helpers.training import LIMIT, finish, forked_call

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "architecture.md").read_text()
TABLE = PAGE.split("## One transition")[1].split("\n## ")[0]
SEAM = PAGE.split("## Text and speed")[1].split("\n## ")[0]
MOST_LINES = 400
COLUMNS = {"ddpg": 1, "ppo": 2}  # of the table; what is not said for PPO is as for DDPG
Calls = dict[str, list[tuple[str, int]]]  # functions (file, line) that a cycle calls, in the order of first calls
# Packages whose files the section names if one of a cycle runs.
WATCHED = ("marl/rollout/", "marl/learners/", "marl/networks/", "marl/fast/", "marl/compute/")


def functions_in(text: str) -> list[tuple[str, str]]:
    """(file, function) of a text that names them as `FILE`: `FUNCTION`, `FUNCTION`; in its order."""
    named = re.findall(r"`([\w/]+\.py)`: ((?:`[\w.]+`(?:, )?)+)", text)
    return [(file, name) for file, names in named for name in re.findall(r"`([^`]+)`", names)]


def path_of_a_transition(algo: str) -> list[tuple[str, str]]:
    """(file, function) of each step in the learner's column."""
    rows = re.findall(r"^\|(.*)\|$", TABLE, re.MULTILINE)
    return [found for row in rows for found in functions_in(row.split("|")[COLUMNS[algo]])]


def function_at(file: str, name: str) -> ast.FunctionDef:
    """A function, or a method Class.name."""
    scope: list[ast.stmt] = ast.parse((ROOT / file).read_text()).body
    for part in name.split("."):
        (found,) = [node for node in scope if getattr(node, "name", None) == part]
        scope = found.body
    return found


def files_named() -> set[str]:
    return set(re.findall(r"`((?:arena|opponents|marl)/[\w/]+\.py)`", TABLE + SEAM))


def place_of(file: str, name: str) -> tuple[str, int]:
    """(file, first line) of a function, as a call of it is noted."""
    found = function_at(file, name)
    return file, min([found.lineno, *(decorator.lineno for decorator in found.decorator_list)])


def calls_in(printed: str) -> Calls:
    found: Calls = {algo: [] for algo in WORDS}
    for line in printed.splitlines():
        algo, file, number = line.split(" ")
        found[algo].append((file, int(number)))
    return found


@pytest.fixture(scope="module")
def plain() -> Calls:
    """In a Python of its own, which compiles nothing."""
    places = os.pathsep.join((str(ROOT), str(HELPERS.parent)))
    done = subprocess.run(
        [sys.executable, str(HELPERS / "traced_cycle.py"), "--compile", "off"],
        env=os.environ | {"PYTHONPATH": places, "NUMBA_DISABLE_JIT": "1"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )
    assert done.returncode == 0, done.stderr
    return calls_in(done.stdout)


@pytest.fixture(scope="module")
def default() -> Calls:
    """By the compiled passes; of the network that other tests have compiled them for."""
    with forked_call(traced_cycle.main, "--config", "smoke", "--body", "32,32") as process:
        done = finish(process)
    assert done.returncode == 0, done.stderr
    return calls_in(done.stdout)


def test_the_path_of_a_transition_is_short() -> None:
    steps = {step for algo in WORDS for step in path_of_a_transition(algo)}
    functions = [function_at(*step) for step in steps]
    assert sum(found.end_lineno - found.lineno + 1 for found in functions) <= MOST_LINES


@pytest.mark.parametrize("algo", WORDS)
def test_a_plain_cycle_takes_this_way_in_this_order(plain, algo) -> None:
    order = plain[algo]
    path = [(name, place_of(file, name)) for file, name in path_of_a_transition(algo)]
    assert len(path) >= 5
    assert [name for name, place in path if place not in order] == [], "not called"
    assert [name for name, _ in path] == [name for name, _ in sorted(path, key=lambda step: order.index(step[1]))]


@pytest.mark.parametrize("algo", WORDS)
def test_a_default_cycle_on_a_cpu_takes_the_way_of_the_seam(default, algo) -> None:
    order, other = default[algo], {"ddpg": "ppo", "ppo": "ddpg"}[algo]
    instead = [step for step in functions_in(SEAM) if f"{other}_passes" not in step[0]]
    assert [name for _, name in instead] == ["TurnChain.play", f"{algo.capitalize()}Passes.gradients"]
    assert [name for file, name in instead if place_of(file, name) not in order] == [], "not called"
    replaced = ("play_turn", "Actor.forward", "gradients", "losses", "ppo_loss", "draw_action", "finish_turn")
    path = [step for column in WORDS for step in path_of_a_transition(column)]
    assert [name for file, name in path if name.endswith(replaced) and place_of(file, name) in order] == []


@pytest.mark.parametrize("algo", WORDS)
def test_every_file_of_a_plain_cycle_is_named(plain, algo) -> None:
    ran = {file for file, _ in plain[algo]}
    assert {file for file in ran if file.startswith(WATCHED)} <= files_named()
    assert not any(file.startswith("marl/fast/") for file in ran)
    assert f"marl/learners/{algo}.py" in ran


@pytest.mark.parametrize("algo", WORDS)
def test_every_file_of_a_default_cycle_is_named(default, algo) -> None:
    """With the compiled passes: the losses of the text are not called, everything around them is."""
    order = default[algo]
    ran = {file for file, _ in order}
    assert {file for file in ran if file.startswith(WATCHED)} <= files_named()
    own = {f"marl/fast/{algo}_passes.py", "marl/fast/seam.py", f"marl/learners/{algo}.py"}
    assert ran >= own | {"marl/rollout/rollout.py", "marl/learners/learner.py", "marl/learners/adam.py"}
    losses = function_at(f"marl/learners/{algo}.py", f"{algo.capitalize()}.losses")
    assert (f"marl/learners/{algo}.py", losses.lineno) not in order


def test_no_file_is_named_in_vain(plain, default) -> None:
    ran = {file for calls in (plain, default) for algo in WORDS for file, _ in calls[algo]}
    # Of other learners; of a GPU; and loops, whose compiled code alone is called where it was compiled before.
    loops = {file for file in files_named() if re.fullmatch(r"marl/fast/\w+_kernels\.py", file)}
    assert files_named() - ran <= {"marl/learners/q_learning.py", "marl/fast/compiled_text.py", *loops}


def test_every_file_that_the_page_names_exists() -> None:
    named = set(re.findall(r"`((?:arena|opponents|marl|tests)/[\w/]+\.py)`", PAGE))
    assert named
    assert [name for name in sorted(named) if not (ROOT / name).is_file()] == []
