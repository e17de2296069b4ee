"""Malicious submissions in the cage: each is refused or stopped with one line, and nothing of the machine changes."""

import stat
from pathlib import Path

import pytest
from helpers.submissions import Game, children, controller, written

from opponents.cage.process import why_not_caged
from opponents.submission import Submission, SubmissionOptions

pytestmark = pytest.mark.skipif(why_not_caged() is not None, reason=f"this system cannot cage: {why_not_caged()}")

HELD, BROKEN_OUT = 3, 0  # moves by which a submission tells how its attack went
CPU_SECONDS, WAIT_SECONDS = 0.15, 3
IMPORTS = """
import ctypes, json, mmap, os, pickle, resource, signal, socket, subprocess, sys, tempfile, threading, time
FOLDER = os.path.dirname(os.path.abspath(__file__))
libc = ctypes.CDLL(None, use_errno=True)
class Attacked(Exception): pass
PICKLE = pickle.dumps(print).ljust(40)
def call(name, *arguments):
    if getattr(libc, name)(*arguments) < 0:
        raise OSError(ctypes.get_errno(), name)
"""
REFUSED = {
    "kill the parent": "os.kill(os.getppid(), signal.SIGKILL)",
    "kill everybody": "os.kill(-1, signal.SIGKILL)",
    "kill the group": "os.killpg(0, signal.SIGKILL)",
    "stop the parent": "os.kill(1, signal.SIGSTOP)",
    "trace the parent": "call('ptrace', 16, os.getppid(), 0, 0)",
    "fork bomb": "while True: os.fork()",
    "daemon": "subprocess.Popen(['/bin/sleep', '1000'], start_new_session=True)",
    "leave the session": "os.setsid()",
    "outlive the parent": "call('prctl', 1, ctypes.c_ulong(0), 0, 0, 0)",
    "exec": "os.execv(sys.executable, [sys.executable])",
    "thread bomb": "while True: threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()",
    "fill the disk": "file = open(tempfile.mkstemp()[1], 'wb')\nfor _ in range(99): file.write(bytes(1 << 20))",
    "many files": "for i in range(2_000): open(os.path.join(tempfile.gettempdir(), str(i)), 'w').close()",
    "fill memory": "kept = []\nfor _ in range(64): kept.append(mmap.mmap(-1, 256 << 20))",
    "fill memory without an address": "call('memfd_create', b'x', 0)",
    "fill shared memory": "call('shmget', 0, ctypes.c_size_t(1 << 30), 0o1600)",
    "internet": "socket.create_connection(('1.1.1.1', 53), 1)",
    "own network": "socket.create_connection(('127.0.0.1', 22), 1)",
    "local sockets": "socket.socket(socket.AF_UNIX).connect('/run/dbus/system_bus_socket')",
    "read a key": "open(KEY).read()",
    "read a key by a link": "open('link').read()",
    "read a key by a linked folder": "open('folder_link/key').read()",
    "read the machine's users": "open('/etc/passwd').read()",
    "read the parent's memory": "open(f'/proc/{os.getppid()}/mem', 'rb').read(1)",
    "see processes": "if not [name for name in os.listdir('/proc') if name.isdigit()]: raise OSError",
    "see a secret variable": "os.environ['SECRET']",
    "see disks": "open('/dev/vda', 'rb').read(1)",
    "write beside": "open(os.path.join(FOLDER, 'beside.txt'), 'w')",
    "write outside": "open(os.path.join(os.path.dirname(KEY), 'new.txt'), 'w')",
    "write packages": "open(os.path.join(os.path.dirname(os.__file__), 'site.py'), 'a')",
    "write itself": "open(__file__, 'a')",
    "change modes": "os.chmod(__file__, 0o777)",
    "remove itself": "os.remove(__file__)",
    "mount": "call('mount', b'tmpfs', b'/submission', b'tmpfs', 0, None)",
    "remount": "call('mount', None, b'/submission', None, 32 | 4096, None)",
    "new namespaces": "call('unshare', 0x10000000)",
    "other root": "os.chroot('/scratch')",
    "become root": "os.setuid(0)",
    "greater priority": "os.nice(-10)",
    "signals by a file": "import fcntl\nfcntl.fcntl(0, fcntl.F_SETOWN, os.getppid())",
    "more memory": "resource.setrlimit(resource.RLIMIT_AS, (-1, -1))",
    "a debugger's memory": "call('process_vm_readv', 1, None, 0, None, 0, 0)",
    # Every match finds its scratch folder empty.
    "meet in the scratch folder": "open(f'/scratch/{observation[\"controlled_snake_index\"]}', 'x')\nraise OSError",
}
ERRORS = "(OSError, MemoryError, RuntimeError, ValueError, KeyError)"
LOOP = "while True: pass"
EVERY_FILE = "for n in range(3, 50):\n    try:\n        {}\n    except OSError: pass\n"
SLOW, DISTURBED = f"took more than {CPU_SECONDS} s of CPU time and was stopped", "closed or disturbed its pipe"
WAITED = f"gave no answer for {WAIT_SECONDS} s and was stopped"
STOPPED = {
    "loop": (LOOP, SLOW),
    "loop that catches all": ("while True:\n    try:\n        while True: pass\n    except BaseException: pass", SLOW),
    "ignored signals": (
        f"for n in range(1, 32):\n    if n not in (9, 19): signal.signal(n, signal.SIG_IGN)\n{LOOP}",
        SLOW,
    ),
    "threads at work": (
        "def burn():\n    while True: pass\n"
        "for _ in range(3): threading.Thread(target=burn, daemon=True).start()\ntime.sleep(30)",
        SLOW,
    ),
    "sleep": ("time.sleep(1000)", WAITED),
    "stop itself": ("os.kill(os.getpid(), signal.SIGSTOP)", WAITED),
    "exit": ("os._exit(0)", "ended its process (exit code 0)"),
    "crash": ("ctypes.string_at(0)", "crashed (signal 11)"),
    "deep recursion": ("f = lambda: f()\nf()", "raised RecursionError"),
    "bad shape": ("return [[[1]] * 4] * 4", "returned [[[1], [1], [1], [1]]"),
    "not numbers": ("return [[float('nan')] * 4]", "returned [[nan, nan, nan, nan]]"),
    "huge answer": ("return [[2] * 10**6]", "returned [[2, 2, 2, 2"),
    "huge output": ("for _ in range(100): os.write(1, bytes(1 << 20)); os.write(2, bytes(1 << 20))", "returned None"),
    "hostile answer": (
        "class Odd:\n    def __getattr__(self, name): raise SystemExit\nreturn Odd()",
        "raised SystemExit",
    ),
    "hostile error": (
        "class E(Exception):\n    def __str__(self): raise KeyboardInterrupt\nraise E",
        "raised E: (without",
    ),
    "terminal codes": ("raise ValueError('\\x1b]0;x\\x07' + 'x' * 10**6)", "raised ValueError: ?]0;x?xxx"),
    "garbage in the pipe": (EVERY_FILE.format("os.write(n, bytes(range(255, 0, -1)))") + LOOP, DISTURBED),
    "pickle in the pipe": (EVERY_FILE.format("os.write(n, bytes([0, 0, 0, 40]) + PICKLE)"), DISTURBED),
    "flood in the pipe": (EVERY_FILE.format("while True: os.write(n, bytes(1 << 16))"), DISTURBED),
    "moves ahead of time": (EVERY_FILE.format("os.write(n, bytes([0, 0, 0, 6]) + b'[4, 3]' * 9)") + LOOP, DISTURBED),
    "closed files": (f"os.closerange(0, 100)\n{LOOP}", DISTURBED),
    "patched modules": ("json.dumps = lambda *a, **k: 'garbage'\nsys.stdout = os.close = None", DISTURBED),
    "patched numbers": ("import numpy\nnumpy.array = None\nnumpy.array([1])", "raised TypeError"),
}
UNLOADABLE = {
    "exit at import": ("os._exit(0)", "ended its process (exit code 0)"),
    "loop at import": (LOOP, SLOW),
    "quiet exit at import": ("sys.exit()", "SystemExit"),
    "patched builtins": ("import builtins\nbuiltins.callable = None", "ended its process (exit code 0)"),
}


