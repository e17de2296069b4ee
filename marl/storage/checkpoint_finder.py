"""Finding a run's checkpoints: by path, by episode, by the pointer files `last` and `best`, or the newest good one."""

import json
import os
import sys
from pathlib import Path
from typing import Any, NoReturn

from marl.cli.invocation import command
from marl.cli.wording import in_one_line
from marl.errors import UserError
from marl.storage.checkpoint import (
    BEST,
    FOLDER,
    FOLDER_NAME,
    LAST,
    MANIFEST,
    NAME,
    REPLACED,
    Checkpoint,
    CheckpointError,
    read,
    read_manifest,
)
from marl.storage.run_folder import listing, read_regular


def resolve(path: str | os.PathLike, prefer: str = LAST) -> Path:
    """The checkpoint folder for a path: a run, a checkpoint, or a pointer file `best` or `last` of a run.

    For a run it is `best` if that is preferred and exists, else `last`, else the newest complete checkpoint.
    """
    path = Path(path)
    if path.parent.name == FOLDER and path.name in (LAST, BEST):
        return read_pointer(path) or raise_missing(f"checkpoint {path.name!r}", path.parent.parent)
    if path.parent.name == FOLDER and FOLDER_NAME.fullmatch(path.name):
        return path if path.is_dir() else find_episode(path.parent.parent, episode_of(path))
    if (path / MANIFEST).is_file():
        return path
    run = path.parent if path.name == FOLDER else path
    if (run / FOLDER).is_dir():
        pointers = (BEST, LAST) if prefer == BEST else (LAST,)
        found = [folder for name in pointers if (folder := read_pointer(run / FOLDER / name))] or list_complete(run)
        return found[0] if found else raise_missing("complete checkpoint", run)
    raise _no_run(path)


def _no_run(path: Path) -> UserError:
    """The error for a path that is no run and no checkpoint, with what may be meant instead."""
    if path.is_dir():
        there = listing(sorted(each.name for each in path.iterdir()))
        return UserError(f"no run (with {FOLDER}/) or checkpoint (with {MANIFEST}) at {path}; in {path} there: {there}")
    if path.exists():
        return UserError(
            f"{path} is no run (a folder with {FOLDER}/) and no checkpoint (a folder with {MANIFEST}); "
            "a player may also be a snapshot (.safetensors)"
        )
    if not path.parent.is_dir():
        there = f", no such folder: {path.parent}"
    else:
        runs = _runs_in(path.parent)
        there = f"; in {path.parent} there: {listing(runs)}" if runs else ""
    allowed = f"give its path, or the name of a run ({command('runs')} lists them)"
    return UserError(f"no run, checkpoint or snapshot at {path}{there}; {allowed}")


def _runs_in(folder: Path) -> list[str]:
    """The names of the runs with checkpoints in a folder; none if it cannot be read."""
    try:
        return sorted(each.name for each in folder.iterdir() if os.path.isdir(each / FOLDER))
    except OSError:
        return []


def load(path: str | os.PathLike, verify: bool = True) -> Checkpoint:
    """Read the checkpoint that `resolve` finds."""
    return read(resolve(path), verify)


def load_newest(run: Path) -> Checkpoint:
    """Read the newest checkpoint; if it is damaged, the one before it, with a message on stderr."""
    first_error = None
    for folder in list_all(run):
        try:
            found = read(folder)
        except CheckpointError as error:
            first_error = first_error or error
            continue
        if first_error:
            print(f"snakes: {in_one_line(str(first_error))}; resuming from {folder.name}", file=sys.stderr, flush=True)
        return found
    if first_error:
        raise first_error
    raise_missing("checkpoint", run)


def find_episode(run: Path, episode: int) -> Path:
    """The checkpoint of an episode."""
    for folder in list_all(run):
        if episode_of(folder) == episode:
            return folder
    raise_missing(f"checkpoint of episode {episode}", run)


def list_complete(run: Path) -> list[Path]:
    """The complete checkpoints of a run, newest first. Sizes of the files are compared, hashes are not."""
    return [folder for folder in list_all(run) if is_complete(folder)]


def list_all(run: Path) -> list[Path]:
    """All checkpoint folders of a run, damaged ones too, newest first."""
    checkpoints = Path(run) / FOLDER
    try:
        folders = [path for path in checkpoints.iterdir() if FOLDER_NAME.fullmatch(path.name) and path.is_dir()]
    except OSError:
        return []
    names = {folder.name for folder in folders}
    folders = [folder for folder in folders if folder.name.removeprefix(REPLACED) not in names - {folder.name}]
    # By the count of saves, not by the episode: a run that was resumed from an older checkpoint saves lower episodes
    # later. A checkpoint that cannot be read comes first, so that its damage is reported.
    return sorted(folders, key=lambda folder: (_save_number(folder, float("inf")), episode_of(folder)), reverse=True)


def manifest_field(folder: Path, name: str) -> Any:
    """A field of a checkpoint's manifest, which is not verified: a sixth of the time. None if it cannot be read."""
    try:
        return json.loads(read_regular(folder / MANIFEST))[name]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def is_complete(folder: Path) -> bool:
    """Whether a folder holds a complete checkpoint."""
    try:
        return bool(read_manifest(folder))
    except CheckpointError:
        return False


def is_unsaved(run: Path) -> bool:
    """Whether a run has no checkpoint at all, not even a damaged one."""
    return not list_all(run)


def count_saves(run: Path) -> int:
    """How often the run has been saved, as far as its remaining checkpoints say."""
    return int(max((_save_number(folder, 0) for folder in list_all(run)), default=0))


def episode_of(folder: Path) -> int:
    """The episode in a checkpoint folder's name."""
    return int(FOLDER_NAME.fullmatch(folder.name)[1])


def read_pointer(pointer: Path) -> Path | None:
    """The checkpoint folder that a pointer file names; None if the file or the folder is missing."""
    try:
        name = read_regular(pointer).decode().strip()
    except (OSError, ValueError):
        return None
    if not NAME.fullmatch(name):
        return None
    return next((each for prefix in ("", REPLACED) if (each := pointer.with_name(prefix + name)).is_dir()), None)


def raise_missing(what: str, run: Path) -> NoReturn:
    """Say that a checkpoint is missing, and which ones exist."""
    episodes = [f"episode_{number}" for number in sorted(map(episode_of, list_all(run)))]
    raise UserError(f"no {what} in {Path(run) / FOLDER}; there: {listing(episodes)}")


def _save_number(folder: Path, unknown: float) -> float:
    number = manifest_field(folder, "save")
    return number if type(number) is int else unknown
