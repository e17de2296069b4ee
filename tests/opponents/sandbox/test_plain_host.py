"""Processes of matches where there is no sandbox. They work on every system."""

import os
import socket
import subprocess
import sys
from collections import deque
from pathlib import Path

import pytest
from helpers.submissions import controller, written

from arena import system
from opponents.sandbox import plain_host
from opponents.sandbox.controller import HELLO, LOADED
from opponents.sandbox.plain_host import PlainHost, start_host
from opponents.sandbox.process import ROOT, Broken, CannotSandbox, Host, MatchProcess
from opponents.sandbox.side_by_side import Expected, Job, run_jobs

SECONDS = 120.0  # for what must come
SNAKE = 2
OBSERVATION = {"1": [[0, 1]], "state_map": []}


def asked(host: PlainHost, seconds: float = SECONDS) -> Job:
    """The answers of a new process: that it is there, that the file is loaded, and a move."""

    def start() -> MatchProcess:
        process = host.start()
        process.post({"seed": 1})
        process.post({"snakes": [SNAKE], "observation": OBSERVATION})
        return process

    expected = [
        Expected(HELLO, SECONDS, SECONDS),
        Expected(LOADED, SECONDS, SECONDS),
        Expected(SNAKE, seconds, seconds),
    ]
    job = Job(start, deque(expected))
    run_jobs([job], 1)
    return job


def test_it_answers_and_ends(tmp_path) -> None:
    host = PlainHost(written(tmp_path, controller("return [[0, 0, 0, 1]]")))
    job = asked(host)
    assert (job.failure, job.answers) == (None, [0, 0, 3])
    assert job.process.trouble() is None
    (child,) = host._children.values()
    host.end()
    assert child.returncode is not None
    assert not host.is_alive


def test_what_goes_wrong_is_told(tmp_path) -> None:
    host = PlainHost(written(tmp_path, controller("raise ValueError('no')")))
    assert asked(host).answers == [0, 0, "raised ValueError: no"]
    host.end()
    host = PlainHost(written(tmp_path, "import os\nos._exit(7)\n"))
    job = asked(host)
    assert job.answers == [0]
    # Whether the process had ended before it was looked at is a matter of time.
    assert job.failure in (
        "ended its process (exit code 7)",
        "closed or disturbed its pipe to the arena, or was killed",
    )
    host.end()


def test_a_move_has_a_time_limit(tmp_path) -> None:
    host = PlainHost(written(tmp_path, controller("while True: pass")))
    job = asked(host, seconds=0.2)
    assert job.answers == [0, 0]
    assert "gave no answer for 0.2 s" in job.failure
    assert host._children == {}
    host.end()


def test_only_the_child_that_has_the_token_is_listened_to(tmp_path, monkeypatch) -> None:
    begin = PlainHost._start_child

    def begin_late(self, port, token):
        with socket.create_connection(("127.0.0.1", port)) as stranger:
            stranger.sendall(b"x" * len(token))
            return begin(self, port, token)

    monkeypatch.setattr(PlainHost, "_start_child", begin_late)
    host = PlainHost(written(tmp_path, controller("return [[1, 0, 0, 0]]")))
    assert asked(host).answers == [0, 0, 0]
    host.end()


def test_a_child_that_does_not_start_is_told(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(plain_host, "BOOT", "raise SystemExit(1)")
    host = PlainHost(written(tmp_path, controller("return [[1, 0, 0, 0]]")))
    with pytest.raises(Broken, match="could not be started"):
        host.start()
    host.end()


ARENA = """
import os, sys
from pathlib import Path
from opponents.sandbox.plain_host import PlainHost
process = PlainHost(Path(sys.argv[1])).start()
process.post({"seed": 1})
process.post({"snakes": [2], "observation": {}})
sys.stdin.read()
os._exit(0)  # as if it were killed: nothing is put in order
"""


def test_it_ends_with_the_arena(tmp_path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(SECONDS)
        held = f"import socket\nheld = socket.create_connection({server.getsockname()!r})\n"
        path = written(tmp_path, controller("while True: pass", before=held))
        with subprocess.Popen([sys.executable, "-c", ARENA, path], cwd=ROOT, stdin=subprocess.PIPE) as arena:
            submission, _ = server.accept()
    with submission:
        submission.settimeout(SECONDS)
        assert submission.recv(1) == b""  # its process is gone
    assert arena.returncode == 0


def test_the_host_that_the_system_has(tmp_path, monkeypatch) -> None:
    path = written(tmp_path, controller("return [[1, 0, 0, 0]]"))
    monkeypatch.setattr(system, "HAS_FORK", False)
    with pytest.raises(CannotSandbox, match="needs Linux"):
        start_host(path, sandboxed=True)
    host = start_host(path, sandboxed=False)
    assert isinstance(host, PlainHost)
    assert not isinstance(host, Host)
    host.end()


def test_variables_of_windows_reach_the_child(monkeypatch) -> None:
    from opponents.sandbox import environment

    for name in ("SYSTEMROOT", "TEMP"):
        monkeypatch.setenv(name, os.path.abspath(os.sep))
    found = environment.host_environment(Path(__file__).parent, sandboxed=False)
    assert found["SYSTEMROOT"] == found["TEMP"] == os.path.abspath(os.sep)
