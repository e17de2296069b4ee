"""Orders of items, by number: each is a permutation, all are alike, and nothing but key and number counts."""

import numpy as np
import pytest

from arena.rng import match_key
from marl.learners.shuffle import shuffle_items

SEED = 20


@pytest.fixture(autouse=True)
def seed_printed() -> None:
    print(f"seed {SEED}")


def order(items: int, key: int, number: int) -> list[int]:
    found, counts = np.full(items, -1), np.array([0, number])
    shuffle_items.cpu_loop()(0, items, (key, counts, found))
    return found.tolist()


@pytest.mark.parametrize("items", [1, 2, 3, 4, 5, 63, 64, 65, 1000, 4096, 5000])
def test_every_item_comes_once(items) -> None:
    assert sorted(order(items, int(match_key(SEED, items)), 3)) == list(range(items))


def test_orders_differ_by_epoch_and_by_rank_and_by_nothing_else() -> None:
    first = order(500, int(match_key(SEED, 1)), 0)
    assert first == order(500, int(match_key(SEED, 1)), 0)
    assert first != order(500, int(match_key(SEED, 1)), 1)
    assert first != order(500, int(match_key(SEED, 2)), 0)


def test_every_place_is_as_likely_for_every_item() -> None:
    items, orders = 12, 6000
    seen = np.zeros((items, items))
    for number in range(orders):
        seen[range(items), order(items, int(match_key(SEED, 7)), number)] += 1
    chi = ((seen - orders / items) ** 2 / (orders / items)).sum()
    assert chi < 220, "121 degrees of freedom: beyond it once in ten million times"
