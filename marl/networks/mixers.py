"""Mixers: the Q-values of a team's three snakes to the Q-value of the team. M = turns of a team.

Both mixers rise with each snake's Q-value, so that the best move of the team is the best move of each snake alone.
"""

import torch
from torch import nn
from torch.nn import functional as F

from arena.encoders import Encoder
from marl.networks.actors import AnyActor
from marl.networks.layers import MLP, CommLayer, dense
from marl.networks.spec import NetworkSpec
from marl.networks.stems import make_stem

# Initial gain of the layer that makes the output weights: with it the mixer begins about as steep as a sum.
OUT_GAIN = 0.2


class SumMixer(nn.Module):
    """VDN: the sum."""

    def forward(self, q_values: torch.Tensor, obs: torch.Tensor) -> torch.Tensor:
        """q_values [M, 3] of the moves played, obs [M, 3, W] to [M]."""
        return q_values.sum(-1)


class MonotonicMixer(nn.Module):
    """QMIX: a hidden layer whose weights are made by other layers (hypernetworks) from the state, none negative.

    The state is the observations of all three snakes. The order of the snakes does not matter: a snake's weights are
    made from its own features and the sum over its mates, all others from the mean over the team.
    """

    def __init__(self, encoder: Encoder, spec: NetworkSpec, width: int) -> None:
        super().__init__()
        features = spec.body[0]
        self.first = make_stem(encoder, spec)
        self.mates = CommLayer(features, features)
        self.hidden_weights = dense(features, width, 1.0)
        self.hidden_bias = dense(features, width, 1.0)
        self.out_weights = dense(features, width, OUT_GAIN)
        self.out_bias = MLP(features, (width,), 1, 1.0)

    def forward(self, q_values: torch.Tensor, obs: torch.Tensor) -> torch.Tensor:
        """q_values [M, 3] of the moves played, obs [M, 3, W] to [M]."""
        x = self.first(obs)
        snakes = F.relu(self.mates(x, F.relu(x)))  # [M, 3, features]
        team = snakes.mean(-2)
        weights = self.hidden_weights(snakes).abs().float()  # [M, 3, width]
        hidden = _elu((q_values[..., None] * weights).sum(-2) + self.hidden_bias(team).float())
        mixed = (hidden * self.out_weights(team).abs().float()).sum(-1)
        return mixed + self.out_bias(team).squeeze(-1).float()


class TeamQ(nn.Module):
    """The Q-networks of the snakes, which share their weights, and the mixer: the team's Q-value of moves played."""

    def __init__(self, actor: AnyActor, mixer: SumMixer | MonotonicMixer) -> None:
        super().__init__()
        self.actor, self.mixer = actor, mixer

    def forward(self, obs: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        """obs [M, 3, W] and actions [M, 3, 4], one-hot, to [M]."""
        return self.mixer((self.actor(obs).float() * actions).sum(-1), obs)


def _elu(x: torch.Tensor) -> torch.Tensor:
    """Not torch's, which computes the last few numbers of a tensor by another formula than the others."""
    return torch.where(x > 0, x, x.clamp(max=0).exp() - 1)
