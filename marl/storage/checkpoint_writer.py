"""Writing a run's checkpoints: each folder is replaced as a whole, and old ones are removed.

A checkpoint of several ranks is written by all of them at once, into one hidden folder that they share. Rank 0
completes it when the parts of all other ranks are there. Each part is followed by a stamp file: its size and hash.
"""

import hashlib
import json
import os
import re
import shutil
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import safetensors.torch
import torch

from arena.files import replace, sync_folder, write_atomically
from arena.rules import RULES_VERSION
from marl.storage.checkpoint import (
    BEST,
    FILE_NAME,
    FOLDER,
    FORMAT,
    LAST,
    MANIFEST,
    MILESTONE,
    NAME,
    REPLACED,
    WEIGHTS,
    CheckpointError,
    manifest_sha256,
    read_manifest,
)
from marl.storage.checkpoint_finder import (
    count_saves,
    is_complete,
    list_all,
    list_complete,
    manifest_field,
    raise_missing,
    read_pointer,
)

_SAVING, _TRASH = ".saving-", ".trash-"  # prefixes of folders that are being written, or removed
_STAMP = ".stamp"
_RANK_PART = re.compile(r"rank\d+\.pt")
KEPT_IN_OLDER = 8 * 2**20  # bytes: so large may the parts of all ranks be in checkpoints that are not the newest
_POLL = 0.02  # seconds between two looks for the parts of other ranks
# Types that torch.load(weights_only=True) accepts. Compared by identity: it refuses np.float64, a subclass of float.
_LOADABLE = (type(None), bool, int, float, str, bytes, torch.Tensor, torch.nn.Parameter, torch.Size, torch.dtype)


def save(
    run: Path, episode: int, weights: dict[str, torch.Tensor], parts: dict[str, dict], about: dict[str, Any]
) -> Path:
    """Write <run>/checkpoints/episode_<episode> in this process alone, point `last` to it and return it."""
    _check_contents(weights, parts)
    with _one_line_errors(run, Path(run) / FOLDER / f"episode_{episode}"):
        _clear_up(run)
    return save_with_others(run, episode, "", weights, parts, about, (), lambda: 0.0)


def prepare(run: Path) -> None:
    """Make the folder of the checkpoints, and remove what a killed save has left. Not while any rank writes."""
    with _one_line_errors(run, Path(run) / FOLDER):
        _clear_up(run)


def save_with_others(
    run: Path,
    episode: int,
    token: str,
    weights: dict[str, torch.Tensor],
    parts: dict[str, dict],
    about: dict[str, Any],
    others: Sequence[str],
    patience: Callable[[], float],
) -> Path:
    """Write <run>/checkpoints/episode_<episode>, point `last` to it and return it.

    `parts` are dictionaries of tensors and plain values by name, `state` among them; `about` goes into the manifest
    (world_size, encoder, encoder_version, milestone). `others` names parts that other ranks write, by `write_part` with
    the same `token`. They are waited for, `patience()` seconds at most without any progress. Whatever fails, one
    checkpoint that was good before stays good.
    """
    _check_contents(weights, parts)
    checkpoints = Path(run) / FOLDER
    final = checkpoints / f"episode_{episode}"
    draft = _draft(run, episode, token)
    with _one_line_errors(run, final):
        try:
            manifest = {"format": FORMAT, "rules": RULES_VERSION, "episode": episode, "save": count_saves(run) + 1}
            assert not {*manifest, "files", "sha256"} & about.keys(), (
                "about names a field that the manifest has already"
            )
            draft.mkdir(exist_ok=True)
            manifest |= {MILESTONE: False} | about
            _write_folder(draft, manifest, weights, parts, lambda: _wait_for_parts(draft, others, patience))
            _replace_folder(draft, final)
            write_atomically(checkpoints / LAST, f"{final.name}\n".encode())
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            raise
    return final


def write_part(run: Path, episode: int, token: str, name: str, part: dict[str, Any] | None) -> None:
    """Write this rank's part of a checkpoint that rank 0 completes; None: the rank has no part."""
    draft = _draft(run, episode, token)
    if part is not None:
        _check_loadable(part, name)
    with _one_line_errors(run, Path(run) / FOLDER / f"episode_{episode}"):
        draft.mkdir(exist_ok=True)
        stamp = {} if part is None else {f"{name}.pt": _write_pt(draft, name, part)}
        text = json.dumps(stamp) + "\n"
        _write_file(draft / f"{name}{_STAMP}", lambda out: out.write(text.encode()))


def mark_best(run: Path, checkpoint: Path) -> None:
    """Point <run>/checkpoints/best to this checkpoint of the run."""
    checkpoints, name = Path(run) / FOLDER, checkpoint.name
    if not (NAME.fullmatch(name) and (checkpoints / name / MANIFEST).is_file()):
        raise_missing(f"checkpoint {name}", run)
    try:
        write_atomically(checkpoints / BEST, f"{name}\n".encode())
    except OSError as error:
        raise CheckpointError(f"cannot write {checkpoints / BEST}: {error.strerror}; {_what_is_good(run)}") from None


