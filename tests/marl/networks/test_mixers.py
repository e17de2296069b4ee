"""Mixers: what the team's Q-value does when the snakes' Q-values change."""

import pytest
import torch

from arena.encoders import encoder_named
from marl.networks.actors import make_actor
from marl.networks.mixers import MonotonicMixer, SumMixer, TeamQ
from marl.networks.spec import NetworkSpec

SEED = 8
ENCODER = encoder_named("features")
SPEC = NetworkSpec((16, 12))
ROWS = 200


@pytest.fixture
def generator() -> torch.Generator:
    print(f"seed {SEED}")
    return torch.Generator().manual_seed(SEED)


@pytest.fixture
def obs(generator) -> torch.Tensor:
    return torch.randint(0, 2, (ROWS, 3, ENCODER.width), generator=generator).float()


def monotonic(noise: float = 0.5) -> MonotonicMixer:
    """A mixer with noise in its weights, so that the layers that make weights give negative numbers, too."""
    torch.manual_seed(SEED)
    mixer = MonotonicMixer(ENCODER, SPEC, 8)
    with torch.no_grad():
        for parameter in mixer.parameters():
            parameter.add_(noise * torch.randn(parameter.shape))
    return mixer


def test_the_sum(obs) -> None:
    q_values = torch.arange(3.0 * ROWS).view(ROWS, 3)
    assert torch.equal(SumMixer()(q_values, obs), q_values[:, 0] + q_values[:, 1] + q_values[:, 2])


def test_a_monotonic_mixer_never_falls_when_a_q_value_rises(obs, generator) -> None:
    mixer, q_values = monotonic(), 5 * torch.randn(ROWS, 3, generator=generator)
    before = mixer(q_values, obs)
    for snake in range(3):
        raised = q_values.clone()
        raised[:, snake] += 3 * torch.rand(ROWS, generator=generator)
        assert (mixer(raised, obs) >= before - 1e-4).all()
        assert (mixer(raised, obs) > before + 1e-4).any()
    q_values.requires_grad_(True)
    (slopes,) = torch.autograd.grad(mixer(q_values, obs).sum(), q_values)
    assert (slopes >= 0).all()
    assert slopes.std(0).min() > 1e-3, "it depends on the state"


def test_it_begins_about_as_steep_as_a_sum(obs) -> None:
    torch.manual_seed(SEED)
    mixer, q_values = MonotonicMixer(ENCODER, NetworkSpec((64, 64)), 32), torch.zeros(ROWS, 3, requires_grad=True)
    (slopes,) = torch.autograd.grad(mixer(q_values, obs).sum(), q_values)
    assert 0.2 < slopes.mean().item() < 5


def test_the_order_of_the_snakes_does_not_matter(obs, generator) -> None:
    mixer, q_values = monotonic(), torch.randn(ROWS, 3, generator=generator)
    order = [2, 0, 1]
    torch.testing.assert_close(mixer(q_values[:, order], obs[:, order]), mixer(q_values, obs), rtol=1e-4, atol=1e-4)


def test_the_state_counts(obs, generator) -> None:
    mixer, q_values = monotonic(), torch.randn(1, 3, generator=generator).expand(ROWS, 3)
    assert mixer(q_values, obs).std() > 1e-2


def test_a_team_is_valued_by_the_moves_it_played(obs, generator) -> None:
    torch.manual_seed(SEED)
    actor = make_actor(ENCODER, SPEC)
    played = torch.randint(0, 4, (ROWS, 3), generator=generator)
    found = TeamQ(actor, SumMixer())(obs, torch.nn.functional.one_hot(played, 4))
    expected = [sum(actor(obs[i])[s, played[i, s]] for s in range(3)) for i in range(20)]
    torch.testing.assert_close(found[:20], torch.stack(expected))
