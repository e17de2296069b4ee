"""Cross-play: what the cells of its table say about few matches."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from arena import BatchArena
from arena.encoders import encoder_named
from marl.analysis import cross_play as module
from marl.analysis.cross_play import ManyActors, cross_play
from marl.networks.actors import make_actor
from marl.networks.spec import NetworkSpec
from opponents.intervals import wilson


def groups(*sizes: int) -> list:
    """Groups with so many runs; nothing is read from them."""
    folders = iter(range(100))
    return [SimpleNamespace(runs=[SimpleNamespace(folder=Path(str(next(folders)))) for _ in range(n)]) for n in sizes]


@pytest.mark.parametrize("seeds", [1, 2])
def test_equal_results_have_the_interval_of_their_matches(monkeypatch, seeds) -> None:
    """All matches won, by each seed: no spread between seeds, and yet 40 matches say little about the next one."""
    monkeypatch.setattr(module, "_play_row", lambda row: [1.0] * len(row.away))
    cells = cross_play(groups(seeds, seeds), 40, "cpu")["cells"]
    low, high = wilson(40, 40)
    assert [cells[0][1][key] for key in ("value", "low", "high")] == pytest.approx([1, low, high], abs=1e-6)
    assert cells[0][1]["matches"] == 40
    assert cells[0][1]["ends"] == ["91.2", "100.0"]
    assert [cells[1][0][key] for key in ("low", "high")] == pytest.approx([1 - high, 1 - low], abs=1e-6)


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