def state_of(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """Modes, times and contents of all files below a folder."""
    found = {}
    for path in [folder, *sorted(folder.rglob("*"))]:
        about = path.lstat()
        text = path.read_bytes() if stat.S_ISREG(about.st_mode) else b""
        found[str(path)] = (about.st_mode, about.st_mtime_ns, text)
    return found


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A folder with a key and, in a folder beside it, a place for a submission; it must be as before afterwards."""
    monkeypatch.setenv("SECRET", "sesame")
    monkeypatch.setattr("opponents.submission.LOAD_SECONDS", CPU_SECONDS)
    monkeypatch.setattr("opponents.submission.WAIT_FACTOR", 1000)
    (tmp_path / "key").write_text("sesame")
    folder = tmp_path / "rival"
    folder.mkdir()
    (folder / "link").symlink_to(tmp_path / "key")
    (folder / "folder_link").symlink_to(tmp_path)
    before = children()
    yield tmp_path
    assert children() <= before


def play_turn(home: Path, text: str, seconds: float = 10, uncaged: bool = False) -> tuple[list[list[int]], Submission]:
    path = written(home / "rival", f"KEY = {str(home / 'key')!r}\n{IMPORTS}{text}")
    before = state_of(home)
    game = Game(2)
    with Submission(path, seconds, SubmissionOptions(uncaged)) as submission:
        submission.begin(game.arena, game.seats)
        moves = game.turn(submission).tolist()
    assert state_of(home) == before
    return moves, submission


def attack(body: str) -> str:
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    return controller(f"try:\n{lines}except {ERRORS}:\n    return [[0, 0, 0, 1]]\nreturn [[1, 0, 0, 0]]")


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(home, name) -> None:
    moves, submission = play_turn(home, attack(REFUSED[name]))
    assert moves == [[HELD] * 3] * 2
    assert submission.problems == []


@pytest.mark.parametrize("uncaged", [False, True], ids=["caged", "uncaged"])
def test_modules_beside_it_do_not_run_in_the_host(home, uncaged) -> None:
    for name in ("json", "ctypes", "struct", "socket", "opponents", "sitecustomize", "encodings"):
        (home / "rival" / f"{name}.py").write_text(f"open({str(home / 'owned')!r}, 'w').close()\n")
    play_turn(home, attack("raise OSError"), uncaged=uncaged)


def test_without_the_cage_the_key_is_read(home) -> None:
    moves, _ = play_turn(home, attack(REFUSED["read a key"]), uncaged=True)
    assert moves == [[BROKEN_OUT] * 3] * 2


@pytest.mark.parametrize("name", STOPPED)
def test_what_is_stopped(home, name, monkeypatch) -> None:
    body, line = STOPPED[name]
    if line is WAITED:
        monkeypatch.setattr("opponents.submission.WAIT_FACTOR", WAIT_SECONDS / CPU_SECONDS)
    only_one = "if observation['controlled_snake_index'] != 3: return [[0, 0, 0, 1]]\n"
    moves, submission = play_turn(home, controller(only_one + body), CPU_SECONDS)
    assert [[match[0], match[2]] for match in moves] == [[HELD] * 2] * 2
    (problem,) = submission.problems
    assert problem.startswith(f"rival/submission.py: {line}")
    assert problem.endswith("(2 x)")
    assert problem.isprintable()


@pytest.mark.parametrize("name", UNLOADABLE)
def test_what_is_stopped_at_import(home, name) -> None:
    body, line = UNLOADABLE[name]
    _, submission = play_turn(home, f"{body}\n{controller('return [[1, 0, 0, 0]]')}")
    (problem,) = submission.problems
    assert f"forfeits all matches: cannot be loaded: {line}" in problem
    assert submission.forfeited == {0, 1}
