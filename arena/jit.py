"""How the project's Numba functions are compiled, and where the machine code is kept.

Numba's own cache watches the file a function stands in, not the files of the functions and constants that it uses:
after an edit of rules.py the loops in cpu.py would go on playing by the old rules. So every source file has a cache
folder of its own, named after the text of that file and of all files of ours that it imports, directly or not.
An edit compiles again what depends on the edited file, and nothing else.
"""

import hashlib
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numba
from numba.core.registry import CPUDispatcher

from arena.callees import link_into_callers

ROOT = Path(__file__).resolve().parent.parent
_PACKAGES = ("arena", "opponents", "marl")
_IMPORT = re.compile(r"^[ \t]*(?:from[ \t]+([\w.]+)[ \t]+import[ \t]+(\([^)]*\)|.+)|import[ \t]+(.+))$", re.MULTILINE)
_announcements: list["_Announcement"] = []  # of the blocks around the call; the last one speaks
_at_first_compile: list[Callable[[], None]] = []
SHOW_SHARE_AFTER = 2.0  # seconds of one compile


@cache
def _file_of(module: str) -> Path | None:
    """The source of one of our modules or packages; None for anything else."""
    if module.partition(".")[0] not in _PACKAGES:
        return None
    path = ROOT / module.replace(".", "/")
    return next((file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()), None)


@cache
def _imported(file: Path) -> frozenset[Path]:
    """Our files that a file names in an import, wherever it stands in it."""
    found = set()
    for base, names, plain in _IMPORT.findall(file.read_text("utf-8")):
        source = _file_of(base)
        if source is not None and source.name != "__init__.py":  # the names are in it
            found.add(source)
        elif source is not None or plain:
            words = re.findall(r"[\w.]+", re.sub(r"#.*|\bas\s+\w+", "", names or plain))
            # A module of a package does not depend on the package's own file, which may import the whole program.
            found |= {_file_of(f"{base}.{word}" if base else word) or source for word in words or [""]}
    return frozenset(path for path in found if path is not None)


@cache
def _digest_of(file: Path) -> bytes:
    return hashlib.sha256(file.read_bytes()).digest()


@cache
def _digest(files: frozenset[Path]) -> str:
    """A hash of the files and of everything of ours that they import."""
    everything, rest = set(files), list(files)
    while rest:
        new = _imported(rest.pop()) - everything
        everything |= new
        rest += new
    digest = hashlib.sha256()
    for path in sorted(everything):
        digest.update(path.name.encode() + b"\0" + _digest_of(path))
    return digest.hexdigest()[:16]


@cache
def cache_folder() -> Path:
    """Where the folders of all files go: beside the sources if that can be written to."""
    if "NUMBA_CACHE_DIR" in os.environ:  # the user's choice stands
        return Path(os.environ["NUMBA_CACHE_DIR"])
    own = ROOT / "arena" / "__pycache__"
    try:
        own.mkdir(exist_ok=True)
        if os.access(own, os.W_OK):
            return own
    except OSError:
        pass
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "snakes_3v3"


@cache
def _folder_of(files: tuple[Path, ...]) -> str:
    """The folder of functions that stand in the first of these files and call some in the others."""
    parent, name = cache_folder(), "+".join(file.stem for file in files)
    folder = parent / f"numba-{name}-{_digest(frozenset(files))}"
    if not folder.exists() and parent.parent.parent == ROOT:  # any other parent may serve other versions as well
        for old in parent.glob(f"numba-{name}-*"):
            shutil.rmtree(old, ignore_errors=True)
    return str(folder)


def cached(compile: Callable[[Callable], Any], function: Callable, *callees: Callable) -> Any:
    """compile(function), where `compile` is a Numba decorator, with the machine code kept where it belongs.

    `callees` are functions that a generated loop calls and that its own file does not import.
    """
    sources = [getattr(each, "py_func", each).__code__.co_filename for each in (function, *callees)]
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = _folder_of(tuple(dict.fromkeys(Path(source).resolve() for source in sources)))
    try:
        compiled = compile(function)
    finally:
        numba.config.CACHE_DIR = before
    _forget_unreadable(compiled)
    _name_files_by_key(compiled)
    _watch_cache(compiled)
    if isinstance(compiled, CPUDispatcher):
        link_into_callers(compiled, _show_fraction)
    return compiled


def at_first_compile(call: Callable[[], None] | None) -> None:
    """Make a call when the next function is compiled, and not if all are in the cache. None: make it no more."""
    _at_first_compile[:] = [] if call is None else [call]


