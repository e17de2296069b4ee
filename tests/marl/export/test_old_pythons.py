"""Submissions run on Python 3.6 to 3.13 and numpy 1.16 to 2: by a static check, and under every Python that is here."""

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from helpers.command import ROOT
from helpers.exporting import ENCODERS, games, player, round_to_halves
from helpers.interpreters import with_numpy
from helpers.play_submissions import REPLIES

from marl.export.dense_layers import policy_layers
from marl.export.submission_file import submission_source

OLDEST, NEWEST = 6, 13
ASKED = [(0, 0), (5, 4)]  # game and snake
TURNS_ASKED = range(120, 122)  # long snakes: searches have something to find
CLEAR = 1e-3  # logits and values that differ by less may be ordered either way by another order of additions


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> list[Path]:
    """One submission without planning; of all encoders with planning, which also play without it; and of half floats
    without a value. The code of the first two is that of all: only the encoder's name and the weights differ."""
    folder = tmp_path_factory.mktemp("submissions")
    found = []
    for encoder in (*ENCODERS, "halves"):
        who = player("tactical" if encoder == "halves" else encoder, value=encoder != "halves")
        if encoder == "halves":
            round_to_halves(who)
        for plan_ms in (None, 50.0) if not found else (50.0,):
            path = folder / f"{encoder}_{plan_ms or 'plain'}.py"
            path.write_text(submission_source(policy_layers(who), who.encoder, "it", plan_ms))
            found.append(path)
    return found


def vermin(*paths: Path) -> subprocess.CompletedProcess[str]:
    pytest.importorskip("vermin", reason="vermin is not installed")
    flags = [f"-t=3.{OLDEST}-", "--violations", "--no-tips", "--eval-annotations", "--processes=1"]
    call = [sys.executable, "-c", "import vermin; vermin.main()", *flags, *paths]
    return subprocess.run(call, capture_output=True, text=True, timeout=300)


def test_no_line_needs_a_newer_python(files) -> None:
    done = vermin(*files[:2])
    assert done.returncode == 0, done.stdout
    assert f"Minimum required versions: 3.{OLDEST}" in done.stdout


@pytest.mark.parametrize("line", ["(two := 2)", "math.prod([])"])
def test_a_line_that_needs_a_newer_python_is_found(files, tmp_path, line) -> None:
    path = tmp_path / "submission.py"
    path.write_text(f"{files[1].read_text()}import math\n{line}\n")
    assert vermin(path).returncode == 1


# numpy's functions that submissions call, with the most positional arguments and the keywords, all of which numpy 1.16
# has (or, bitwise_count, whose absence the submission minds): tried with 1.16.6, which not every machine has wheels of.
NUMPY_1_16 = """
arange 2 dtype, argsort 1 axis kind, argwhere 1, array 2, asarray 2, ascontiguousarray 2, bitwise_and 3,
bitwise_count 1, bitwise_or 3, bitwise_or.reduce 2, clip 3, concatenate 2, divmod 2, einsum 3, empty 2, exp 1,
flatnonzero 1, frombuffer 3 offset, full 2, log 1, matmul 2 out, maximum 2, meshgrid 1 indexing, minimum 2, nonzero
1, packbits 2, pad 3 constant_values, put 3, put_along_axis 4, repeat 3, sort 2, stack 2, swapaxes 3, take 2,
take_along_axis 3, tensordot 3, tile 2, tri 1 dtype k, uint32 1, uint64 1, where 3, zeros 2, zeros_like 1
"""


def numpy_calls(text: str) -> Iterator[tuple[str, int, set[str]]]:
    """Name, number of positional arguments and keywords of all calls np.name(...)."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and (name := re.fullmatch(r"np\.([\w.]+)", ast.unparse(node.func))):
            yield name[1], len(node.args), {word.arg for word in node.keywords}


def test_numpys_functions_are_those_of_numpy_1_16(files) -> None:
    known = {}
    for entry in NUMPY_1_16.split(","):
        name, most, *keywords = entry.split()
        known[name] = (int(most), set(keywords))
    used = set()
    for path in files[:2]:
        for name, count, keywords in numpy_calls(path.read_text()):
            most, allowed = known.get(name, (-1, set()))
            assert count <= most, f"np.{name} with {count} arguments: look up whether numpy 1.16 has it, and try it"
            assert keywords <= allowed, f"np.{name} with {keywords}: look up whether numpy 1.16 has it, and try it"
            used.add(name)
    assert used == known.keys()


def asked(files: list[Path]) -> str:
    some = [[games()[game][turn].observation(snake) for turn in TURNS_ASKED] for game, snake in ASKED]
    return json.dumps({"files": [str(path) for path in files], "games": some})


def played(python: str | Path, files: list[Path]) -> dict:
    """What the submissions answer under this Python, apart from all of this project."""
    program = ROOT / "tests" / "helpers" / "play_submissions.py"
    call = [python, "-I", "-B", program]
    done = subprocess.run(call, input=asked(files), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def expected(files) -> list[dict]:
    return played(sys.executable, files)["found"]


# The Python of this process answers what is expected of the others.
@pytest.mark.parametrize("minor", [minor for minor in range(OLDEST, NEWEST + 1) if minor != sys.version_info.minor])
def test_they_answer_and_plan_alike_under_every_python(files, expected, minor) -> None:
    python = with_numpy(minor)
    if python is None:
        pytest.skip(f"no Python 3.{minor} with numpy (scripts/old_pythons.sh makes one where Python 3.{minor} is)")
    # All files on the oldest Python, two on the others: without and with planning.
    chosen = slice(None) if minor == OLDEST else slice(0, 4, 3)
    files, expected = files[chosen], expected[chosen]
    done = played(python, files)
    print(f"numpy {done['numpy']}")
    assert done["python"] == [3, minor]
    turns = len(ASKED) * len(TURNS_ASKED)
    close, equal, plans = 0, 0, 0
    for path, here, there in zip(files, expected, done["found"], strict=True):
        logits = np.array(here["logits"])
        assert logits.shape == (turns, 4)
        np.testing.assert_allclose(np.array(there["logits"]), logits, atol=CLEAR / 2, err_msg=path.name)
        clear = np.diff(np.sort(logits)).min(-1) > CLEAR
        assert clear.mean() > 0.9
        assert (np.array(there["moves"]) == here["moves"])[clear].all(), path.name
        if "planned" in here:
            assert there["replies"] == here["replies"], path.name
            assert len(here["replies"]) == turns
            assert [REPLIES, REPLIES, REPLIES] in here["replies"]
            pairs = zip(there["values"], here["values"], strict=True)
            close += sum(np.allclose(found, wanted, atol=CLEAR) for found, wanted in pairs)
            equal += sum(np.array(there["planned"]) == here["planned"])
            plans += turns
    assert plans == turns * sum("planned" in here for here in expected) > 0
    # Not all of them: two replies may be equally likely but for rounding.
    assert min(close, equal) >= 0.95 * plans
