"""Other Pythons of this machine: those that scripts/old_pythons.sh prepared, of pyenv, and on the PATH."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

HOME = Path("~").expanduser()  # stays "~" for a user without a home
PREPARED = HOME / ".cache" / "snakes_3v3" / "pythons"
PYENV = HOME / ".pyenv" / "versions"
WORKS = "import sys, numpy; sys.exit(sys.version_info[:2] != (3, {}))"


def with_numpy(minor: int) -> Path | None:
    """An interpreter of Python 3.minor that starts and has numpy."""
    for path in _candidates(minor):
        try:
            # An entry of the PATH may be a launcher of pyenv's that fails, or wait for something.
            done = subprocess.run([path, "-I", "-c", WORKS.format(minor)], capture_output=True, timeout=300)
        except (OSError, subprocess.TimeoutExpired):
            continue
        if done.returncode == 0:
            return path
    return None


def _candidates(minor: int) -> Iterator[Path]:
    name = f"python3.{minor}"
    yield PREPARED / name / "bin" / "python"
    yield from sorted(PYENV.glob(f"3.{minor}.*/bin/{name}"))
    if found := shutil.which(name):
        yield Path(found)
