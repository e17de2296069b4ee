"""The program on a Python that has no more of POSIX than Windows' has (helpers/without_posix), and on Windows itself.

It has not been run there yet.
"""

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest
from helpers.command import ROOT, without_compiling
from helpers.posix_only import group
from helpers.run_without_posix import MARK

from arena import system

# runs without POSIX

pytestmark = pytest.mark.in_order
NAME = "蛇 队 ☃"  # the last letter is not in code page 936
SMALL = [
    "--config", "smoke", "--max_episodes", "8", "--device", "cpu", "--matches", "8",
    "--eval_matches", "1", "--eval_opponents", "level0",
]  # fmt: skip


LIMIT = 300  # seconds; it ends a process that hangs


class Done(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("without_posix") / NAME


@pytest.fixture(scope="module")
def done(folder) -> dict[str, Done]:
    """All commands in one process, which loads torch once."""
    runs, team, match = folder / "runs", folder / "team", folder / "match.jsonl"
    folder.mkdir()
    last = f"{runs}/last"
    matches = ["--matches", "2", "--device", "cpu"]
    rival = ["eval", "--home", "level1", "--away", str(team / "submission.py"), "--matches", "2", "--seed", "1"]
    commands = {
        "ranks": ["train", *SMALL, "--max_restarts", "1", "--runs_dir", str(runs), "--run_name", NAME],
        "resume": ["train", "--resume", last, "--max_episodes", "16", "--device", "cpu", "--save_interval", "8"],
        "eval": ["eval", "--home", last, "--away", "level1", *matches, "--record", str(match)],
        "export": ["export", last, "--jidi", str(team)],
        "stranger": rival,
        "trusted": [*rival, "--trust"],
        "play": ["play", "--red", last, "--blue", "level1", "--speed", "64"],
        "replay": ["replay", str(match), "--gif", str(folder / "match.gif")],
        "page": ["replay", str(match), "--html", str(folder / "match.html")],
        "league": ["league", "--players", f"level0,level1,{last}", *matches, "--html", str(folder / "league.html")],
        "doctor": ["doctor", "--runs_dir", str(runs)],
        "delete": ["runs", "delete", last, "--yes"],
    }  # fmt: skip
    places = [ROOT, ROOT / "tests"]
    if system.HAS_FORK:
        places.insert(0, ROOT / "tests" / "helpers" / "without_posix")
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([*map(str, places), *filter(None, [os.environ.get("PYTHONPATH")])]),
        "PYTHONIOENCODING": "cp936",  # as of a console with this code page; strict
        "SDL_VIDEODRIVER": "dummy",
        "CUDA_VISIBLE_DEVICES": "",  # Linux's Triton deletes files that it has open
        "NPROC": "1",
        "OMP_NUM_THREADS": "1",  # a second process that compiles would take the cores of other tests
    }
    ended = subprocess.run(
        [sys.executable, "-m", "helpers.run_without_posix", json.dumps(list(commands.values()))],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=LIMIT,
    )
    out, err = ended.stdout.decode("cp936"), ended.stderr.decode("cp936")
    assert ended.returncode == 0, (out, err)
    results = {}
    for name, said, complained in zip(commands, _parts(out), _parts(err), strict=False):
        results[name] = Done(said[0], said[1], without_compiling(complained[1]))
    assert results.keys() == commands.keys()
    results["facts"] = Done(0, out.rpartition(MARK)[2].partition("\n")[2], "")
    return results


def _parts(text: str) -> Iterator[tuple[int, str]]:
    """The exit codes, and what was said before each."""
    said, *rest = text.split(MARK)
    for part in rest:
        code, _, next_one = part.partition("\n")
        yield int(code), said
        said = next_one


def test_nothing_of_posix_is_there(done) -> None:
    assert json.loads(done["facts"].out) == [False, False, False, False]


def test_a_rank_of_torchs_launcher_trains(done) -> None:
    assert (done["ranks"].code, done["ranks"].err) == (0, ""), done["ranks"]
    assert "episodes     8" in done["ranks"].out


def test_a_run_resumes(done) -> None:
    assert (done["resume"].code, done["resume"].err) == (0, ""), done["resume"]
    assert "resumed from" in done["resume"].out
    assert "episodes     16" in done["resume"].out
    assert "蛇 队 \\u2603" in done["resume"].out  # a letter that the console does not know, as its number


