"""The tensors of a batch of matches. B = matches."""

from typing import NamedTuple

import torch


class Events(NamedTuple):
    """What happened on a turn. A match that was over before stays over and has no events."""

    ate: torch.Tensor  # [B, 6] bool
    died: torch.Tensor  # [B, 6] bool
    reward: torch.Tensor  # [B, 6] int16: change of length
    over: torch.Tensor  # [B] bool


class Memory(NamedTuple):
    """Everything a batch keeps, allocated once."""

    state: torch.Tensor  # [B, MATCH_BYTES] uint8: rules.py says what lies where
    keys: torch.Tensor  # [B] int64: where the match's random numbers come from
    numbers: torch.Tensor  # [B] int64: which match of the run it is
    moves: torch.Tensor  # [B, 6] int8: of the turn being played
    events: Events
