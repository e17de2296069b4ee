"""Malicious submissions in the sandbox: each is refused or stopped with one line, and nothing of the machine changes.

The attacks are in attacks.py. Those that are refused run in processes of one host, as in an evaluation.
"""

import os
import re
import select
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from attacks import (
    CALLS,
    CPU_SECONDS,
    ERRORS,
    FILES,
    MEMORY,
    NETWORK,
    PROCESSES,
    REFUSED,
    RIGHTS,
    STOPPED,
    UNLOADABLE,
    WAIT_SECONDS,
    WAITED,
    numbers,
)
from helpers.command import ROOT
from helpers.submissions import Game, children, controller, written

from opponents.sandbox.controller import HELLO, LOADED
from opponents.sandbox.limits import THREADS_COUNTED_SINCE
from opponents.sandbox.process import Host, MatchProcess, why_not_sandboxed
from opponents.submission import Submission, SubmissionOptions

pytestmark = pytest.mark.skipif(
    why_not_sandboxed() is not None, reason=f"this system cannot sandbox: {why_not_sandboxed()}"
)

HELD, BROKEN_OUT = 3, 0  # moves by which a submission tells how its attack went
SECONDS = 120  # for an answer, on a busy machine
FIRST_SNAKE = 2
BEFORE = """
import ctypes, errno, fcntl, json, mmap, os, pickle, resource, signal
import socket, subprocess, sys, tempfile, threading, time
FOLDER = os.path.dirname(os.path.abspath(__file__))
libc = ctypes.CDLL(None, use_errno=True)
PICKLE = pickle.dumps(print).ljust(40)
def call(name, *arguments):
    if getattr(libc, name)(*arguments) < 0:
        raise OSError(ctypes.get_errno(), name)
def raw(name, *arguments):
    if name not in NUMBERS:
        raise OSError(38, "the processor has no such call")
    words = [ctypes.c_long(word) if isinstance(word, int) else word for word in arguments]
    if libc.syscall(ctypes.c_long(NUMBERS[name]), *words) < 0:
        raise OSError(ctypes.get_errno(), name)
"""
ATTACK = """
def attack(observation):
    try:
{lines}
    except {errors}:
        return [[0, 0, 0, 1]]
    return [[1, 0, 0, 0]]
"""
CHOOSE = """
def my_controller(observation, action_space, is_act_continuous):
    if "attack" in observation:
        exec(ATTACKS[observation["attack"]], globals())
        return attack(observation)
    for name in observation["calls"]:
        try:
            raw(name, *[-1] * 6)
        except OSError as error:
            if error.errno in (errno.EPERM, errno.ENOSYS):
                continue
        raise ValueError(f"{name} is not refused")
    return [[0, 0, 0, 1]]
"""
NAMES = list(REFUSED)


