"""Checkpoints: everything to resume a run, in a folder that is there as a whole or not at all.

    <run>/checkpoints/episode_<N>/weights.safetensors   what was learned
                                  state.pt, rank0.pt…   the rest, in parts: optimisers, counters, buffers
                                  manifest.json         which rules, which episode, and each file's size and sha256
    <run>/checkpoints/last, best                        text files with the name of such a folder

A checkpoint is written into a hidden folder and renamed when all of it is on the disk; the pointers follow. Loading
believes nothing: hashes are compared (torch and safetensors both accept a flipped bit), and no pickle is ever run.
"""

import hashlib
import json
import os
import pickle
import re
import shutil
import sys
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

import safetensors.torch
import torch

from arena.files import sync_folder, write_atomically
from arena.rules import RULES_VERSION
from marl.errors import UserError
from marl.storage.run_folder import listing

FORMAT = 1
FOLDER, LAST, BEST = "checkpoints", "last", "best"
WEIGHTS, MANIFEST = "weights.safetensors", "manifest.json"

_SAVING, _REPLACED, _TRASH = ".saving-", ".replaced-", ".trash-"
_NAME = re.compile(r"episode_(\d+)")
_FOLDER = re.compile(rf"(?:{re.escape(_REPLACED)})?episode_(\d+)")
_FILE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*\.(pt|safetensors)")
_ADVICE = "use another checkpoint of this run"
# What torch.load(weights_only=True) reads back; the types themselves, as it refuses np.float64, which is a float too.
_PLAIN = (type(None), bool, int, float, str, bytes, torch.Tensor, torch.nn.Parameter, torch.Size, torch.dtype)