@pytest.mark.parametrize("name", ["eval", "export", "play", "replay", "page", "league", "doctor", "delete"])
def test_a_command_ends_well(done, name) -> None:
    assert (done[name].code, done[name].err) == (0, ""), done[name]


def test_what_is_written_is_whole(done, folder) -> None:
    assert (folder / "match.gif").read_bytes()[:3] == b"GIF"
    for page in ("match.html", "league.html"):
        assert "</html>" in (folder / page).read_text("utf-8")
    assert b"\r" not in (folder / "team" / "submission.py").read_bytes()
    assert "its 100 moves are the policy's" in done["export"].out
    assert "sandbox: none" in done["doctor"].out
    assert "1 rank over gloo" in done["doctor"].out


def test_a_submission_runs_only_if_it_is_trusted(done) -> None:
    code, out, err = done["stranger"]
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "cannot sandbox it" in err
    assert "--uncaged" in err
    code, out, err = done["trusted"]
    assert (code, err.count("\n")) == (0, 1)
    assert "without a sandbox" in err
    assert "only time is limited" in err
    assert "2 matches" in out


def test_test_files_that_need_posix_are_known() -> None:
    """On Windows they are skipped; this one runs there."""
    assert group(Path(__file__)) is None
    tests = ROOT / "tests"
    assert group(tests / "test_slurm.py") == "shell scripts, SLURM and containers"
    assert group(tests / "attack" / "test_attacks.py") == "the sandbox and attacks on it"
    assert group(tests / "arena" / "test_rules.py") is None


# --- the text of the program

SOURCES = sorted(path for folder in ("arena", "opponents", "marl", "scripts") for path in (ROOT / folder).rglob("*.py"))
TEXT_CALLS = {"open": 3, "fdopen": 3, "read_text": 0, "write_text": 1}  # with the place of the encoding


POSIX = {"fcntl", "grp", "posix", "pty", "pwd", "resource", "syslog", "termios", "tty"}
# Of the sandbox: loaded only by the process in which submissions are locked up.
USERS = {"opponents/sandbox/host.py": {"fcntl"}, "opponents/sandbox/limits.py": {"resource"}}


# Only files with such words are parsed, which takes as long as a training.
NEAR = re.compile(rf"\b(import|from)\b.*\b({'|'.join(POSIX)})\b|\b({'|'.join(TEXT_CALLS)})\(|\btext=")


@cache
def trees() -> dict[Path, ast.Module]:
    assert len(SOURCES) > 300
    texts = {path: path.read_text("utf-8") for path in SOURCES}
    return {path: ast.parse(text) for path, text in texts.items() if NEAR.search(text)}


def test_modules_of_posix_are_imported_where_they_are_used_and_not_before() -> None:
    found: dict[str, set[str]] = {}
    for path, tree in trees().items():
        for node in tree.body:
            names = {alias.name for alias in node.names} if isinstance(node, ast.Import) else set()
            names |= {node.module} if isinstance(node, ast.ImportFrom) else set()
            if names & POSIX:
                found.setdefault(path.relative_to(ROOT).as_posix(), set()).update(names & POSIX)
    assert found == USERS


def _without_encoding(path: Path) -> Iterator[str]:
    for node in ast.walk(trees()[path]):
        if not isinstance(node, ast.Call):
            continue
        function = node.func
        name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        owner = getattr(function, "value", None)
        given = {keyword.arg: keyword.value for keyword in node.keywords}
        if name in TEXT_CALLS and not (isinstance(owner, ast.Name) and owner.id in ("os", "tarfile")):
            mode = [argument.value for argument in node.args if isinstance(argument, ast.Constant)]
            is_text = not any("b" in str(word) or ":" in str(word) for word in mode[-1:]) or name.endswith("_text")
            is_file = name != "open" or isinstance(function, ast.Name)  # other objects can be opened, too
            if is_file and is_text and "encoding" not in given and len(node.args) <= TEXT_CALLS[name]:
                yield f"{path.relative_to(ROOT)}:{node.lineno}: {name}"
        elif name in ("run", "Popen", "check_output") and "text" in given and "encoding" not in given:
            yield f"{path.relative_to(ROOT)}:{node.lineno}: {name}"


def test_every_text_file_names_its_encoding() -> None:
    """Windows would take that of the user's language: 936 in China."""
    found = [line for path in trees() if path.name != "planning_template.py" for line in _without_encoding(path)]
    assert found == []
