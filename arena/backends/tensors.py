"""The tensors of a batch of matches. B = matches."""

from typing import NamedTuple

import torch


class Events(NamedTuple):
    """What happened on a turn. A match that was over before stays over and has no events."""

    ate: torch.Tensor  # [B, 6] bool
    died: torch.Tensor  # [B, 6] bool
    reward: torch.Tensor  # [B, 6] int16: change of length
    over: torch.Tensor  # [B] bool


class BatchState(NamedTuple):
    """Everything that a batch keeps, allocated once."""

    state: torch.Tensor  # [B, MATCH_BYTES] uint8: the layout is that of rules.py
    keys: torch.Tensor  # [B] int64: keys of the matches' random numbers
    numbers: torch.Tensor  # [B] int64: numbers of the matches in the run
    actions: torch.Tensor  # [B, 6] int8: of the turn being played
    events: Events
