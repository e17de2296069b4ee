"""Options given as Python values, as the flags of a command line: the one way in which options are read and checked."""

import os
from collections.abc import Iterator, Mapping
from typing import Any

from marl.config.options import Schema, as_key
from marl.config.train_config import TrainConfig
from marl.config.values import NONE_WORDS
from marl.errors import UserError


def as_flags(options: Mapping[str, Any]) -> list[str]:
    """Flags for options by name: numbers, texts, paths, lists, tuples, and a dictionary for a section or for shares.

    >>> as_flags({"body": [32, 32], "ppo": {"lr": 1e-3}, "opponents": {"level3": 0.4}, "max_minutes": 2})
    ['--body=32,32', '--ppo.lr=0.001', '--opponents=level3:0.4', '--max_minutes=2']
    """
    sections = Schema(TrainConfig).sections
    return [f"--{name}={_text(name, value)}" for name, value in _leaves(options, sections)]


def _leaves(options: Mapping[str, Any], sections: Mapping[str, type], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Options by path: those in the dictionary of a section with the section's name before theirs."""
    for name, value in options.items():
        if isinstance(value, Mapping) and as_key(f"{prefix}{name}") in sections:
            yield from _leaves(value, sections, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _text(name: str, value: Any) -> str:
    """The value as a flag has it."""
    if hasattr(value, "tolist"):  # numbers and arrays of numpy and torch
        value = value.tolist()
    if value is None:
        return NONE_WORDS[0]
    if isinstance(value, Mapping):
        value = [f"{_text(name, key)}:{_text(name, each)}" for key, each in value.items()]
    if not isinstance(value, (list, tuple)):
        return os.fspath(value) if isinstance(value, os.PathLike) else str(value)
    items = [_text(name, item) for item in value]
    for item in items:
        if "," in item:
            raise UserError(f"{name}: {item!r} holds a comma, which separates items; write the list in a YAML file")
    return ",".join(items)
