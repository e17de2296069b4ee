"""Critics: observations [M, 3, W] and the snakes' action probabilities [M, 3, 4] to Q-values; and MAPPO's central one.

M = turns of a team. One-hot probabilities stand for actions that were played.
"""

import math

import torch
from torch import nn
from torch.nn import functional as F

from arena.encoders import Encoder
from arena.rules import ACTIONS, TEAM
from marl.networks.actors import AnyActor
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


class CentralCritic(nn.Module):
    """MAPPO's: observations [..., 3 n, W] of n teams to values [..., 3 n, 1], from a snake's own and its mates' sum.

    The actor alone plays, is exported and becomes a past self; training calls both networks as one module.
    """

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