def _forget_unreadable(compiled: Any) -> None:
    """Let an index that cannot be read be an empty one: its types may be of a module that is gone since an update."""
    files = getattr(getattr(compiled, "_cache", None), "_cache_file", None)
    if files is None:
        return
    load_index = files._load_index

    def load() -> Any:
        try:
            return load_index()
        except Exception:  # of any kind that unpickling brings about
            return {}

    files._load_index = load


def _name_files_by_key(compiled: Any) -> None:
    """Let the file of a function's machine code be named after the types that it was compiled for.

    Numba numbers these files. Two processes that compile the function for different types at the same time may take the
    same number, and then one type's entry leads to the other's code, for good. Plain Python has no cache.
    """
    files = getattr(getattr(compiled, "_cache", None), "_cache_file", None)
    if files is None:
        return

    def save(key: Any, data: Any) -> None:
        name = files._data_name(int(hashlib.sha256(repr(key).encode()).hexdigest()[:15], 16))
        files._save_data(name, data)  # before the index: an entry always has its file
        files._save_index(files._load_index() | {key: name})

    files.save = save


def _watch_cache(compiled: Any) -> None:
    """Call the innermost announcement when the cache of a compiled function holds no code for a call: it is compiled.

    Numba's event `numba:compile` says the same for a CPU, but nothing for CUDA kernels. Plain Python has no cache.
    """
    cache = getattr(compiled, "_cache", None)
    if cache is None:
        return
    load = cache.load_overload

    def load_or_announce(*arguments: Any) -> Any:
        code = load(*arguments)
        if code is None:
            while _at_first_compile:
                _at_first_compile.pop()()
            if _announcements:
                _announcements[-1].begin()
        return code

    cache.load_overload = load_or_announce


# Without reference counting of array views (_nrt) the batch step is 2.5 times faster: nothing here allocates.
_OPTIONS = {"cache": True, "error_model": "numpy", "_nrt": False, "nogil": True}
_SERIAL, _INLINE = numba.njit(**_OPTIONS), numba.njit(**_OPTIONS, inline="always")
_PARALLEL = numba.njit(**(_OPTIONS | {"parallel": True, "_nrt": True}))


def njit(function: Callable, *callees: Callable) -> Any:
    """A compiled function."""
    return cached(_SERIAL, function, *callees)


def njit_inline(function: Callable) -> Any:
    """A compiled function whose text is put in place of every call in kernels for a GPU; on a CPU as njit."""
    return cached(_INLINE, function)


def njit_parallel(function: Callable, *callees: Callable) -> Any:
    """A compiled function whose `prange` loops run on all cores."""
    return cached(_PARALLEL, function, *callees)


_printed: set[str] = set()  # what this process has announced: a second kind of arguments is compiled without a line


class _Announcement:
    """What a block says when something in it is compiled: one line, and the done fraction of a long compile."""

    def __init__(self, what: str, notify: Callable[[str], None] | None) -> None:
        self._what, self._notify = what, notify
        self._silent = os.environ.get("LOCAL_RANK", "0") != "0"
        self._begun = 0.0
        self._is_open = False  # a line on a terminal to which fractions may be added

    def begin(self) -> None:
        """A compile begins."""
        self._begun = time.monotonic()
        if self._notify is not None:
            self._notify(f"compiling {self._what} (once)")
        elif not self._silent and self._what not in _printed:
            _printed.add(self._what)
            self._is_open = sys.stderr.isatty()
            print(self._line(), end="" if self._is_open else "\n", file=sys.stderr, flush=True)
        self._silent = True

    def show(self, fraction: float) -> None:
        """Show the done fraction of the compile; on stderr only if it is a terminal."""
        if time.monotonic() - self._begun < SHOW_SHARE_AFTER:
            return
        if self._notify is not None:
            self._notify(f"compiling {self._what} (once): {fraction:.0%}")
        elif self._is_open:
            print(f"\r{self._line()} {fraction:.0%}", end="", file=sys.stderr, flush=True)

    def close(self) -> None:
        if self._is_open:
            print(file=sys.stderr, flush=True)

    def _line(self) -> str:
        return f"snakes: compiling {self._what} (once; kept in {cache_folder()}) ..."


def _show_fraction(fraction: float) -> None:
    if _announcements:
        _announcements[-1].show(fraction)


@contextmanager
def announced(what: str, notify: Callable[[str], None] | None = None) -> Iterator[None]:
    """Print one line if anything has to be compiled within this block, and nothing if all is in the cache.

    A block within it prints its own line instead. `notify` gets a short text in place of the printed line. A compile of
    more than two seconds shows how much of it is done. Of several ranks on a node only the first prints; LOCAL_RANK is
    set by every launcher of ranks.
    """
    announcement = _Announcement(what, notify)
    _announcements.append(announcement)
    try:
        yield
    finally:
        _announcements.remove(announcement)
        announcement.close()
