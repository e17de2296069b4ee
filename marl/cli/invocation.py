"""How the program was started, and commands in messages that can be pasted into the same shell."""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

# The ranks of a launch are started by other words than the launcher; they inherit its words by this variable.
VARIABLE = "SNAKES_PROGRAM"
SCRIPT = "snakes"  # the program's name where it is installed
LONG = len(".venv/bin/python -m marl")
# Backslashes are of Windows: its shells quote otherwise, and have scripts of their own.
ON_WINDOWS = os.sep == "\\"
SETUP = "train.bat" if ON_WINDOWS else "train_ddp.sh"  # the script that sets up .venv and trains
TRAIN = f".{os.sep}{SETUP}"
ACTIVATE = ".venv\\Scripts\\activate" if ON_WINDOWS else "source .venv/bin/activate"


def program() -> str:
    """The words before the name of a command: `snakes`, `python -m marl` or `.venv/bin/python -m marl`."""
    return os.environ.get(VARIABLE) or _started_as()


def command(*words: str | Path) -> str:
    """A command of this program as it is typed here."""
    return f"{program()} {joined([str(word) for word in words])}"


def example(*words: str) -> str:
    """A command in a list of examples: short, where this program is started by a long path."""
    return f"{SCRIPT if is_long() else program()} {joined(words)}"


def train_with(variable: str, value: object) -> str:
    """The start of a training by the script, with an environment variable."""
    return f"set {variable}={value}&& {TRAIN}" if ON_WINDOWS else f"{variable}={value} {TRAIN}"


def is_long() -> bool:
    """Whether the program's words are too long to be repeated in every line."""
    return len(program()) > LONG


def interpreter() -> str:
    """The Python that runs, as it is typed here: its name if the shell finds it by that, else its path."""
    typed = sys.orig_argv[0]
    found = None if os.path.dirname(typed) else shutil.which(typed)
    if found is not None and _is_same(found, sys.executable):
        return joined([typed])
    return _near(sys.executable)


def _started_as() -> str:
    script = sys.argv[0]
    if Path(script).stem != "snakes":
        return f"{interpreter()} -m marl"
    found = shutil.which("snakes")
    # On Windows what the shell finds has an ending, and what the script says about itself has none.
    is_found = found is not None and _is_same(found.removesuffix(".EXE").removesuffix(".exe"), script)
    return "snakes" if is_found else _near(script)


def _is_same(path: str, other: str) -> bool:
    return os.path.normcase(os.path.abspath(path)) == os.path.normcase(os.path.abspath(other))


def joined(words: Sequence[str]) -> str:
    """Words as they are typed into a shell, quoted where they must be."""
    return subprocess.list2cmdline(words) if ON_WINDOWS else shlex.join(words)


def _near(path: str) -> str:
    """The path for a shell, relative if it lies below the current folder."""
    try:
        relative = os.path.relpath(path)
    except ValueError:  # on another drive
        return joined([path])
    if relative.startswith(os.pardir):
        return joined([os.path.abspath(path)])
    return joined([relative if os.path.dirname(relative) else os.path.join(os.curdir, relative)])