def list_prunable(run: Path, keep_last: int) -> list[Path]:
    """All complete checkpoints but the newest keep_last (0: none), the targets of `last` and `best`, and milestones.

    None that lies behind a link: it may belong to something else than this run.
    """
    checkpoints = Path(run) / FOLDER
    if checkpoints.is_symlink() or not keep_last:
        return []
    kept = {read_pointer(checkpoints / LAST), read_pointer(checkpoints / BEST)}
    newest, old = 0, []
    for folder in list_all(run):
        if newest < keep_last:
            newest += is_complete(folder)
        elif folder not in kept and not folder.is_symlink():
            old.append(folder)
    # Early versions did not say whether it is a milestone. There may be hundreds: the others alone are verified.
    old = [folder for folder in old if manifest_field(folder, MILESTONE) is False]
    return [folder for folder in old if is_complete(folder)]


def list_trash(run: Path) -> list[Path]:
    """Folders that a killed prune has left."""
    checkpoints = Path(run) / FOLDER
    try:
        return [path for path in checkpoints.iterdir() if path.name.startswith(_TRASH) and not checkpoints.is_symlink()]
    except OSError:
        return []


def prune(run: Path, keep_last: int) -> list[Path]:
    """Remove the checkpoints that list_prunable finds, and what a killed prune has left; return the former."""
    for path in list_trash(run):
        _remove(path)
    old = list_prunable(run, keep_last)
    for folder in old:
        try:
            _remove_folder(folder)
        except OSError as error:
            raise CheckpointError(f"cannot remove the old checkpoint {folder}: {error.strerror}; remove it") from None
    return old


def drop_rank_parts(run: Path, newest: Path) -> list[Path]:
    """Remove the parts of ranks, matches and buffers, from all checkpoints but the newest; returns these checkpoints.

    Small ones stay. The manifest comes first: a kill in between leaves a file too many, and every checkpoint good.
    """
    checkpoints, shortened = Path(run) / FOLDER, []
    if checkpoints.is_symlink():  # it may belong to something else than this run
        return []
    for folder in list_all(run):
        if folder == newest or folder.is_symlink() or not _has_large_parts(folder):
            continue
        try:
            manifest = read_manifest(folder)
        except CheckpointError:  # incomplete, or damaged
            continue
        parts = {name: stamp["size"] for name, stamp in manifest["files"].items() if _RANK_PART.fullmatch(name)}
        if sum(parts.values()) <= KEPT_IN_OLDER:
            continue
        manifest["files"] = {name: stamp for name, stamp in manifest["files"].items() if name not in parts}
        try:
            write_atomically(folder / MANIFEST, _manifest_text(manifest))
            for name in parts:
                (folder / name).unlink(missing_ok=True)
        except OSError as error:
            raise CheckpointError(f"cannot remove the buffer of {folder}: {error.strerror}; check the disk") from None
        shortened.append(folder)
    return shortened


def _has_large_parts(folder: Path) -> bool:
    """Whether there are files of ranks that only the newest checkpoint keeps, without a look at the manifest."""
    return sum(path.stat().st_size for path in folder.glob("rank*.pt")) > KEPT_IN_OLDER


class _HashingFile:
    """A file that counts and hashes everything written to it: big parts are neither held twice nor read again."""

    def __init__(self, file: BinaryIO):
        self._file, self._sha256, self._size = file, hashlib.sha256(), 0
        self.error: OSError | None = None

    def write(self, data: bytes) -> int:
        try:
            self._file.write(data)
        except OSError as error:
            self.error = error
            raise
        self._sha256.update(data)
        self._size += len(data)
        return len(data)

    def flush(self) -> None:
        self._file.flush()

    def stamp(self) -> dict[str, Any]:
        return {"size": self._size, "sha256": self._sha256.hexdigest()}


def _write_folder(
    draft: Path,
    manifest: dict[str, Any],
    weights: dict[str, torch.Tensor],
    parts: dict[str, dict],
    wait_for_others: Callable[[], dict[str, Any]] = dict,
) -> None:
    """Write all files, the manifest last; wait_for_others returns sizes and hashes of files from other ranks."""
    # Copies: safetensors refuses tensors that share memory or have gaps.
    copies = {name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in weights.items()}
    data = safetensors.torch.save(copies)
    files = {WEIGHTS: _write_file(draft / WEIGHTS, lambda out: out.write(data))}
    for name, part in parts.items():
        files[f"{name}.pt"] = _write_pt(draft, name, part)
    manifest = manifest | {"files": files | wait_for_others()}
    _write_file(draft / MANIFEST, lambda out: out.write(_manifest_text(manifest)))
    sync_folder(draft)


def _manifest_text(manifest: dict[str, Any]) -> bytes:
    return (json.dumps(manifest | {"sha256": manifest_sha256(manifest)}, indent=2) + "\n").encode()


def _write_pt(draft: Path, name: str, part: dict[str, Any]) -> dict[str, Any]:
    """Write a part and return its size and hash."""
    assert FILE_NAME.fullmatch(f"{name}.pt"), f"{name!r} is no name for a part"
    return _write_file(draft / f"{name}.pt", partial(torch.save, part))


