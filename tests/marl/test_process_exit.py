"""The end of a command's process: at once, but with all that Python promises."""

import pstats
import shlex
import subprocess
import sys

from arena.jit import ROOT

ENDING = """
import atexit, ctypes, sys, threading, time
from marl.process_exit import leave

class Module:
    def __del__(self):
        print("taken down", flush=True)

stays = Module()
atexit.register(print, "exit function", end="")
threading.Thread(target=lambda: (time.sleep(0.2), print("thread", end=" "))).start()
"""


def run(*words: str, **options) -> subprocess.CompletedProcess[str]:
    words = (sys.executable, *words)
    return subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=120, **options)


def test_threads_exit_functions_and_output_come_first() -> None:
    done = run("-c", ENDING + "print('last line', end=' ')\nleave(7)")
    assert (done.returncode, done.stdout, done.stderr) == (7, "last line thread exit function", "")


def test_what_c_has_printed_is_not_lost() -> None:
    done = run("-c", ENDING + "import torch\nctypes.CDLL(None).printf(b'by C ')\nleave(0)")
    assert done.returncode == 0
    assert "by C " in done.stdout


def test_a_program_around_it_has_the_last_word() -> None:
    code = (
        "import textwrap, types\ntool = types.ModuleType('tool')\nexec(text, vars(tool))\ntool.call(lambda: leave(7))"
    )
    text = "def call(f):\n    try:\n        f()\n    finally:\n        print(' tool', end='')\n"
    done = run("-c", f"{ENDING}text = {text!r}\n{code}")
    assert done.returncode == 7
    assert done.stdout.endswith("taken down\n")
    assert " tool" in done.stdout


def test_a_profile_of_a_command_is_written(tmp_path) -> None:
    file = tmp_path / "profile"
    done = run("-m", "cProfile", "-o", str(file), "-m", "marl", "--help")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("usage:")
    assert any(name == "_overview" for _, _, name in pstats.Stats(str(file)).stats)


def test_a_closed_output_is_no_error() -> None:
    command = f"{shlex.quote(sys.executable)} -m marl --help | head -c 1"
    done = subprocess.run(command, shell=True, cwd=ROOT, capture_output=True)
    assert (done.stdout, done.stderr) == (b"u", b"")
