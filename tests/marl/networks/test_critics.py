"""MAPPO's central critic: it sees the team and nobody else, and leaves the actor's logits alone."""

import pytest
import torch

from arena.encoders import encoder_named
from marl.networks.actors import make_actor
from marl.networks.critics import ActorCritic, CentralCritic
from marl.networks.spec import NetworkSpec

SEED = 5
ENCODER = encoder_named("features")
TEAMS = 4


@pytest.fixture
def obs() -> torch.Tensor:
    print(f"seed {SEED}")
    generator = torch.Generator().manual_seed(SEED)
    return torch.randint(0, 2, (3 * TEAMS, ENCODER.width), generator=generator).float()


def networks(lstm_size: int = 0) -> ActorCritic:
    torch.manual_seed(SEED)
    spec = NetworkSpec((16, 12), lstm_size=lstm_size)
    return ActorCritic(make_actor(ENCODER, spec), CentralCritic(ENCODER, spec))


def test_a_value_depends_on_the_own_team_alone(obs) -> None:
    critic = networks().critic
    changed = obs.clone()
    changed[4] = 1 - changed[4]  # the second snake of the second team
    differs = (critic(obs) != critic(changed)).squeeze(-1)
    assert differs.tolist() == [3 <= row < 6 for row in range(3 * TEAMS)]


def test_the_order_of_the_mates_does_not_matter(obs) -> None:
    critic = networks().critic
    teams = obs.view(TEAMS, 3, -1)
    first = critic(obs).view(TEAMS, 3)[:, 0]
    swapped = critic(teams[:, [0, 2, 1]].reshape(obs.shape)).view(TEAMS, 3)[:, 0]
    torch.testing.assert_close(first, swapped)


def test_outputs_are_the_actors_logits_and_the_critics_values(obs) -> None:
    both = networks()
    outputs = both(obs.view(TEAMS, 3, -1)).view(-1, 5)
    torch.testing.assert_close(outputs, both.step(obs, None, None)[0])
    torch.testing.assert_close(outputs[:, :4], both.actor(obs))
    torch.testing.assert_close(outputs[:, 4:], both.critic(obs))


def test_a_recurrent_actor_has_one_too(obs) -> None:
    both = networks(lstm_size=8)
    hidden, is_first = both.actor.initial_state(len(obs), obs.device), torch.zeros(len(obs), dtype=torch.bool)
    outputs, after = both.step(obs, is_first, hidden)
    assert after.shape == hidden.shape
    torch.testing.assert_close(outputs, both(obs[None], is_first[None], hidden)[0])
    torch.testing.assert_close(outputs[:, 4:], both.critic(obs))
