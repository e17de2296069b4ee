"""Actors that compute together give what each of them gives alone."""

import pytest
import torch

from arena import BatchArena
from arena.encoders import encoder_named
from marl.fast.many_actors import ManyActors
from marl.networks.actors import make_actor
from marl.networks.spec import NetworkSpec

SEED = 5


@pytest.mark.parametrize(("body", "outputs"), [((32,), 4), ((64, 32), 5)])
def test_each_actor_gets_its_rows(body, outputs) -> None:
    print(f"seed {SEED}")
    torch.manual_seed(SEED)
    encoder = encoder_named("features")
    actors = [make_actor(encoder, NetworkSpec(body=body, outputs=outputs)) for _ in range(3)]
    arena = BatchArena(12, seed=SEED)
    arena.start()
    obs = arena.observe("features").flatten(0, 1)
    many = ManyActors(actors).to(torch.device("cpu"))
    found, hidden = many.step(obs, None, many.initial_state(len(obs), torch.device("cpu")))
    with torch.no_grad():
        expected = torch.cat([actor(rows) for actor, rows in zip(actors, obs.chunk(3), strict=True)])
    assert hidden is None
    torch.testing.assert_close(found, expected)
