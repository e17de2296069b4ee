"""A made-up minibatch of PPO, in which every case of the loss occurs."""

from typing import Any

import torch

from marl.learners.ppo_loss import Coefs, PpoBatch

TEAM, OUTPUTS, NONE = 3, 5, -1
MASKED = {"none": 0.0, "some": 0.5, "all": 1.0}  # how many snakes have a masked action
OPTIONS: list[dict[str, float]] = [
    {},
    {"clip": 0.05},
    {"entropy": 0.0, "value_weight": 2.0},
    {"value_clip": 0.3},
    {"clip": 1e9, "entropy": 1.0},
    {"uniform_kl": 0.7},
    {"entropy": 0.0, "uniform_kl": 0.0, "value_weight": 0.0},
    {"clip": 0.1, "value_clip": 0.5, "value_weight": 1.5, "entropy": 0.2, "uniform_kl": 0.4},
]


def made_up(rows: int = 40, masked: str = "all", seed: int = 0) -> tuple[torch.Tensor, PpoBatch]:
    """Outputs [M, 3, 5], and what the loss is computed from. Some ratios are clipped, some are not."""
    draw = torch.Generator().manual_seed(seed)
    shape = (rows, TEAM)

    def normal(*sizes: int) -> torch.Tensor:
        return torch.randn(sizes, generator=draw)

    outputs = normal(*shape, OUTPUTS)
    actions = torch.randint(0, 4, shape, generator=draw)
    others = (actions + torch.randint(1, 4, shape, generator=draw)) % 4  # the action that was played is never masked
    off = torch.where(torch.rand(shape, generator=draw) < MASKED[masked], others, NONE)
    legal = torch.arange(4) != off[..., None]
    now = outputs[..., :4].masked_fill(~legal, -torch.inf).log_softmax(-1).gather(-1, actions[..., None])[..., 0]
    log_probs = now + 0.2 * normal(*shape)
    rest = (normal(*shape), normal(*shape), normal(*shape))
    return outputs, PpoBatch(actions.to(torch.int8), off.to(torch.int8), log_probs, *rest)


def some_coefs(clip: float = 0.2, value_clip: float = 0.0, value_weight: float = 0.5, **regularisers: Any) -> Coefs:
    given = {"entropy": 0.03, "uniform_kl": 0.0} | regularisers
    return Coefs(torch.tensor((given["entropy"], given["uniform_kl"])), clip, value_clip, value_weight)
