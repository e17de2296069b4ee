"""The dense layers of a policy as numpy arrays: the form in which every export writes a network."""

import base64
import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch

from arena.rules import ACTIONS
from marl.errors import UserError
from marl.storage.policy_player import PolicyPlayer

_BODY = re.compile(r"first\.(weight|bias)|tail\.layers\.\d+\.(weight|bias)|tail\.head\.(weight|bias)")
_TRIALS = 64
_TOLERANCE = 1e-3


class NotDense(UserError):
    """A network with anything but dense layers."""


class DenseLayer(NamedTuple):
    """outputs = weight @ inputs + bias, both float32; ReLU between two layers."""

    weight: np.ndarray  # [outputs, inputs]
    bias: np.ndarray


def policy_layers(player: PolicyPlayer) -> list[DenseLayer]:
    """The layers from the integers of an observation to four logits, or to four logits and a value.

    The encoder's scale is part of the first layer. Networks with anything but dense layers are refused.
    """
    weights = {name: tensor.detach().float().cpu() for name, tensor in player.actor.state_dict().items()}
    names = ["first", *(f"tail.layers.{i}" for i in range(len(weights) // 2 - 2)), "tail.head"]
    wanted = {f"{name}.{part}" for name in names for part in ("weight", "bias")}
    if weights.keys() != wanted:
        odd = sorted(name for name in weights if not _BODY.fullmatch(name)) or sorted(wanted - weights.keys())
        raise _refused(player, f"it has {', '.join(odd[:3])}" + (", ..." if len(odd) > 3 else ""))
    scale = torch.from_numpy(player.encoder.scale)
    layers = []
    for name in names:
        weight = weights[f"{name}.weight"]
        weight = weight * scale if name == "first" else weight
        layers.append(DenseLayer(np.ascontiguousarray(weight.numpy()), weights[f"{name}.bias"].numpy()))
    if len(layers[-1].bias) not in (ACTIONS, ACTIONS + 1):
        raise _refused(player, f"it gives {len(layers[-1].bias)} numbers")
    _check(player, layers)
    return layers


def forward(layers: Sequence[DenseLayer], obs: np.ndarray) -> np.ndarray:
    """Logits, and the value if there is one, [N, 4 or 5] of observations [N, W]."""
    hidden = obs.astype(np.float32)
    for layer in layers[:-1]:
        hidden = np.maximum(hidden @ layer.weight.T + layer.bias, 0)
    return hidden @ layers[-1].weight.T + layers[-1].bias


def widths(layers: Sequence[DenseLayer]) -> list[int]:
    """Widths from the inputs to the outputs, for example 80, 128, 128, 4."""
    return [layers[0].weight.shape[1], *(len(layer.bias) for layer in layers)]


def packed(layers: Sequence[DenseLayer], scale: np.ndarray) -> str:
    """Base64 of little-endian floats: per layer the weight [inputs, outputs] and the bias.

    Inputs come first because many are 0: a program can then skip whole rows. Weights that were half floats before they
    were multiplied by the encoder's scale, like those of the champion, stay half floats; the scale stands before them.
    """
    parts = [part for layer in layers for part in (layer.weight.T, layer.bias)]
    halves = [_as_halves(parts[0], scale[:, None]), *map(_as_halves, parts[1:])]
    if all(half is not None for half in halves):
        return _base64([scale.astype("<f4"), *halves])
    return _base64([part.astype("<f4") for part in parts])


def _as_halves(numbers: np.ndarray, scale: np.ndarray | float = 1.0) -> np.ndarray | None:
    """Half floats that give these floats if they are multiplied by the scale; None if there are none."""
    scale = np.asarray(scale, np.float32)
    with np.errstate(over="ignore"):
        halves = np.divide(numbers, scale, out=np.zeros_like(numbers), where=scale != 0).astype("<f2")
    return halves if np.array_equal(halves.astype(np.float32) * scale, numbers) else None


def _base64(parts: Sequence[np.ndarray]) -> str:
    return base64.b64encode(b"".join(part.tobytes() for part in parts)).decode()  # tobytes: row by row


def _check(player: PolicyPlayer, layers: list[DenseLayer]) -> None:
    """Check on random observations that the layers compute what the actor computes; names of weights prove nothing."""
    encoder = player.encoder
    low, high = encoder.low.astype(int), encoder.high.astype(int)
    obs = np.random.default_rng(0).integers(low, high + 1, (_TRIALS, encoder.width))
    with torch.no_grad():
        expected = player.actor(torch.from_numpy(obs.astype(encoder.dtype))).float().cpu().numpy()
    got = forward(layers, obs)
    if not np.allclose(got, expected, rtol=_TOLERANCE, atol=_TOLERANCE):
        raise _refused(player, "its layers are not joined by ReLU, or its weights are not finite")


def _refused(player: PolicyPlayer, why: str) -> NotDense:
    return NotDense(
        f"{player.name}: its network cannot be exported: {why}; "
        "need dense layers with ReLU (first, tail.layers, tail.head) and four logits, or five numbers with a value; "
        "--onnx writes any network without an LSTM, --safetensors any"
    )