class CheckpointError(UserError):
    """A checkpoint cannot be written, is damaged, or is not for this program."""


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint that was read and checked. The parts are read when asked for."""

    path: Path
    manifest: dict[str, Any]
    weights: dict[str, torch.Tensor]

    @property
    def episode(self) -> int:
        """Episodes played when it was saved."""
        return self.manifest["episode"]

    @property
    def parts(self) -> list[str]:
        """Names of the parts: `state`, `rank0`, ..."""
        return sorted(name.removesuffix(".pt") for name in self.manifest["files"] if name.endswith(".pt"))

    def part(self, name: str) -> dict[str, Any]:
        """Read a part, with all its tensors on the CPU."""
        if name not in self.parts:
            raise CheckpointError(f"checkpoint {self.path} has no part {name!r}; there: {listing(self.parts)}")
        file = self.path / f"{name}.pt"
        try:
            return torch.load(file, map_location="cpu", weights_only=True)
        except (pickle.UnpicklingError, RuntimeError, EOFError, OSError, ValueError):
            reason = "holds more than tensors and plain values, or is no such file at all"
            raise CheckpointError(f"{file} {reason}: it is not read; {_ADVICE}") from None


def save(
    run: Path, episode: int, weights: dict[str, torch.Tensor], parts: dict[str, dict], about: dict[str, Any]
) -> Path:
    """Write <run>/checkpoints/episode_<episode>, point `last` to it and return it.

    `parts` are dictionaries of tensors and plain values by name, `state` among them; `about` goes into the manifest
    (world_size, encoder, encoder_version). Whatever happens, one checkpoint that was good before stays good.
    """
    for name in weights:
        assert "module." not in name, f"{name}: weights are saved without the wrapper of DistributedDataParallel"
    for name, part in parts.items():
        _check_plain(part, name)
    checkpoints = Path(run) / FOLDER
    final = checkpoints / f"episode_{episode}"
    draft = checkpoints / f"{_SAVING}{final.name}"
    try:
        checkpoints.mkdir(exist_ok=True)
        _sweep(checkpoints)
        manifest = {"format": FORMAT, "rules": RULES_VERSION, "episode": episode, "save": saves(run) + 1}
        assert not {*manifest, "files", "sha256"} & about.keys(), "about names a field that the manifest has already"
        draft.mkdir()
        _write(draft, manifest | about, weights, parts)
        _put_in_place(draft, final)
        write_atomically(checkpoints / LAST, f"{final.name}\n".encode())
    except BaseException as error:
        shutil.rmtree(draft, ignore_errors=True)
        if not isinstance(error, OSError):
            raise
        raise CheckpointError(f"cannot save {final}: {error.strerror or error}; {_what_is_good(run)}") from None
    return final


def mark_best(run: Path, checkpoint: Path) -> None:
    """Point <run>/checkpoints/best to this checkpoint of the run."""
    checkpoints = Path(run) / FOLDER
    if not (_NAME.fullmatch(checkpoint.name) and (checkpoints / checkpoint.name / MANIFEST).is_file()):
        _missing(f"checkpoint {checkpoint.name}", run)
    try:
        write_atomically(checkpoints / BEST, f"{checkpoint.name}\n".encode())
    except OSError as error:
        raise CheckpointError(f"cannot write {checkpoints / BEST}: {error.strerror}; {_what_is_good(run)}") from None


def prune(run: Path, keep_last: int, milestones: int = 0) -> list[Path]:
    """Remove all but the newest keep_last checkpoints (0: none is removed) and return those removed.

    What `last` and `best` point to stays, and so does every multiple of `milestones` episodes.
    """
    checkpoints = Path(run) / FOLDER
    kept = {_pointed(checkpoints / LAST), _pointed(checkpoints / BEST)}
    old = [folder for folder in usable(run)[keep_last:] if folder not in kept] if keep_last else []
    old = [folder for folder in old if not milestones or _episode(folder) % milestones]
    for folder in old:
        try:
            _discard(folder)
        except OSError as error:
            raise CheckpointError(f"cannot remove the old checkpoint {folder}: {error.strerror}; remove it") from None
    return old


def resolve(path: str | os.PathLike, prefer: str = LAST) -> Path:
    """The checkpoint folder that a path means: a run, a checkpoint, or a pointer file `best` or `last` in a run.

    For a run it is `best` if that is preferred and there, else `last`, else the complete one that was saved last.
    """
    path = Path(path)
    if path.parent.name == FOLDER and path.name in (LAST, BEST):
        return _pointed(path) or _missing(f"checkpoint {path.name!r}", path.parent.parent)
    if path.parent.name == FOLDER and _FOLDER.fullmatch(path.name):
        return path if path.is_dir() else in_run(path.parent.parent, _episode(path))
    if (path / MANIFEST).is_file():
        return path
    run = path.parent if path.name == FOLDER else path
    if (run / FOLDER).is_dir():
        pointers = (BEST, LAST) if prefer == BEST else (LAST,)
        found = [folder for name in pointers if (folder := _pointed(run / FOLDER / name))] or usable(run)
        return found[0] if found else _missing("complete checkpoint", run)
    near = path if path.is_dir() else path.parent
    there = listing(sorted(each.name for each in near.iterdir())) if near.is_dir() else "no such folder"
    raise UserError(f"no run (with {FOLDER}/) or checkpoint (with {MANIFEST}) at {path}; in {near} there: {there}")


def in_run(run: Path, episode: int) -> Path:
    """The checkpoint of an episode."""
    for folder in _all(run):
        if _episode(folder) == episode:
            return folder
    _missing(f"checkpoint of episode {episode}", run)


def usable(run: Path) -> list[Path]:
    """The complete checkpoints of a run, the one saved last first. Sizes are looked at, hashes are not."""
    return [folder for folder in _all(run) if _is_complete(folder)]


def is_unsaved(run: Path) -> bool:
    """Whether a run has no checkpoint at all, not even a damaged one."""
    return not _all(run)


def saves(run: Path) -> int:
    """How often the run has been saved, as far as what is left of it tells."""
    return int(max((_save_of(folder, 0) for folder in _all(run)), default=0))


def load(path: str | os.PathLike, verify: bool = True) -> Checkpoint:
    """Read what `resolve` finds. Every file is checked: by size and, unless verify is off, by sha256."""
    folder = resolve(path)
    manifest = _manifest(folder)
    try:
        for name, stamp in manifest["files"].items() if verify else ():
            if _sha256(folder / name) != stamp["sha256"]:
                raise CheckpointError(f"{folder / name} is damaged: it is not what was saved (sha256); {_ADVICE}")
        weights = safetensors.torch.load_file(folder / WEIGHTS)
    except (safetensors.SafetensorError, OSError) as error:
        raise CheckpointError(f"a file of {folder} cannot be read ({error}); {_ADVICE}") from None
    return Checkpoint(folder, manifest, weights)


def load_newest(run: Path) -> Checkpoint:
    """Load the checkpoint that was saved last; if it is damaged the one before, and say so on stderr."""
    first = None
    for folder in _all(run):
        try:
            found = load(folder)
        except CheckpointError as error:
            first = first or error
            continue
        if first:
            print(f"snakes: {first}; going on from {folder.name}", file=sys.stderr, flush=True)
        return found
    if first:
        raise first
    _missing("checkpoint", run)


class _Hashed:
    """A file that counts and hashes what goes through, so that big parts are neither held twice nor read again."""

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


def _write(draft: Path, manifest: dict[str, Any], weights: dict[str, torch.Tensor], parts: dict[str, dict]) -> None:
    # Copies, as safetensors takes no tensors that share memory or have gaps.
    copies = {name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in weights.items()}
    packed = safetensors.torch.save(copies)
    files = {WEIGHTS: _write_file(draft / WEIGHTS, lambda out: out.write(packed))}
    for name, part in parts.items():
        assert _FILE.fullmatch(f"{name}.pt"), f"{name!r} is no name for a part"
        files[f"{name}.pt"] = _write_file(draft / f"{name}.pt", lambda out, part=part: torch.save(part, out))
    manifest = manifest | {"files": files}
    text = json.dumps(manifest | {"sha256": _seal(manifest)}, indent=2) + "\n"
    _write_file(draft / MANIFEST, lambda out: out.write(text.encode()))
    sync_folder(draft)


def _write_file(path: Path, fill: Callable[[_Hashed], Any]) -> dict[str, Any]:
    with open(path, "wb") as file:
        out = _Hashed(file)
        try:
            fill(out)
        except RuntimeError as error:  # torch hides a full disk behind "unexpected pos"
            raise out.error or error from None
        file.flush()
        os.fsync(file.fileno())
    return out.stamp()


def _put_in_place(draft: Path, final: Path) -> None:
    # A folder cannot replace another in one step. Between the two renames the old one is found by its hidden name.
    aside = final.with_name(_REPLACED + final.name)
    if final.exists():
        os.replace(final, aside)
    os.replace(draft, final)
    sync_folder(final.parent)
    if aside.exists():
        _discard(aside)


def _discard(folder: Path) -> None:
    # Renamed first: a kill in the middle must not leave half a checkpoint under its name.
    trash = folder.with_name(_TRASH + folder.name)
    os.replace(folder, trash)
    shutil.rmtree(trash, ignore_errors=True)


def _sweep(checkpoints: Path) -> None:
    """Clear away what a killed save or prune has left."""
    for path in list(checkpoints.iterdir()):
        if path.name.startswith((_SAVING, _TRASH)):
            shutil.rmtree(path, ignore_errors=True)
        elif path.name.startswith(_REPLACED):
            final = path.with_name(path.name.removeprefix(_REPLACED))
            if final.exists():
                _discard(path)
            else:
                os.replace(path, final)
        elif path.name.startswith((f".{LAST}.", f".{BEST}.")):
            path.unlink(missing_ok=True)


def _check_plain(value: Any, where: str) -> None:
    # At saving, not at resuming: what weights_only refuses would be lost by then.
    if type(value) in (dict, OrderedDict):
        for key, each in value.items():
            _check_plain(key, f"a key of {where}")
            _check_plain(each, f"{where}[{key!r}]")
    elif type(value) in (list, tuple, set):
        for i, each in enumerate(value):
            _check_plain(each, f"{where}[{i}]")
    elif type(value) not in _PLAIN:
        raise TypeError(f"{where} is a {type(value).__name__}: a checkpoint holds tensors and plain values only")


def _manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a complete checkpoint that is for this program; a CheckpointError for any other."""
    file = folder / MANIFEST
    try:
        manifest = json.loads(file.read_bytes())
        files = manifest["files"]
        stamps = {str(name): (int(stamp["size"]), str(stamp["sha256"])) for name, stamp in files.items()}
        form, rules = manifest["format"], manifest["rules"]
        int(manifest["episode"])
    except FileNotFoundError:
        raise CheckpointError(f"checkpoint {folder} is incomplete, {MANIFEST} is missing; {_ADVICE}") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise CheckpointError(f"{file} is damaged: it cannot be read; {_ADVICE}") from None
    its_own = "use the version of this program that wrote it (the run's run.json names the commit)"
    if form != FORMAT:
        raise CheckpointError(f"checkpoint {folder} has format {form!r}, this program reads {FORMAT}; {its_own}")
    if rules != RULES_VERSION:
        raise CheckpointError(f"checkpoint {folder} was made for rules {rules!r}, these are {RULES_VERSION}; {its_own}")
    if WEIGHTS not in stamps:
        raise CheckpointError(f"{file} is damaged: it does not name {WEIGHTS}; {_ADVICE}")
    for name, (size, _) in stamps.items():
        _check_file(folder, name, size)
    if manifest.pop("sha256", None) != _seal(manifest):
        raise CheckpointError(f"{file} is damaged: it is not what was saved (sha256); {_ADVICE}")
    return manifest


