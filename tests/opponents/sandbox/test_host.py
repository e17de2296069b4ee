"""The host of the sandbox: locked before it meets anything of a stranger, and gone with the evaluation."""

import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from helpers.command import ROOT
from helpers.processes import wait_until
from helpers.submissions import Game, children, controller, written

from opponents.sandbox import environment, limits
from opponents.sandbox.namespaces import CAP_SYS_ADMIN
from opponents.sandbox.process import Host, why_not_sandboxed
from opponents.submission import Submission

pytestmark = pytest.mark.skipif(
    why_not_sandboxed() is not None, reason=f"this system cannot sandbox: {why_not_sandboxed()}"
)

SECONDS = 120  # for processes to end on a busy machine
BAD_LIBRARY = b"no library\n"
REMOUNTS = """
import ctypes, json, os, socket, sys
sys.path[0] = {root!r}
from opponents import processes
from opponents.sandbox import host, namespaces
namespaces.enter()
child = os.fork()
if child:
    os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) & 255)
out = os.dup(1)
watcher, watched = socket.socketpair()
host._lock_in({folder!r}, watched.fileno())
tried = dict()
def attempt(name, function, *arguments):
    try:
        processes.call(function, *arguments)
        tried[name] = "done"
    except OSError as error:
        tried[name] = "refused"
REMOUNT, BIND, DETACH = 32, 4096, 2
number = ctypes.c_ulong
for place in ("/", "/submission", os.path.dirname(os.__file__), "/usr/lib", "/dev/null"):
    attempt("remount " + place, "mount", None, place.encode(), None, number(REMOUNT | BIND), None)
    attempt("umount " + place, "umount2", place.encode(), DETACH)
attempt("new user namespace", "unshare", 0x10000000)
attempt("other namespaces", "unshare", 0x40000000)
attempt("socket", "socket", 1, 1, 0)
attempt("exec", "execv", b"/submission/submission.py", None)
namespaces.mount_scratch()  # what it is left for
os.write(out, json.dumps(tried).encode())
"""


def only_child(of: int) -> int:
    """A process's child, as soon as there is one. The host is the child of the process that watches."""
    wait_until(lambda: children(of), SECONDS, f"a child of {of}")
    (found,) = children(of)
    return found


def wait_for_the_end(process: int) -> None:
    wait_until(lambda: not os.path.exists(f"/proc/{process}"), SECONDS, f"end of {process}")


def kernel() -> tuple[int, ...]:
    return tuple(map(int, os.uname().release.split("-")[0].split(".")[:2]))


def status_of(process: int) -> dict[str, str]:
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return {name: text.strip() for name, _, text in (line.partition(":") for line in lines)}


@pytest.mark.parametrize("value", ["/usr/lib:", "/usr/lib;", "", ".", "{rival}/.", "{link}"])
def test_libraries_beside_a_submission_are_not_loaded(tmp_path, monkeypatch, value) -> None:
    import torch  # noqa: F401 (its libraries are those that may be named)

    rival = tmp_path / "rival"
    rival.mkdir()
    (tmp_path / "link").symlink_to(rival)
    monkeypatch.setenv("LD_LIBRARY_PATH", value.format(rival=rival, link=tmp_path / "link"))
    names = {Path(line.split()[-1]).name for line in Path("/proc/self/maps").read_text().splitlines() if ".so" in line}
    assert names
    for name in names:
        (rival / name).write_bytes(BAD_LIBRARY)
    path = written(rival, controller("return [[0, 1, 0, 0]]", "import numpy"))
    game = Game(1)
    with Submission(path) as submission:
        submission.begin(game.arena, game.seats)
        assert game.turn(submission).tolist() == [[1] * 3]
    assert submission.problems == []


def test_a_network_of_torch_plays_without_a_refused_call(tmp_path, capfd) -> None:
    """As many teams of the competition have one: it loads, computes, and asks for no unknown call."""
    begin = (
        "import torch\nnet = torch.nn.Sequential(torch.nn.Linear(400, 400), torch.nn.ReLU(), torch.nn.Linear(400, 4))"
    )
    code = "return [[0, 0, 0, int(net(torch.ones(3000, 400)).isfinite().all())]]"
    game = Game(1)
    with Submission(written(tmp_path, controller(code, begin))) as submission:
        submission.begin(game.arena, game.seats)
        assert game.turn(submission).tolist() == [[3] * 3]
    assert submission.problems == []
    assert "system call" not in capfd.readouterr().err


def test_settings_of_packages_beside_a_submission_are_not_read(tmp_path) -> None:
    (tmp_path / ".numba_config.yaml").write_text("disable_jit: 1\n")
    path = written(tmp_path, controller("return [[0, 0, 1 - numba.config.DISABLE_JIT, 1]]", "import numba"))
    game = Game(1)
    with Submission(path) as submission:
        submission.begin(game.arena, game.seats)
        assert game.turn(submission).tolist() == [[2] * 3]


