"""Run folders: one per training run, with all its files; how they are numbered, found and described.

    <runs_dir>/snakes_3v3/run<N>_<YYYYMMDD_HHMMSS>/      or, with a name,      <runs_dir>/snakes_3v3/<name>/

This module loads neither torch nor the arena (0.4 s, for Numba): a run is found, or a mistake told, before that.
"""

import errno
import json
import os
import re
import shlex
import stat
import subprocess
import time
from pathlib import Path
from typing import Any

from marl.compute.process_identity import process_name
from marl.errors import UserError

GROUP = "snakes_3v3"
CONFIG, RUN = "config.yaml", "run.json"
RESERVED = ("last", "auto", "never")  # words of --resume that are no names of runs
LISTED = 12  # most names of runs or checkpoints in an error message

_NUMBERED = re.compile(r"run(\d+)_\d{8}_\d{6}")
_TAKEN = re.compile(r"\.?run(\d+)(_.*)?")  # also a claim, see _create_numbered, and a folder renamed by hand


def create(runs_dir: str | os.PathLike, run_name: str | None = None) -> Path:
    """Make the folder of a new run. Processes that start at the same moment get different folders."""
    group = Path(runs_dir) / GROUP
    if run_name is not None:
        folder = named(runs_dir, run_name)
        try:
            group.mkdir(parents=True, exist_ok=True)
            folder.mkdir()
        except FileExistsError as error:
            raise _exists(folder, error) from None
        except OSError as error:
            raise _failed(folder, error) from None
        return folder
    try:
        group.mkdir(parents=True, exist_ok=True)
        return _create_numbered(group)
    except OSError as error:
        raise _failed(group, error) from None


def name_of_new(runs_dir: str | os.PathLike, run_name: str | None = None) -> Path:
    """The folder that `create` would make now, or its UserError for a name in use; `<time>` is that of the start."""
    if run_name is not None:
        folder = named(runs_dir, run_name)
        if os.path.lexists(folder):
            raise _exists(folder, FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(folder)))
        return folder
    group = Path(runs_dir) / GROUP
    number = max(_taken(group), default=0) + 1 if group.is_dir() else 1
    return group / f"run{number}_<time>"


def named(runs_dir: str | os.PathLike, run_name: str) -> Path:
    """The folder of the run of that name, whether it is there or not."""
    return Path(runs_dir) / GROUP / _checked(run_name)


def run_of(path: Path) -> Path | None:
    """The run folder that a path belongs to: that of a run itself, of its checkpoints or of another of its files."""
    for folder in (path, *path.parents):
        file = folder / CONFIG
        if file.is_file():
            return folder
        if os.path.lexists(file) and (folder / "checkpoints").is_dir():
            raise UserError(f"{file} is no regular file, or leads nowhere; put the run's own configuration there")
    return None


def find_run(runs_dir: str | os.PathLike, number: int) -> Path:
    """The folder of run <number>. If two have this number (a copy made by hand), the later one."""
    group = Path(runs_dir) / GROUP
    runs = {folder: int(match[1]) for folder in _folders(group) if (match := _NUMBERED.fullmatch(folder.name))}
    found = sorted(folder for folder in runs if runs[folder] == number)
    if not found:
        there = listing([folder.name for folder in sorted(runs, key=lambda folder: runs[folder])])
        raise UserError(f"no run {number} (run{number}_*) in {group}; there: {there}")
    return found[-1]


def all_runs(runs_dir: str | os.PathLike) -> list[Path]:
    """The folders of all runs, sorted by name."""
    return _folders(Path(runs_dir) / GROUP)


def newest(runs_dir: str | os.PathLike, run_name: str | None = None) -> Path | None:
    """The run of that name; without a name, the run started last, named or numbered. None if there is none."""
    if run_name is not None:
        folder = named(runs_dir, run_name)
        return folder if folder.is_dir() else None
    return max(all_runs(runs_dir), key=_started, default=None)


def about_start(argv: list[str], ranks: int) -> dict[str, Any]:
    """The fields of run.json about one start: command, versions, machine, git. Collecting them takes a moment."""
    from marl.compute import machine

    now = time.time()
    return {
        "command": shlex.join(argv),
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z", time.localtime(now)),
        "started_unix": now,
        "world_size": ranks,
        "process": process_name(os.getpid()),
        "versions": machine.versions(),
        "processor": machine.processor(),
        "git": git_state(),
    }


def describe(folder: Path, config: dict[str, Any], start: dict[str, Any]) -> None:
    """Write config.yaml (resolved, plain types) and run.json (about this start).

    A resumed run is described again: earlier starts stay in run.json under `earlier`, oldest first.
    """
    import yaml

    from arena.files import write_atomically

    earlier = read_run(folder)
    about = start | {"earlier": [*earlier.pop("earlier", []), earlier] if earlier else []}
    text = yaml.safe_dump(config, sort_keys=False, allow_unicode=True)
    try:
        # run.json first: a relaunch finds its run by it, see relaunch.py.
        write_atomically(folder / RUN, (json.dumps(about, indent=2) + "\n").encode())
        write_atomically(folder / CONFIG, text.encode())
    except OSError as error:
        raise _failed(folder, error) from None


