"""Policies: an actor with its encoder, from logits to legal actions, and from a description to a network."""

from dataclasses import asdict
from functools import cache
from typing import Any

import torch

from arena.encoders import Encoder, encoder_named
from arena.encoders.orientation import LOCAL_ACTIONS
from arena.rules import ACTIONS
from marl import plugins, registry
from marl.errors import UserError
from marl.networks.actors import AnyActor, make_actor
from marl.networks.layers import loaded_next
from marl.networks.spec import NetworkSpec, spec_from_dict
from marl.rewards import RewardWeights, weights_of

MASKED_LOGIT = -1e9  # never chosen, and its gradient is 0
MOST_LAYERS = 1000  # of a network in a file


def mask_reversal(logits: torch.Tensor, obs: torch.Tensor, encoder: Encoder) -> torch.Tensor:
    """The logits [..., 4] of local actions, in float, with the reversal masked; obs [..., W]."""
    at = encoder.direction_at
    up, down, left, right = obs[..., at : at + 4].bool().unbind(-1)
    return logits.float().masked_fill(torch.stack((down, up, right, left), -1), MASKED_LOGIT)


@cache
def local_actions(device: torch.device) -> torch.Tensor:
    """LOCAL_ACTIONS on a device, copied once: a CUDA graph cannot record a copy from the host."""
    return torch.from_numpy(LOCAL_ACTIONS).to(device)


def to_board_logits(logits: torch.Tensor, obs: torch.Tensor, encoder: Encoder) -> torch.Tensor:
    """Logits [N, 4] of local actions as those of actions on the board."""
    if encoder.orientation_at is None:
        return logits
    return logits.gather(-1, local_actions(obs.device)[encoder.orientations(obs).long()])


def describe_actor(encoder: Encoder, spec: NetworkSpec, reward: RewardWeights | None = None) -> dict[str, Any]:
    """All that is needed to build the actor again, ready for JSON; and the reward of its training, if it is known."""
    about = {"encoder": encoder.name, "encoder_version": encoder.version, **asdict(spec)}
    return about if reward is None else about | {"reward": reward._asdict()}


def reward_in(description: dict[str, Any], where: str) -> RewardWeights | None:
    """The reward in a description; files by versions before it have none."""
    found = description.get("reward")
    if found is None:
        return None
    try:
        return weights_of(RewardWeights(**found))
    except (TypeError, UserError):
        raise UserError(
            f"{where}: its reward is {found!r:.80}; expected weights by name, like {{'own': 1.0}}"
        ) from None


def _check_shapes(encoder: Encoder, spec: NetworkSpec, weights: dict[str, torch.Tensor]) -> None:
    """ValueError for weights of other shapes than the network's: a damaged file may name one that fills the memory.

    On the device `meta` a network of any size takes none.
    """
    layers = (*spec.body, *spec.channels, *([spec.lstm_size] if spec.lstm_size else []))
    if len(layers) > MOST_LAYERS or any(type(size) is not int or size < 1 for size in layers):
        raise ValueError("no sizes of layers")
    if spec.outputs not in (ACTIONS, ACTIONS + 1):
        raise ValueError("no outputs of a policy")
    with torch.device("meta"):
        expected = make_actor(encoder, spec).state_dict()
    if {name: tensor.shape for name, tensor in expected.items()} != {name: t.shape for name, t in weights.items()}:
        raise ValueError("other shapes than those of the weights")


def build_actor(description: dict[str, Any], weights: dict[str, torch.Tensor], where: str) -> tuple[AnyActor, Encoder]:
    """The actor of a description, with these weights; messages name `where` they are from."""
    encoder = encoder_named(description.get("encoder"))
    if encoder.version != description.get("encoder_version"):
        raise UserError(
            f"{where} was trained on version {description.get('encoder_version')} of encoder {encoder.name}; "
            f"this program has version {encoder.version}: train again, or use the program it was trained with"
        )
    try:
        spec = spec_from_dict(description)
        if spec.stem not in registry.NETWORKS:
            raise UserError(
                f"{where}: unknown network kind {spec.stem!r:.60}; one of your own comes by {plugins.FLAG} FILE"
            )
        _check_shapes(encoder, spec, weights)
        with torch.random.fork_rng(devices=[]), loaded_next():  # torch's own layers draw: the caller's draws stay
            actor = make_actor(encoder, spec)
        actor.load_state_dict(weights)
    except UserError:
        raise
    except Exception:  # of any kind that a description by a stranger brings about
        raise UserError(f"{where}: its weights are not those of the network that it names") from None
    return actor.requires_grad_(False).eval(), encoder  # a stem of a user may drop out or normalise
