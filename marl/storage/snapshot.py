"""A snapshot: a frozen policy in one safetensors file. It holds an actor's weights, and its header the network."""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save

from arena.errors import ArenaError
from arena.files import write_atomically
from marl import plugins
from marl.cli.invocation import command
from marl.errors import UserError
from marl.storage.policy_player import PolicyPlayer, policy_player

SUFFIX = ".safetensors"
HEADER = "snakes_3v3"  # key of our JSON text in the safetensors header


def write(path: Path, weights: dict[str, torch.Tensor], about: dict[str, Any]) -> None:
    """Write the weights of an actor; `about` comes from policy.describe_actor: encoder, network and reward."""
    data = save({name: tensor.contiguous() for name, tensor in weights.items()}, {HEADER: json.dumps(about)})
    write_atomically(path, data)


def read(path: Path, name: str | None = None) -> PolicyPlayer:
    """Read the policy in a snapshot, as a player."""
    if path.exists() and not path.is_file():
        raise UserError(f"{path} is not a snapshot: not a regular file")  # opening a FIFO would wait for ever
    try:
        with safe_open(path, "pt") as file:
            about = json.loads((file.metadata() or {}).get(HEADER, "null"))
            weights = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 (not a dictionary)
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except Exception as error:  # a parser of a damaged file may raise anything, a RecursionError for one
        raise UserError(f"{path} is not a snapshot, or is damaged: {error}") from None
    if not isinstance(about, dict):
        made_by = command("export", "PLAYER", "--safetensors", "FILE")
        raise UserError(f"{path} does not say what network it holds; snapshots are made by: {made_by}")
    try:
        return policy_player(about, weights, str(path), name or str(path))
    except ArenaError as error:  # an encoder that does not exist
        raise UserError(f"{path}: {error}; one of your own comes by {plugins.FLAG} FILE") from None
