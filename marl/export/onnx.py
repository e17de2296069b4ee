"""The network of a policy as an ONNX model: an encoder's integers in, the logits of the four moves out.

Plain dense layers are written as they are; any other feed-forward network (convolutions, messages, stems of users) by
torch's tracing.
"""

import io
import json
import logging
import warnings
from collections.abc import Sequence
from contextlib import redirect_stdout

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from torch import nn

from arena.encoders import Encoder
from arena.encoders.orientation import BOARD_ACTIONS
from arena.rules import ACTIONS, RULES_VERSION, TEAM
from marl.errors import UserError
from marl.export.dense_layers import DenseLayer, NotDense, policy_layers, widths
from marl.storage.policy_player import PolicyPlayer

# Old versions on purpose: these operators have not changed since, and old runtimes can read them.
OPSET, IR_VERSION = 13, 8
TRACED_OPSET = 17  # the oldest with all that torch's layers need
ROUNDING = 1e-3
TRACED_ROWS, CHECKED_ROWS = 2 * TEAM, 4 * TEAM  # of different sizes: the number of rows must not be part of the model


def onnx_of(player: PolicyPlayer) -> bytes:
    """The model of a policy: of plain dense layers where it has nothing else."""
    try:
        return onnx_model(policy_layers(player), player.encoder)
    except NotDense:
        return _finished(traced_model(player), player.encoder, list(player.actor.spec.body))


def onnx_model(layers: Sequence[DenseLayer], encoder: Encoder) -> bytes:
    """The model: `observations` [N, W] int8 or uint8 to `logits` [N, 4], and `value` [N, 1] where the policy has one.

    The model does not mask the reversal: the user must not choose the opposite of the own direction, whose index in the
    observation is `direction_at` in the metadata. With the encoders canonical, egocentric, tactical and tactical_board
    the logits belong to moves in the snake's own coordinates: `frame_at` is then the index of the orientation in the
    observation (else null), and the table `back` [orientation][local move] gives the move on the board.
    """
    sizes = widths(layers)
    nodes = [helper.make_node("Cast", ["observations"], ["row"], to=TensorProto.FLOAT)]
    constants = []
    hidden = "row"
    for i, layer in enumerate(layers):
        constants += [
            numpy_helper.from_array(np.ascontiguousarray(layer.weight), f"weight{i}"),
            numpy_helper.from_array(np.ascontiguousarray(layer.bias), f"bias{i}"),
        ]
        nodes.append(helper.make_node("Gemm", [hidden, f"weight{i}", f"bias{i}"], [f"layer{i}"], transB=1))
        hidden = f"layer{i}"
        if i < len(layers) - 1:
            nodes.append(helper.make_node("Relu", [hidden], [f"relu{i}"]))
            hidden = f"relu{i}"
    outputs = [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["N", ACTIONS])]
    if sizes[-1] == ACTIONS:
        nodes.append(helper.make_node("Identity", [hidden], ["logits"]))
    else:
        constants.append(numpy_helper.from_array(np.array([ACTIONS, 1]), "parts"))
        nodes.append(helper.make_node("Split", [hidden, "parts"], ["logits", "value"], axis=1))
        outputs.append(helper.make_tensor_value_info("value", TensorProto.FLOAT, ["N", 1]))
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(encoder.dtype))
    inputs = [helper.make_tensor_value_info("observations", kind, ["N", encoder.width])]
    graph = helper.make_graph(nodes, "policy", inputs, outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    return _finished(model, encoder, sizes[1:-1])


def _finished(model: onnx.ModelProto, encoder: Encoder, body: list[int]) -> bytes:
    """The model with what must be known about it, checked."""
    about = {
        "encoder": encoder.name,
        "encoder_version": encoder.version,
        "body": body,
        "rules": RULES_VERSION,
        "moves": ["up", "down", "left", "right"],
        "direction_at": encoder.direction_at,
        "frame_at": encoder.orientation_at,
    }
    if encoder.orientation_at is not None:
        about["back"] = BOARD_ACTIONS.tolist()
    helper.set_model_props(model, {name: json.dumps(value) for name, value in about.items()})
    onnx.checker.check_model(model, full_check=True)
    return model.SerializeToString()


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
                opset_version=TRACED_OPSET,
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