def test_what_holds_the_host(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("PYTHONSTARTUP", "x.py")
    monkeypatch.setenv("LD_PRELOAD", "")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    before = children()
    host = Host(written(tmp_path, "import numpy\n"), sandboxed=True)
    (watching,) = children() - before
    process = only_child(watching)
    status = status_of(process)
    assert int(status["CapEff"], 16) | int(status["CapPrm"], 16) == 1 << CAP_SYS_ADMIN
    assert int(status["CapBnd"], 16) == int(status["CapAmb"], 16) == int(status["CapInh"], 16) == 0
    assert status["NoNewPrivs"] == "1"
    assert status["Seccomp"] == "2"
    assert int(status_of(watching)["CapEff"], 16) == 0
    limited = dict(re.findall(r"^(Max [a-z ]+?) {2,}(\w+)", Path(f"/proc/{process}/limits").read_text(), re.MULTILINE))
    assert limited["Max data size"] == str(limits.HOST_MEMORY_BYTES)
    if os.geteuid() == 0 or kernel() >= limits.THREADS_COUNTED_SINCE:
        assert limited["Max processes"] == str(limits.THREADS)
    assert int(limited["Max cpu time"]) <= limits.HOST_CPU_SECONDS
    variables = Path(f"/proc/{process}/environ").read_bytes().decode().strip("\0").split("\0")
    known = {*environment.ALWAYS, *environment.SANDBOXED, "LANG", "LD_LIBRARY_PATH", "LC_CTYPE"}
    assert {variable.partition("=")[0] for variable in variables} <= known
    # The user that Linux counts threads of is not its user 0, which has no limit.
    assert status["Uid"].split()[0] != "0"
    host.end()
    wait_for_the_end(process)


def test_nothing_can_be_mounted_over_by_code_in_the_host(tmp_path) -> None:
    written(tmp_path, "")
    program = REMOUNTS.format(root=str(ROOT), folder=str(tmp_path))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd="/")
    assert done.returncode == 0, done.stderr
    tried = json.loads(done.stdout)
    assert len(tried) == 14
    assert set(tried.values()) == {"refused"}, tried


def test_a_host_that_imports_ends_with_the_evaluation(tmp_path) -> None:
    """Killed, the arena cannot tell the host; and the host does not look while it imports."""
    packages = tmp_path / "site-packages"
    packages.mkdir()
    (packages / "pandas.py").write_text("while True: pass\n")
    rival = tmp_path / "rival"
    rival.mkdir()
    path = written(rival, "import pandas\n")
    modules = "from pathlib import Path; from opponents.sandbox.process import Host"
    begun = f"{modules}; Host(Path({str(path)!r}), sandboxed=True)"
    variables = os.environ | {"PYTHONPATH": os.pathsep.join([str(packages), str(ROOT)])}
    arena = subprocess.Popen([sys.executable, "-c", begun], env=variables, cwd=ROOT)
    try:
        watching = only_child(arena.pid)
        wait_until(lambda: any(map(imports, children(watching))), SECONDS, "the import")
        process = only_child(watching)
    finally:
        arena.kill()
        arena.wait()
    wait_for_the_end(watching)
    wait_for_the_end(process)


def imports(process: int) -> bool:
    """Whether the host has come to the import that does not end."""
    try:
        return status_of(process)["Seccomp"] == "2" and time.clock_gettime(~process << 3 | 2) > 0.6  # CPU time
    except OSError:  # another process that has ended
        return False


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        ("/usr/lib:/opt/x", ["/usr/lib", "/opt/x"]),
        ("/usr/lib;/opt/x:", ["/usr/lib", "/opt/x"]),
        (":.:x:$ORIGIN/x:~:", []),
        ("/", []),
        ("{folder}:{folder}/x:{folder}/..:/usr/lib", ["/usr/lib"]),
    ],
)
def test_which_entries_of_a_path_are_kept(tmp_path, monkeypatch, value, kept) -> None:
    folder = tmp_path.resolve()
    monkeypatch.setenv("PYTHONPATH", value.format(folder=folder))
    assert environment.module_folders(folder) == kept


def test_the_language_is_no_way_in(tmp_path, monkeypatch) -> None:
    for value, kept in (("C.UTF-8", True), ("../x", False), ("/x", False), ("", False)):
        monkeypatch.setenv("LANG", value)
        assert ("LANG" in environment.host_environment(tmp_path, sandboxed=True)) == kept


def test_a_stopped_host_does_not_outlive_the_evaluation(tmp_path) -> None:
    before = children()
    host = Host(written(tmp_path, ""), sandboxed=True)
    (watching,) = children() - before
    process = only_child(watching)
    os.kill(process, signal.SIGSTOP)
    used = cpu_seconds_of_children()
    host.end()
    wait_for_the_end(process)
    assert cpu_seconds_of_children() - used < 0.5  # the watching process sleeps meanwhile


def cpu_seconds_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def test_a_call_that_is_in_no_table_is_refused_and_told_once(tmp_path, capfd) -> None:
    ask = "for number in (999, 999, 1000): assert libc.syscall(number) == -1 and ctypes.get_errno() == errno.ENOSYS"
    before = "import ctypes, errno\nlibc = ctypes.CDLL(None, use_errno=True)"
    game = Game(1)
    with Submission(written(tmp_path, controller(f"{ask}\nreturn [[0, 1, 0, 0]]", before))) as submission:
        submission.begin(game.arena, game.seats)
        assert game.turn(submission).tolist() == [[1] * 3]
    assert submission.problems == []
    lines = capfd.readouterr().err.splitlines()
    if not lines:
        pytest.skip("this kernel does not tell (before Linux 5.0)")
    start = "snakes: a submission asked for system call"
    assert lines == [f"{start} {number} of {os.uname().machine}: unknown, so refused" for number in (999, 1000)]
