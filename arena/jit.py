"""How the project's Numba functions are compiled and where the machine code is kept.

Numba's own cache watches the file a function stands in, not the files of the functions it calls: after an edit of
rules.py the loops in cpu.py would go on playing by the old rules. So the cache folder is named after the text of all
our sources; another text is another folder.
"""

import hashlib
import os
import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numba

# The folders whose compiled functions call each other.
_PACKAGES = ("arena", "opponents", "marl")
_ANNOUNCE_AFTER = 2.0  # seconds: loading from the cache takes less, compiling more


def _cache_folder() -> Path:
    root = Path(__file__).resolve().parent.parent
    digest = hashlib.sha256()
    for package in _PACKAGES:
        for source in sorted((root / package).glob("*.py")):
            text = source.read_bytes()
            if b"njit" in text:
                digest.update(source.name.encode() + text)
    parent = root / "arena" / "__pycache__"
    try:
        parent.mkdir(exist_ok=True)
        writable = os.access(parent, os.W_OK)
    except OSError:
        writable = False
    if not writable:
        parent = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "snakes_3v3"
    return parent / f"numba-{digest.hexdigest()[:16]}"


def _choose_cache() -> None:
    if "NUMBA_CACHE_DIR" in os.environ:  # the user's choice stands
        return
    folder = _cache_folder()
    for old in folder.parent.glob("numba-*"):
        if old != folder:
            shutil.rmtree(old, ignore_errors=True)
    numba.config.CACHE_DIR = str(folder)


_choose_cache()

# Without reference counting of array views (_nrt) the batch step is 2.5 times faster: nothing here allocates.
_OPTIONS = {"cache": True, "error_model": "numpy", "_nrt": False, "nogil": True}
njit = numba.njit(**_OPTIONS)
njit_inline = numba.njit(**_OPTIONS, inline="always")
njit_parallel = numba.njit(**(_OPTIONS | {"parallel": True, "_nrt": True}))


@contextmanager
def announced(what: str) -> Iterator[None]:
    """Say what is going on if this takes longer than a load from the cache would: the first run compiles."""
    line = f"snakes: compiling {what} (once; kept in {numba.config.CACHE_DIR or '__pycache__'}) ..."
    timer = threading.Timer(_ANNOUNCE_AFTER, lambda: print(line, file=sys.stderr, flush=True))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
