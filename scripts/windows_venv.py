"""python scripts/windows_venv.py [dev]: make .venv what the lock files say, where there is no shell for venv.sh.

With the packages of the tests if "dev" is given, and with those of a GPU where there is one. What is installed is
recorded in .venv/setup.<part>: the hash of everything it depends on, written last. Any Python 3.10 to 3.13, which .venv
is made with; the standard library alone.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parent.parent
LOCKS = {"run": "requirements.lock", "gpu": "requirements-gpu.lock", "dev": "requirements-dev.lock"}
CUDA_TORCH = "https://download.pytorch.org/whl/cu130"  # the torch of PyPI has no CUDA on Windows
ON_WINDOWS = os.name == "nt"
OLDEST, NEWEST = (3, 10), (3, 13)


def main(argv: Sequence[str]) -> None:
    """Install what is missing; a few milliseconds if nothing is."""
    if not OLDEST <= sys.version_info[:2] <= NEWEST:
        fail(f"Python 3.10 to 3.13 is needed; this is {sys.version.split()[0]}")
    if not {*argv} <= {"dev"}:
        fail(f"unknown part {argv[0]}; known: dev")
    key = wanted()
    stale = [part for part in ("run", *argv) if not is_done(part, key)]
    if not is_done("gpu", key) and has_gpu():
        stale.append("gpu")
    if not stale:
        return
    print("snakes: setting up .venv (once, some minutes) ...", file=sys.stderr)
    if not works():
        venv.create(folder(), clear=True, with_pip=True)
    for part in stale:
        record(part).unlink(missing_ok=True)
    if "gpu" in stale and ON_WINDOWS:
        # Without its packages, which the lock file has: this index has other versions of them.
        install("--force-reinstall", "--no-deps", "--index-url", CUDA_TORCH, locked_torch())
    install(*(word for part in stale for word in ("-r", str(ROOT / LOCKS[part]))))
    if "run" in stale:  # setuptools is in the lock file, so nothing more has to be fetched to build with
        install("--no-deps", "--no-build-isolation", "-e", str(ROOT))
    for part in stale:
        record(part).write_text(key, "utf-8")


def folder() -> Path:
    """That of the environment."""
    return ROOT / ".venv"


def python() -> Path:
    """The interpreter of the environment."""
    return folder() / ("Scripts/python.exe" if ON_WINDOWS else "bin/python")


def record(part: str) -> Path:
    """The file that says what of a part is installed."""
    return folder() / f"setup.{part}"


def wanted() -> str:
    """The place counts too: a moved folder breaks an environment."""
    digest = hashlib.sha256(f"{ROOT}\n".encode())
    for name in ("pyproject.toml", *LOCKS.values()):
        digest.update((ROOT / name).read_bytes())
    return digest.hexdigest()


def is_done(part: str, key: str) -> bool:
    """Whether a part is installed as it is wanted."""
    try:
        return python().is_file() and record(part).read_text("utf-8") == key
    except OSError:
        return False


def has_gpu() -> bool:
    """Whether NVIDIA's driver sees a GPU."""
    program = shutil.which("nvidia-smi")
    return program is not None and subprocess.run([program, "-L"], capture_output=True).returncode == 0


def works() -> bool:
    """Whether the environment that is there starts, and has pip."""
    try:
        return subprocess.run([python(), "-m", "pip", "--version"], capture_output=True).returncode == 0
    except OSError:
        return False


def locked_torch() -> str:
    """torch as the lock file has it."""
    lines = (ROOT / LOCKS["run"]).read_text("utf-8").splitlines()
    return next(line for line in lines if line.startswith("torch=="))


def install(*words: str) -> None:
    """pip's own output goes to a log."""
    log = folder() / "setup.log"
    with open(log, "ab") as out:
        command = [python(), "-m", "pip", "install", "--disable-pip-version-check", *words]
        if subprocess.run(command, cwd=ROOT, stdout=out, stderr=subprocess.STDOUT).returncode:
            fail(f"could not install the packages; see {log}")


def fail(why: str) -> NoReturn:
    print(f"snakes: {why}", file=sys.stderr)
    sys.exit(2)


if __name__ == "__main__":
    main(sys.argv[1:])
