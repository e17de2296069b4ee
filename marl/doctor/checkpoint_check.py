"""Checks of a saved run or checkpoint: its contents, and whether files, names and weights are right and it can play."""

import json
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import safetensors.torch
import torch

from arena.errors import ArenaError
from marl.cli.wording import size_text
from marl.doctor.check import Check
from marl.errors import UserError
from marl.storage import checkpoint, checkpoint_finder
from marl.storage.checkpoint import BEST, FOLDER, LAST, MANIFEST, WEIGHTS, Checkpoint
from marl.storage.run_folder import read_regular
from marl.storage.saved_player import load_policy
from opponents.match import play

MATCHES, OPPONENT = 2, "level0"
_WRAPPED = re.compile(r"(^|\.)module\.")  # in names of a network inside DistributedDataParallel
OTHER = "use another checkpoint of this run"


def examine(path: str) -> tuple[list[dict[str, Any]], list[Check]]:
    """Contents and checks of a checkpoint, or of all checkpoints that a run's pointers name."""
    folders, checks = _folders(Path(path))
    contents = []
    for folder in folders:
        about, found = _examine(folder)
        contents.append(about)
        checks += found
    return contents, checks


def _folders(path: Path) -> tuple[list[Path], list[Check]]:
    """The checkpoints to examine, and a failed check for each pointer to a missing checkpoint."""
    run = path.parent if path.name == FOLDER else path
    pointers = [pointer for name in (LAST, BEST) if os.path.lexists(pointer := run / FOLDER / name)]
    folders: dict[Path, None] = {}
    checks = []
    for place in pointers or [path]:
        try:
            folders[checkpoint_finder.resolve(place)] = None
        except UserError as error:
            if not os.path.lexists(place):
                raise  # not damaged: no such path
            checks.append(Check(place.name, False, str(error), "give the folder of a checkpoint that is there"))
    if not folders and pointers:  # the checkpoint that training would resume
        with suppress(UserError):
            folders[checkpoint_finder.resolve(path)] = None
    return list(folders), checks


def _examine(folder: Path) -> tuple[dict[str, Any], list[Check]]:
    name = folder.name
    try:
        found = checkpoint.read(folder)
    except UserError as error:
        # Whatever can be read is still checked: more may be wrong than the first thing found.
        found, manifest, weights = None, _manifest(folder), _weights(folder)
        checks = [Check.failed(f"files of {name}", error, OTHER)]
    else:
        manifest, weights = found.manifest, found.weights
        sizes = [stamp["size"] for stamp in manifest["files"].values()]
        files = f"{len(sizes)} with {size_text(sum(sizes))}, sizes and sha256 as saved"
        checks = [Check(f"files of {name}", True, files)]
    if weights:
        checks += [_names(name, weights, found), _finite(name, weights)]
    if found:
        checks.append(_plays(folder))
    return _contents(folder, manifest, weights), checks


def _manifest(folder: Path) -> dict[str, Any]:
    try:
        manifest = json.loads(read_regular(folder / MANIFEST))
    except Exception:  # of any kind that a damaged file brings about
        return {}
    return manifest if isinstance(manifest, dict) else {}


def _weights(folder: Path) -> dict[str, torch.Tensor]:
    if (folder / WEIGHTS).is_file():
        with suppress(Exception):
            return safetensors.torch.load_file(folder / WEIGHTS)
    return {}


def _contents(folder: Path, manifest: dict[str, Any], weights: dict[str, torch.Tensor]) -> dict[str, Any]:
    """For JSON. File sizes are those on the disk; a value that the manifest lacks is None."""
    known = ("episode", "algo", "encoder", "encoder_version", "body", "world_size", "rules", "format")
    try:
        files = {path.name: path.stat().st_size for path in sorted(folder.iterdir()) if path.is_file()}
    except OSError:
        files = {}
    return {
        "path": str(folder),
        **{name: manifest.get(name) for name in known},
        "parts": sorted(name.removesuffix(".pt") for name in files if name.endswith(".pt")),
        "files": files,
        "tensors": len(weights),
        "weights": sum(tensor.numel() for tensor in weights.values()),
    }


def _names(name: str, weights: dict[str, torch.Tensor], found: Checkpoint | None) -> Check:
    """Whether no name comes from a network inside DistributedDataParallel; reads all parts."""
    try:
        for where in ("weights", *(found.parts if found else ())):
            part = weights if where == "weights" else found.part(where)  # one part at a time: replay buffers are large
            wrapped = [key for key in _keys(part) if _WRAPPED.search(key)]
            if wrapped:
                fix = "take `module.`, which DistributedDataParallel adds, out of the names and save it again"
                detail = f"{len(wrapped)} in {where} with `module.`, the first is {wrapped[0]}"
                return Check(f"names of {name}", False, detail, fix)
    except (UserError, RecursionError) as error:  # the latter: nested without end
        return Check.failed(f"names of {name}", error, OTHER)
    read = "weights and parts" if found else "the weights; parts were not read"
    return Check(f"names of {name}", True, f"none with `module.` in {read}")


def _keys(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield from (key for key in value if isinstance(key, str))
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ():
        yield from _keys(each)


def _finite(name: str, weights: dict[str, torch.Tensor]) -> Check:
    bad = {key: int((~tensor.isfinite()).sum()) for key, tensor in weights.items()}
    bad = {key: count for key, count in bad.items() if count}
    if bad:
        first = next(iter(bad))
        detail = f"{sum(bad.values()):,} weights are NaN or infinite, {bad[first]:,} of them in {first}"
        return Check(f"weights of {name}", False, detail, f"{OTHER}, one from before, and a lower learning rate")
    return Check(f"weights of {name}", True, f"all {sum(t.numel() for t in weights.values()):,} are finite")


def _plays(folder: Path) -> Check:
    name = f"player of {folder.name}"
    try:
        results = play(load_policy(str(folder)), OPPONENT, MATCHES)
    except (UserError, ArenaError) as error:
        return Check.failed(name, error, OTHER)
    except Exception as error:  # of any kind: it belongs into the report
        return Check.failed(name, f"{type(error).__name__}: {error}", OTHER)
    score = f"{results.home_score:.1f} : {results.away_score:.1f}"
    return Check(name, True, f"{MATCHES} matches against {OPPONENT}, {score} on average")
