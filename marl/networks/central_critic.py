"""MAPPO's central critic: the value of each snake from the observations of its whole team, beside the actor.

The actor alone plays, is exported and becomes a past self; training calls both networks as one module.
"""

import torch
from torch import nn
from torch.nn import functional as F

from arena.encoders import Encoder
from arena.rules import TEAM
from marl.networks.actors import AnyActor
from marl.networks.layers import MLP, CommLayer
from marl.networks.spec import NetworkSpec
from marl.networks.stems import make_stem


class CentralCritic(nn.Module):
    """Observations [..., 3 n, W] of n teams to values [..., 3 n, 1]: a snake's own, and the sum over its mates."""

    def __init__(self, encoder: Encoder, spec: NetworkSpec) -> None:
        super().__init__()
        width = spec.body[0]
        self.first = make_stem(encoder, spec)
        self.mates = CommLayer(width, width)
        self.tail = MLP(width, spec.body[1:], 1, 1.0)

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        x = self.first(obs)
        teams = x.view(*x.shape[:-2], -1, TEAM, x.shape[-1])
        return self.tail(F.relu(self.mates(teams, F.relu(teams)).view(x.shape)))


class ActorCritic(nn.Module):
    """An actor without a value, and a central critic: together the outputs [..., 5] of an actor with a value."""

    def __init__(self, actor: AnyActor, critic: CentralCritic) -> None:
        super().__init__()
        self.actor, self.critic = actor, critic

    def forward(self, obs: torch.Tensor, *recurrent: torch.Tensor) -> torch.Tensor:
        """recurrent: what a recurrent actor needs beside the observations, is_first and hidden."""
        return self._join(self.actor(obs, *recurrent), obs)

    def step(
        self, obs: torch.Tensor, is_first: torch.Tensor | None, hidden: torch.Tensor | None
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """One turn, as the actor's."""
        logits, hidden = self.actor.step(obs, is_first, hidden)
        return self._join(logits, obs), hidden

    def _join(self, logits: torch.Tensor, obs: torch.Tensor) -> torch.Tensor:
        values = self.critic(obs)
        return torch.cat((logits, values.to(logits.dtype)), -1)
