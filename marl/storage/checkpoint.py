"""The checkpoint format, and reading one checkpoint: everything that is needed to resume a run.

    <run>/checkpoints/episode_<N>/weights.safetensors   weights of the networks
                                  state.pt, rank0.pt…   parts: optimizers, counters, buffers
                                  manifest.json         rules, episode, and the size and sha256 of every file
    <run>/checkpoints/last, best                        text files with the name of such a folder

A checkpoint is written into a hidden folder, which is renamed when all its files are on the disk: it exists as a whole
or not at all (checkpoint_writer.py). The pointer files follow (checkpoint_finder.py).

Reading trusts nothing: hashes are compared, as torch and safetensors both accept a flipped bit, and no pickle is run.
Torch is loaded where tensors are read: commands look for checkpoints, and tell mistakes, before it is there.
"""

import hashlib
import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from arena.rules import RULES_VERSION
from marl.errors import UserError
from marl.storage.run_folder import listing, read_regular

if TYPE_CHECKING:
    import torch

FORMAT = 1
FOLDER, LAST, BEST = "checkpoints", "last", "best"
WEIGHTS, MANIFEST = "weights.safetensors", "manifest.json"
ENV_STEPS = "env_steps"  # field of a manifest: those of the run up to then
MILESTONE = "milestone"  # field of a manifest: whether the checkpoint is never removed
REPLACED = ".replaced-"  # prefix of a folder that a newer checkpoint of the same episode is about to replace

FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*\.(pt|safetensors)")
NAME = re.compile(r"episode_(\d+)")
FOLDER_NAME = re.compile(rf"(?:{re.escape(REPLACED)})?{NAME.pattern}")  # also of one that is about to be replaced
_ADVICE = "use another checkpoint of this run"


class CheckpointError(UserError):
    """A checkpoint cannot be written, is damaged, or is not for this program."""


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint whose files have been verified. A part is read from the disk on each call of `part`."""

    path: Path
    manifest: dict[str, Any]
    weights: dict[str, "torch.Tensor"]

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
        return read_part(self.path, name)


def read(folder: Path, verify: bool = True) -> Checkpoint:
    """Read the checkpoint in a folder. Every file is verified: by size and, unless verify is off, by sha256."""
    import safetensors.torch

    manifest = read_manifest(folder)
    try:
        for name, stamp in manifest["files"].items() if verify else ():
            if _sha256(folder / name) != stamp["sha256"]:
                raise CheckpointError(f"{folder / name} is damaged: it is not what was saved (sha256); {_ADVICE}")
        # Not load_file: its tensors keep the file open, which nothing could remove on Windows.
        weights = safetensors.torch.load((folder / WEIGHTS).read_bytes())
    except CheckpointError:
        raise
    except Exception as error:  # a parser of a damaged file may raise anything
        raise CheckpointError(f"a file of {folder} cannot be read ({error}); {_ADVICE}") from None
    return Checkpoint(folder, manifest, weights)


def read_part(folder: Path, name: str, mmap: bool = False) -> dict[str, Any]:
    """Read a part without verifying it, with all tensors on the CPU. mmap: tensors are read only when they are used."""
    import torch

    file = folder / f"{name}.pt"
    try:
        part = torch.load(file, map_location="cpu", weights_only=True, mmap=mmap)
        if not isinstance(part, dict):
            raise ValueError
        return part
    except Exception:  # torch's parser raises many kinds: AttributeError, KeyError, MemoryError ...
        reason = "holds more than tensors and plain values, or is no such file at all"
        raise CheckpointError(f"{file} {reason}: it is not read; {_ADVICE}") from None


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a complete checkpoint for this program; CheckpointError for any other folder.

    Sizes of the files are compared, hashes are not.
    """
    file = folder / MANIFEST
    try:
        manifest = json.loads(read_regular(file))
        files = manifest["files"]
        stamps = {str(name): (int(stamp["size"]), str(stamp["sha256"])) for name, stamp in files.items()}
        form, rules = manifest["format"], manifest["rules"]
        int(manifest["episode"])
    except FileNotFoundError:
        raise CheckpointError(f"checkpoint {folder} is incomplete, {MANIFEST} is missing; {_ADVICE}") from None
    except Exception:  # of any kind that a file of a stranger brings about
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
    if manifest.pop("sha256", None) != manifest_sha256(manifest):
        raise CheckpointError(f"{file} is damaged: it is not what was saved (sha256); {_ADVICE}")
    return manifest


def manifest_sha256(manifest: dict[str, Any]) -> str:
    """The hash of a manifest without its field `sha256`."""
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


def _check_file(folder: Path, name: str, size: int) -> None:
    if not FILE_NAME.fullmatch(name):
        raise CheckpointError(f"{folder / MANIFEST} names {name!r}, no file of a checkpoint; do not use it")
    file = folder / name
    if os.path.dirname(os.path.realpath(file)) != os.path.realpath(folder):  # no error for a link to itself
        raise CheckpointError(f"{file} leads out of the checkpoint; put the file itself there, or do not use it")
    if not file.is_file():
        raise CheckpointError(f"{file} is missing; {_ADVICE}")
    if file.stat().st_size != size:
        raise CheckpointError(f"{file} is damaged: {file.stat().st_size} bytes instead of {size}; {_ADVICE}")


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while data := file.read(1 << 20):
            digest.update(data)
    return digest.hexdigest()