def state_of(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """Modes, times and contents of all files below a folder."""
    found = {}
    for path in [folder, *sorted(folder.rglob("*"))]:
        about = path.lstat()
        text = path.read_bytes() if stat.S_ISREG(about.st_mode) else b""
        found[str(path)] = (about.st_mode, about.st_mtime_ns, text)
    return found


def make_home(folder: Path) -> Path:
    """A folder with a key and, in a folder beside it, a place for a submission."""
    (folder / "key").write_text("sesame")
    rival = folder / "rival"
    rival.mkdir()
    (rival / "link").symlink_to(folder / "key")
    (rival / "folder_link").symlink_to(folder)
    return folder


def known_before(home: Path) -> str:
    return f"KEY = {str(home / 'key')!r}\nNUMBERS = {numbers(os.uname().machine)!r}\n{BEFORE}"


def refused_attack(body: str) -> str:
    lines = "\n".join(f"        {line}" for line in body.splitlines())
    return ATTACK.format(lines=lines, errors=ERRORS)


@pytest.fixture
def home(tmp_path, monkeypatch) -> Iterator[Path]:
    """It must be as before afterwards."""
    monkeypatch.setenv("SECRET", "sesame")
    monkeypatch.setattr("opponents.submission.WAIT_FACTOR", 1000)
    before = children()
    yield make_home(tmp_path)
    assert children() <= before


@pytest.fixture(scope="module")
def attacked(tmp_path_factory) -> Iterator[tuple[Host, Path]]:
    """A host whose submission knows all attacks that are refused, and its home, which stays as it is."""
    home = make_home(tmp_path_factory.mktemp("home"))
    attacks = [refused_attack(body) for body in REFUSED.values()]  # as texts: every match would compile all of them
    path = written(home / "rival", f"{known_before(home)}ATTACKS = {attacks!r}\n{CHOOSE}")
    before, state = children(), state_of(home)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SECRET", "sesame")
        host = Host(path, sandboxed=True)
        yield host, home
    assert host.is_alive
    host.end()
    assert state_of(home) == state
    assert children() <= before


def counts_threads() -> bool:
    """Whether the limit of threads holds here; if root starts the evaluation, it holds on every kernel."""
    release = tuple(map(int, os.uname().release.split("-")[0].split(".")[:2]))
    return os.geteuid() == 0 or release >= THREADS_COUNTED_SINCE


def answer(process: MatchProcess, snake: int) -> int | str:
    """The next answer of a process."""
    poll = select.poll()
    poll.register(process, select.POLLIN)
    while (found := process.next_answer(snake)) is None:
        assert poll.poll(SECONDS * 1000), "no answer"
        process.read()
    return found


def ask(host: Host, **observation: object) -> int | str:
    """What the submission answers in a match of its own."""
    process = host.start()
    try:
        process.post({"seed": 1})
        process.post({"snakes": [FIRST_SNAKE], "observation": observation})
        assert answer(process, HELLO) == 0
        assert answer(process, LOADED) == 0
        return answer(process, FIRST_SNAKE)
    finally:
        process.end()


@pytest.mark.parametrize("name", NAMES)
def test_what_is_refused(attacked, name) -> None:
    host, home = attacked
    if name == "small threads" and not counts_threads():
        pytest.skip("this kernel limits the processes of a user, not of a sandbox (before Linux 5.14)")
    before = state_of(home)
    assert ask(host, attack=NAMES.index(name)) == HELD
    assert state_of(home) == before
    assert host.is_alive


def test_every_call_that_is_not_allowed_is_refused(attacked) -> None:
    assert ask(attacked[0], calls=CALLS) == HELD


def test_two_matches_do_not_meet(attacked) -> None:
    """Both are there at the same time."""
    host, _ = attacked
    for name in (*(name for name in NAMES if name.startswith("meet in")), "a name among matches"):
        matches = [host.start() for _ in range(2)]
        for match in matches:
            match.post({"seed": 1})
            match.post({"snakes": [FIRST_SNAKE], "observation": {"attack": NAMES.index(name)}})
        for match in matches:
            assert [answer(match, snake) for snake in (HELLO, LOADED, FIRST_SNAKE)] == [0, 0, HELD]
        for match in matches:
            match.end()


def play_turn(home: Path, text: str, seconds: float = 10, uncaged: bool = False) -> tuple[list[list[int]], Submission]:
    path = written(home / "rival", known_before(home) + text)
    before = state_of(home)
    game = Game(1)
    with Submission(path, seconds, SubmissionOptions(uncaged)) as submission:
        submission.begin(game.arena, game.seats)
        moves = game.turn(submission).tolist()
    assert state_of(home) == before
    return moves, submission


def one_attack(body: str) -> str:
    return refused_attack(body) + controller("return attack(observation)")


@pytest.mark.parametrize("name", ["kill the parent", "read a key", "internet", "fill memory", "thread bomb"])
def test_a_refusal_costs_an_evaluation_nothing(home, name) -> None:
    moves, submission = play_turn(home, one_attack(REFUSED[name]))
    assert moves == [[HELD] * 3]
    assert submission.problems == []


@pytest.mark.parametrize("uncaged", [False, True], ids=["sandboxed", "uncaged"])
def test_modules_beside_it_do_not_run_in_the_host(home, uncaged) -> None:
    for name in ("json", "ctypes", "struct", "socket", "opponents", "sitecustomize", "encodings", "usercustomize"):
        (home / "rival" / f"{name}.py").write_text(f"open({str(home / 'owned')!r}, 'w').close()\n")
    play_turn(home, one_attack("raise OSError"), uncaged=uncaged)


def test_a_folder_beside_our_packages_does_not_run_in_the_host(tmp_path) -> None:
    """A stranger's folder may have the name of a module of Python's, and lie in the folder of the program."""
    program = tmp_path / "program"
    shutil.copytree(ROOT / "opponents" / "sandbox", program / "opponents" / "sandbox")
    shutil.copy(ROOT / "opponents" / "processes.py", program / "opponents")
    (program / "opponents" / "__init__.py").write_text("")
    (program / "arena").mkdir()
    shutil.copy(ROOT / "arena" / "system.py", program / "arena")
    rival = program / "json"
    rival.mkdir()
    (rival / "__init__.py").write_text(f"open({str(tmp_path / 'owned')!r}, 'w').close()\n")
    path = written(rival, controller("return [[0, 0, 0, 1]]"))
    before = {"PYTHONPATH": str(program), "PYTHONSAFEPATH": "1"}
    start = (
        "import sys; sys.path.remove(sys.argv[1]); import json; sys.path.append(sys.argv[1])\n"
        "from pathlib import Path; from opponents.sandbox.process import ROOT, Host\n"
        "assert str(ROOT) == sys.argv[1]; Host(Path(sys.argv[2]), sandboxed=True).end()"
    )
    words = [sys.executable, "-S", "-c", start, str(program), str(path)]
    done = subprocess.run(words, env=os.environ | before, cwd="/", capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "owned").exists()


def test_without_the_sandbox_the_key_is_read(home) -> None:
    moves, _ = play_turn(home, one_attack(REFUSED["read a key"]), uncaged=True)
    assert moves == [[BROKEN_OUT] * 3]


@pytest.mark.parametrize("name", STOPPED)
def test_what_is_stopped(home, name, monkeypatch) -> None:
    body, line = STOPPED[name]
    if line is WAITED:
        monkeypatch.setattr("opponents.submission.WAIT_FACTOR", WAIT_SECONDS / CPU_SECONDS)
    only_one = "if observation['controlled_snake_index'] != 3: return [[0, 0, 0, 1]]\n"
    moves, submission = play_turn(home, controller(only_one + body), CPU_SECONDS)
    assert [[match[0], match[2]] for match in moves] == [[HELD] * 2]
    if line is None:
        assert submission.problems
        return
    (problem,) = submission.problems
    assert problem.startswith(f"rival/submission.py: {line}")
    assert problem.endswith("(1 x)")
    assert problem.isprintable()


@pytest.mark.parametrize("name", UNLOADABLE)
def test_what_is_stopped_at_import(home, name, monkeypatch) -> None:
    monkeypatch.setattr("opponents.submission.LOAD_SECONDS", CPU_SECONDS)
    body, line = UNLOADABLE[name]
    _, submission = play_turn(home, f"{body}\n{controller('return [[1, 0, 0, 0]]')}")
    (problem,) = submission.problems
    assert f"forfeits all matches: cannot be loaded: {line}" in problem
    assert submission.forfeited == {0}


def test_the_documentation_tells_how_many_are_tried() -> None:
    told = re.findall(r"^\| .* \| ([\d,]+) \| ([\d,]+) \|$", (ROOT / "SECURITY.md").read_text(), re.MULTILINE)
    tables = (FILES, PROCESSES, NETWORK, RIGHTS, MEMORY, STOPPED, UNLOADABLE, CALLS)
    assert [tried for tried, _ in told[: len(tables)]] == [str(len(table)) for table in tables]
    assert all(tried == held for tried, held in told)
