"""Critics: observations [M, 3, W] and the snakes' action probabilities [M, 3, 4] to Q-values.

M = turns of a team. One-hot probabilities stand for actions that were played.
"""

import math

import torch
from torch import nn
from torch.nn import functional as F

from arena.encoders import Encoder
from arena.rules import ACTIONS
from marl.networks.layers import MLP, CommLayer
from marl.networks.spec import NetworkSpec
from marl.networks.stems import make_stem

# Initial gain of what mates add to a snake's features. With the usual one they drown its own: after 200 cycles of
# tests/marl/learners/test_learning.py a team of MADDPG scored 2.2 instead of 5 against level0.
MATES_GAIN = 0.1 * math.sqrt(2)


class Critic(nn.Module):
    """Form `heads`: [M, 3, 4], one Q-value for each own action. Form `joined`: [M, 3, 1], the Q-value of the own
    probabilities, which join the first hidden layer. With `team`, mates' observations and actions count too.
    """

    def __init__(self, encoder: Encoder, spec: NetworkSpec, form: str, team: bool) -> None:
        super().__init__()
        body = spec.body
        self.first = make_stem(encoder, spec)
        self.mates = CommLayer(body[0] + ACTIONS, body[0], MATES_GAIN) if team else None
        self.joined = form == "joined"
        self.tail = MLP(body[0] + ACTIONS * self.joined, body[1:], 1 if self.joined else ACTIONS, 1.0)

    def forward(self, obs: torch.Tensor, probs: torch.Tensor) -> torch.Tensor:
        x = self.first(obs)
        if self.mates is not None:
            x = self.mates(x, torch.cat((x, probs.to(x.dtype)), -1))
        x = F.relu(x)
        if self.joined:
            x = torch.cat((x, probs.to(x.dtype)), -1)
        return self.tail(x)


class Critics(nn.Module):
    """K critics as one module: [K, M, 3, 4 or 1]."""

    def __init__(self, count: int, encoder: Encoder, spec: NetworkSpec, form: str, team: bool) -> None:
        super().__init__()
        self.each = nn.ModuleList(Critic(encoder, spec, form, team) for _ in range(count))

    def forward(self, obs: torch.Tensor, probs: torch.Tensor) -> torch.Tensor:
        return torch.stack([critic(obs, probs) for critic in self.each])


def expected_q(q_values: torch.Tensor, probs: torch.Tensor) -> torch.Tensor:
    """The Q-value of action probabilities [..., 4]: of heads [..., 4] the expectation, of a joined critic its own."""
    return q_values.squeeze(-1) if q_values.shape[-1] == 1 else (q_values * probs).sum(-1)


def min_over_critics(values: torch.Tensor) -> torch.Tensor:
    """The lowest of the critics' values [K, ...]; of one critic its own, without a comparison on the device."""
    return values[0] if len(values) == 1 else values.amin(0)
