"""marl.planning.escape: the batched search finds what a plain search proves (tests/marl/planning/test_positions.py)."""

import random
from contextlib import ExitStack

import pytest
import torch

from marl.bench.planning import FILE
from marl.planning.escape import DIES, all_moves, find_only_moves, find_safe_moves, outlives
from marl.planning.positions import FUTURES, load, open_futures

SEED = random.randrange(10**6)
pytestmark = pytest.mark.usefixtures("one_thread")


def test_it_finds_the_mined_moves_again_however_few_nodes_it_follows() -> None:
    positions = load(FILE)
    some = positions.take(torch.tensor(random.Random(SEED).sample(range(len(positions.states)), 12)))
    with ExitStack() as opened:
        futures = open_futures(opened, FUTURES[:2])
        assert torch.equal(find_only_moves(some.states, some.snakes, futures), some.moves)
        safe = find_safe_moves(some.states, some.snakes, futures[0])
        of = all_moves(some.states, some.snakes)
        assert torch.equal(of.moves.view(-1, 3)[safe], some.moves)
        for widths in ((1, None), (None,)):
            assert torch.equal(outlives(of, futures[0], DIES, True, widths).view(-1, 3), safe)
