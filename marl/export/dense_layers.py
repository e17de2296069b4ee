"""The dense layers of a policy as numpy arrays: the form in which every export writes a network."""

import base64
import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch

from marl.errors import UserError
from marl.networks.policy import PolicyPlayer
from marl.networks.spec import ACTIONS

_BODY = re.compile(r"first\.(weight|bias)|tail\.layers\.\d+\.(weight|bias)|tail\.head\.(weight|bias)")
_TRIALS = 64
_TOLERANCE = 1e-3


class DenseLayer(NamedTuple):
    """outputs = weight @ inputs + bias, both float32; ReLU between two layers."""

    weight: np.ndarray  # [outputs, inputs]
    bias: np.ndarray


def dense_layers(player: PolicyPlayer) -> list[DenseLayer]:
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


def packed(layers: Sequence[DenseLayer]) -> str:
    """Base64 of little-endian floats: per layer the weight [inputs, outputs] and the bias.

    Inputs come first because many are 0: a program can then skip whole rows.
    """
    parts = [part for layer in layers for part in (layer.weight.T, layer.bias)]
    return base64.b64encode(b"".join(np.ascontiguousarray(part, "<f4").tobytes() for part in parts)).decode()


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


def _refused(player: PolicyPlayer, why: str) -> UserError:
    return UserError(
        f"{player.name}: its network cannot be exported: {why}; "
        "need dense layers with ReLU (first, tail.layers, tail.head) and four logits, or five numbers with a value"
    )