def read_run(folder: Path) -> dict[str, Any]:
    """The content of run.json; empty if the file is missing or cannot be read."""
    try:
        about = json.loads(read_regular(folder / RUN))
    except (OSError, ValueError, RecursionError):
        return {}
    return about if isinstance(about, dict) else {}


def git_state() -> dict[str, Any] | None:
    """Commit of this source, and whether tracked files differ from it; None without git or outside a git checkout."""
    root = Path(__file__).resolve().parents[2]

    def git(*argv: str) -> str:
        # Without optional locks `status` does not touch the index: a user may be committing at this moment.
        call = ["git", "--no-optional-locks", "-C", str(root), *argv]
        done = subprocess.run(call, capture_output=True, check=True, timeout=20)
        return done.stdout.decode(errors="replace").strip()

    try:
        if Path(git("rev-parse", "--show-toplevel")).resolve() != root:
            return None  # installed somewhere inside another project's checkout
        return {"commit": git("rev-parse", "HEAD"), "dirty": git("status", "--porcelain", "--untracked-files=no") != ""}
    except (OSError, subprocess.SubprocessError):
        return None


def listing(names: list[str]) -> str:
    """Names for an error message: all, or the last LISTED and the number of the others; `nothing` for none."""
    left_out = len(names) - LISTED
    return ", ".join(([f"{left_out} more"] if left_out > 0 else []) + names[-LISTED:]) or "nothing"


def make_group(runs_dir: str | os.PathLike) -> None:
    """Make the folder of all runs, and see that it can be written; for commands that start several trainings."""
    group = Path(runs_dir) / GROUP
    try:
        group.mkdir(parents=True, exist_ok=True)
        if not os.access(group, os.W_OK):
            raise PermissionError(errno.EACCES, "it cannot be written", str(group))
    except OSError as error:
        raise _failed(group, error) from None


def _create_numbered(group: Path) -> Path:
    # The time in the name would allow two folders with one number. So a number is first claimed by a folder without the
    # time, and the claim is renamed. A process that holds the claim sees all runs that were created before. A claim
    # left by a killed process costs only its number.
    while True:
        number = max(_taken(group), default=0) + 1
        claim = group / f".run{number}"
        try:
            claim.mkdir()
        except FileExistsError:
            continue
        if number in _taken(group, but=claim.name):
            claim.rmdir()
            continue
        return claim.rename(group / f"run{number}_{time.strftime('%Y%m%d_%H%M%S')}")


def _taken(group: Path, but: str = "") -> set[int]:
    return {int(match[1]) for name in os.listdir(group) if name != but and (match := _TAKEN.fullmatch(name))}


def _folders(group: Path) -> list[Path]:
    try:
        return sorted(path for path in group.iterdir() if path.is_dir() and not path.name.startswith("."))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise UserError(f"cannot look for runs in {group}: {error.strerror}; choose another --runs_dir") from None


def _started(folder: Path) -> tuple[float, int]:
    started = read_run(folder).get("started_unix")
    match = _NUMBERED.fullmatch(folder.name)
    time_ = started if isinstance(started, (int, float)) else folder.stat().st_mtime
    return float(time_), int(match[1]) if match else 0


def _checked(name: str) -> str:
    if name in RESERVED:
        raise UserError(f"--run_name {name}: --resume {name} means something else than a run's name; take another")
    if not name or name.startswith(".") or "/" in name or "\\" in name or not name.isprintable():
        raise UserError(f"--run_name {name!r}: a plain folder name is needed, without / and not starting with a dot")
    return name


def _exists(folder: Path, error: FileExistsError) -> UserError:
    if not folder.is_dir():
        return _failed(folder, error)
    return UserError(f"run {folder} exists already; continue it with --resume, or take another --run_name")


def _failed(path: Path, error: OSError) -> UserError:
    where = error.filename2 or error.filename or path  # the obstacle may be a folder further up
    return UserError(f"cannot make the run folder {path}: {where}: {error.strerror}; choose another --runs_dir")


_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


def read_regular(path: Path) -> bytes:
    """The content of a file; OSError if it is missing, or is a folder, FIFO (which would wait for ever) or device."""
    return read_with_time(path)[0]


def read_with_time(path: Path) -> tuple[bytes, int]:
    """The content of a file and its time of modification in nanoseconds. Opening it asks a network drive anew."""
    handle = os.open(path, _FLAGS)  # O_NONBLOCK: opening a FIFO does not wait for a writer
    with open(handle, "rb") as file:
        about = os.fstat(handle)
        if not stat.S_ISREG(about.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        return file.read(), about.st_mtime_ns