def _wait_for_parts(draft: Path, names: Sequence[str], patience: Callable[[], float]) -> dict[str, Any]:
    """Sizes and hashes of the files of these parts, once their ranks have written them; the stamps are removed."""
    files: dict[str, Any] = {}
    left, seen, since = list(names), -1, time.monotonic()
    while left:
        for name in list(left):
            stamp = _read_stamp(draft / f"{name}{_STAMP}")
            if stamp is not None:
                files |= stamp
                left.remove(name)
        size = sum(path.stat().st_size for path in draft.iterdir())
        if size != seen:
            seen, since = size, time.monotonic()
        elif left and time.monotonic() - since > patience():
            raise OSError(None, f"the part {left[0]} has not come")
        if left:
            time.sleep(_POLL)
    for name in names:
        (draft / f"{name}{_STAMP}").unlink(missing_ok=True)
    return files


def _read_stamp(path: Path) -> dict[str, Any] | None:
    """The files of a stamp; None if it is not written yet."""
    # Made if it is not there: a client of NFS remembers for up to a minute that a file was missing.
    with open(path, "a+b") as file:
        file.seek(0)
        text = file.read()
    return json.loads(text) if text.endswith(b"\n") else None


def _clear_up(run: Path) -> None:
    checkpoints = Path(run) / FOLDER
    checkpoints.mkdir(exist_ok=True)
    if not checkpoints.is_symlink():
        _remove_leftovers(checkpoints)


@contextmanager
def _one_line_errors(run: Path, final: Path) -> Iterator[None]:
    """Turn errors of the disk into a CheckpointError that names the checkpoint and the last good one."""
    try:
        yield
    except OSError as error:
        raise CheckpointError(f"cannot save {final}: {error.strerror or error}; {_what_is_good(run)}") from None


def _draft(run: Path, episode: int, token: str) -> Path:
    """The folder in which a checkpoint is written.

    `token` differs between saves, and between starts of a run: ranks of an earlier start may still write.
    """
    return Path(run) / FOLDER / f"{_SAVING}episode_{episode}{token and '-' + token}"


def _write_file(path: Path, fill: Callable[[_HashingFile], Any]) -> dict[str, Any]:
    """Write and sync a file, and return its size and hash."""
    with open(path, "wb") as file:
        out = _HashingFile(file)
        try:
            fill(out)
        except RuntimeError as error:  # torch reports a full disk as "unexpected pos"
            raise out.error or error from None
        file.flush()
        os.fsync(file.fileno())
    return out.stamp()


def _replace_folder(draft: Path, final: Path) -> None:
    # A folder cannot replace another in one step. Between the two renames the old one is found by its hidden name.
    replaced = final.with_name(REPLACED + final.name)
    if final.exists():
        replace(final, replaced)
    replace(draft, final)
    sync_folder(final.parent)
    if replaced.exists():
        _remove_folder(replaced)


def _remove_folder(folder: Path) -> None:
    # Renamed first: a kill in the middle must not leave half a checkpoint under its name.
    trash = folder.with_name(_TRASH + folder.name)
    replace(folder, trash)
    _remove(trash)


def _remove(path: Path) -> None:
    """Remove a folder, or a link to one: never what it leads to."""
    if path.is_symlink():
        path.unlink()
    else:
        shutil.rmtree(path, ignore_errors=True)


def _remove_leftovers(checkpoints: Path) -> None:
    """Remove what a killed save or prune has left."""
    for path in list(checkpoints.iterdir()):
        if path.name.startswith((_SAVING, _TRASH)):
            _remove(path)
        elif path.name.startswith(REPLACED):
            final = path.with_name(path.name.removeprefix(REPLACED))
            if final.exists():
                _remove_folder(path)
            else:
                replace(path, final)
        elif path.name.startswith((f".{LAST}.", f".{BEST}.")):
            path.unlink(missing_ok=True)


def _check_contents(weights: dict[str, torch.Tensor], parts: dict[str, dict]) -> None:
    for name in weights:
        assert "module." not in name, f"{name}: weights are saved without the wrapper of DistributedDataParallel"
    for name, part in parts.items():
        _check_loadable(part, name)


def _check_loadable(value: Any, where: str) -> None:
    # When saving, not when resuming: a value that weights_only refuses would be lost by then.
    if type(value) in (dict, OrderedDict):
        for key, each in value.items():
            _check_loadable(key, f"a key of {where}")
            _check_loadable(each, f"{where}[{key!r}]")
    elif type(value) in (list, tuple, set):
        for i, each in enumerate(value):
            _check_loadable(each, f"{where}[{i}]")
    elif type(value) not in _LOADABLE:
        raise TypeError(f"{where} is a {type(value).__name__}: a checkpoint holds tensors and plain values only")


def _what_is_good(run: Path) -> str:
    good = [folder.name.removeprefix(REPLACED) for folder in list_complete(run)[:1]]
    return f"{good[0]} is still good, check the disk and --resume" if good else "there is no earlier checkpoint"
