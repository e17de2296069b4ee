"""Deletes runs and old checkpoints. The user is asked before, and a run that still trains is never touched."""

import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from arena.files import replace
from marl.analysis.runs import RUNNING, RunSummary, read_summary, size_on_disk
from marl.analysis.tables import print_rows
from marl.cli.wording import count, size_text
from marl.errors import UserError
from marl.storage.run_owner import RunOwner

TRASH = ".deleted-"  # prefix of a run folder whose deletion has begun; such folders are no runs


def delete_runs(runs: list[RunSummary], yes: bool, as_json: bool) -> int:
    """Delete whole runs; of one that is a link, the link alone. Returns the exit code."""
    _check_none_is_running(runs)
    if not _confirm("delete", [(str(run.folder), size_text(run.size), run.state) for run in runs], yes, as_json):
        return 1 if runs else 0
    freed = sum(run.size for run in runs if not run.folder.is_symlink())
    for run in runs:
        _check_none_is_running([read_summary(run.folder)])  # it may have been resumed while the user was asked
        if run.folder.is_symlink():  # what it leads to may not be ours
            run.folder.unlink()
            continue
        with RunOwner() as owner:  # no start between the check and the end
            owner.take(run.folder)
            _delete_folder(run.folder)
    _report("deleted", [run.folder for run in runs], freed, count(len(runs), "run"), as_json)
    return 0


def prune_checkpoints(runs: list[RunSummary], keep: int, yes: bool, as_json: bool) -> int:
    """Delete all checkpoints but the newest `keep`, `best` and milestones, of every run; returns the exit code."""
    from marl.storage import checkpoint_writer

    _check_none_is_running(runs)
    old: dict[Path, list[Path]] = {}
    for run in runs:
        folders = checkpoint_writer.list_trash(run.folder) + checkpoint_writer.list_prunable(run.folder, keep)
        if folders:
            old[run.folder] = folders
    folders = [folder for each in old.values() for folder in each]
    freed = sum(map(size_on_disk, folders))
    rows = [
        (str(run), count(len(each), "checkpoint"), size_text(sum(map(size_on_disk, each)))) for run, each in old.items()
    ]
    if not _confirm("prune", rows, yes, as_json):
        return 1 if rows else 0
    for run in runs:
        if run.folder in old:
            _check_none_is_running([read_summary(run.folder)])
            with RunOwner() as owner:
                owner.take(run.folder)
                checkpoint_writer.prune(run.folder, keep)
    _report("deleted", folders, freed, count(len(folders), "checkpoint"), as_json)
    return 0


def _check_none_is_running(runs: list[RunSummary]) -> None:
    for run in runs:
        if run.state == RUNNING:
            raise UserError(f"{run.folder} is still training; stop it first (nothing was deleted)")


def _confirm(what: str, rows: Sequence[tuple[str, ...]], yes: bool, as_json: bool) -> bool:
    """Show what would be deleted and ask; False if there is nothing to do or the user declines."""
    if not rows:
        print("[]" if as_json else f"nothing to {what}")
        return False
    if yes:
        return True
    if as_json or not sys.stdin.isatty():
        raise UserError(f"runs {what} asks before it deletes; without a terminal, or with --json, add --yes")
    print_rows(rows)
    try:
        answer = input("delete? [y/N] ")
    except EOFError:
        answer = ""
    if answer.strip().lower() in ("y", "yes"):
        return True
    print("nothing was deleted")
    return False


def _delete_folder(folder: Path) -> None:
    # Renamed first: a kill in the middle must not leave half a run under its name.
    folder = folder.resolve()
    trash = folder.with_name(TRASH + folder.name)
    try:
        for left in folder.parent.glob(f"{TRASH}*"):  # by a deletion that was killed
            if not left.is_symlink():
                shutil.rmtree(left)
        replace(folder, trash)
        shutil.rmtree(trash)
    except OSError as error:
        raise UserError(f"cannot delete {folder}: {error.filename or trash}: {error.strerror}") from None


def _report(did: str, folders: list[Path], freed: int, what: str, as_json: bool) -> None:
    if as_json:
        print(json.dumps([str(folder) for folder in folders], indent=2))
    else:
        print(f"{did} {what}, {size_text(freed)}")
