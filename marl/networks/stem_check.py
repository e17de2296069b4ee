"""A look at the stem of a network before a run begins: a mistake in a user's stem is told at once, in one line."""

import torch
from torch import nn

from arena.encoders import Encoder
from marl import plugins
from marl.errors import UserError
from marl.networks.spec import NetworkSpec
from marl.networks.stems import make_stem

ROWS = 6  # observations of two teams


def check_building(encoder: Encoder, spec: NetworkSpec) -> None:
    """UserError if the stem cannot be built on the device `meta`, on which files are checked before they are loaded."""
    try:
        with torch.device("meta"):
            sum(tensor.numel() for tensor in make_stem(encoder, spec).state_dict().values())
    except Exception as error:  # of any kind: it is code of a user
        raise UserError(
            f"network kind {spec.stem} cannot be built from (encoder, spec) on torch's device meta: "
            f"{plugins.describe_error(error)}"
        ) from error


def check_outputs(stem: nn.Module, encoder: Encoder, spec: NetworkSpec) -> None:
    """UserError if the stem does not map observations [N, W] to [N, spec.body[0]]."""
    obs = torch.from_numpy(encoder.low.copy()).repeat(ROWS, 1)
    obs = obs.to(next((parameter.device for parameter in stem.parameters()), "cpu"))
    try:
        with torch.no_grad():
            found = tuple(stem(obs).shape)
    except Exception as error:  # of any kind: it is code of a user
        raise UserError(
            f"network kind {spec.stem} cannot read observations {list(obs.shape)} of {obs.dtype}: "
            f"{plugins.describe_error(error)}"
        ) from error
    if found != (ROWS, spec.body[0]):
        raise UserError(
            f"network kind {spec.stem} maps {list(obs.shape)} to {list(found)}; need {[ROWS, spec.body[0]]}: the first "
            "number of --body is its width"
        )