def _is_complete(folder: Path) -> bool:
    try:
        return bool(_manifest(folder))
    except CheckpointError:
        return False


def _check_file(folder: Path, name: str, size: int) -> None:
    if not _FILE.fullmatch(name):
        raise CheckpointError(f"{folder / MANIFEST} names {name!r}, no file of a checkpoint; do not use it")
    file = folder / name
    if file.resolve().parent != folder.resolve():
        raise CheckpointError(f"{file} leads out of the checkpoint; put the file itself there, or do not use it")
    if not file.is_file():
        raise CheckpointError(f"{file} is missing; {_ADVICE}")
    if file.stat().st_size != size:
        raise CheckpointError(f"{file} is damaged: {file.stat().st_size} bytes instead of {size}; {_ADVICE}")


def _seal(manifest: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while data := file.read(1 << 20):
            digest.update(data)
    return digest.hexdigest()


def _all(run: Path) -> list[Path]:
    """All checkpoint folders, whatever their state, the one saved last first."""
    checkpoints = Path(run) / FOLDER
    try:
        folders = [path for path in checkpoints.iterdir() if _FOLDER.fullmatch(path.name) and path.is_dir()]
    except OSError:
        return []
    there = {folder.name for folder in folders}
    folders = [folder for folder in folders if folder.name.removeprefix(_REPLACED) not in there - {folder.name}]
    # By the count of saves, not by the episode: a run that went on from an older one saves lower episodes later. One
    # that cannot be read comes first, so that it is told of.
    return sorted(folders, key=lambda folder: (_save_of(folder, float("inf")), _episode(folder)), reverse=True)


def _save_of(folder: Path, unknown: float) -> float:
    try:
        number = json.loads((folder / MANIFEST).read_bytes())["save"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return unknown
    return number if type(number) is int else unknown


def _pointed(pointer: Path) -> Path | None:
    try:
        name = pointer.read_text().strip()
    except (OSError, ValueError):
        return None
    if not _NAME.fullmatch(name):
        return None
    return next((each for prefix in ("", _REPLACED) if (each := pointer.with_name(prefix + name)).is_dir()), None)


def _episode(folder: Path) -> int:
    return int(_FOLDER.fullmatch(folder.name)[1])


def _missing(what: str, run: Path) -> NoReturn:
    episodes = [f"episode_{number}" for number in sorted(map(_episode, _all(run)))]
    raise UserError(f"no {what} in {Path(run) / FOLDER}; there: {listing(episodes)}")


def _what_is_good(run: Path) -> str:
    good = [folder.name.removeprefix(_REPLACED) for folder in usable(run)[:1]]
    return f"{good[0]} is still good, see to the disk and --resume" if good else "there is no earlier checkpoint"
