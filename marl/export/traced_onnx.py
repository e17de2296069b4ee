"""Any feed-forward network as an ONNX model, by torch's tracing: convolutions, messages, stems of users."""

import io
import logging
import warnings
from contextlib import redirect_stdout

import numpy as np
import onnx
import torch
from onnx.reference import ReferenceEvaluator
from torch import nn

from arena.encoders import Encoder
from arena.rules import ACTIONS, TEAM
from marl.errors import UserError
from marl.storage.policy_player import PolicyPlayer

OPSET = 17  # the oldest with all that torch's layers need
ROUNDING = 1e-3
TRACED_ROWS, CHECKED_ROWS = 2 * TEAM, 4 * TEAM  # of different sizes: the number of rows must not be part of the model


class _LogitsAndValue(nn.Module):
    """An actor whose outputs are named apart."""

    def __init__(self, actor: nn.Module) -> None:
        super().__init__()
        self.actor = actor

    def forward(self, obs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        outputs = self.actor(obs)
        return (outputs,) if outputs.shape[-1] == ACTIONS else (outputs[:, :ACTIONS], outputs[:, ACTIONS:])


def traced_model(player: PolicyPlayer) -> onnx.ModelProto:
    """The model: `observations` [N, W] to `logits` [N, 4], and `value` [N, 1] where the policy has one.

    With messages between mates, N is a multiple of three. Its outputs are compared with those of the network.
    """
    spec, encoder = player.actor.spec, player.encoder
    if spec.lstm_size:
        raise UserError(f"{player.name}: --onnx cannot write a network with an LSTM; --safetensors writes any policy")
    network, outputs = _LogitsAndValue(player.actor).eval(), ["logits", "value"][: 1 + spec.outputs - ACTIONS]
    try:
        model = onnx.load_from_string(_trace(network, _rows(encoder, TRACED_ROWS), outputs))
        rows = _rows(encoder, CHECKED_ROWS)
        found = ReferenceEvaluator(model).run(None, {"observations": rows.numpy()})
    except Exception as error:  # of any kind: what torch cannot write depends on the code of a user
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise UserError(
            f"{player.name}: torch cannot write its network, of kind {spec.stem}, as ONNX: {reason[:200]}"
        ) from error
    with torch.no_grad():
        expected = network(rows)
    if not all(np.allclose(a, b.numpy(), rtol=ROUNDING, atol=ROUNDING) for a, b in zip(found, expected, strict=True)):
        raise UserError(
            f"{player.name}: as ONNX its network, of kind {spec.stem}, gives other numbers; nothing is written"
        )
    return model


def _trace(network: nn.Module, rows: torch.Tensor, outputs: list[str]) -> bytes:
    """The traced network. torch's other exporter, by `dynamo`, needs a package more."""
    file = io.BytesIO()
    log = logging.getLogger("torch.onnx")
    level = log.level
    try:
        log.setLevel(logging.CRITICAL)
        with warnings.catch_warnings(), redirect_stdout(io.StringIO()):  # it prints a report of its own before an error
            warnings.simplefilter("ignore")
            torch.onnx.export(
                network,
                (rows,),
                file,  # type: ignore[arg-type]
                dynamo=False,
                opset_version=OPSET,
                input_names=["observations"],
                output_names=outputs,
                dynamic_axes={name: {0: "N"} for name in ("observations", *outputs)},
            )
    finally:
        log.setLevel(level)
    return file.getvalue()


def _rows(encoder: Encoder, count: int) -> torch.Tensor:
    """Observations with any of the numbers that an encoder may write."""
    draw = np.random.default_rng(count).integers
    rows = draw(encoder.low.astype(int), encoder.high.astype(int), (count, encoder.width), endpoint=True)
    return torch.from_numpy(rows.astype(encoder.dtype))
