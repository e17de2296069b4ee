"""The network of a policy as an ONNX model: an encoder's integers in, the logits of the four moves out."""

import json
from collections.abc import Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from arena.encoders import Encoder
from arena.encoders.orientation import BOARD_ACTIONS
from arena.rules import ACTIONS, RULES_VERSION
from marl.export.dense_layers import DenseLayer, NotDense, dense_layers, widths
from marl.export.traced_onnx import traced_model
from marl.storage.policy_player import PolicyPlayer

# Old versions on purpose: these operators have not changed since, and old runtimes can read them.
OPSET, IR_VERSION = 13, 8


def onnx_of(player: PolicyPlayer) -> bytes:
    """The model of a policy: of plain dense layers where it has nothing else."""
    try:
        return onnx_model(dense_layers(player), player.encoder)
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
