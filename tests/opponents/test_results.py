"""Examples of lost matches: whose they are, and that forfeits are none."""

import numpy as np
import torch

from opponents.results import find_examples, first_examples, join_examples


def test_examples_are_the_first_matches_that_were_lost_by_score():
    score = np.array([[1, 2], [3, 2], [0, 4], [5, 1], [2, 2], [0, 9]])
    forfeit = np.zeros((6, 2), bool)
    forfeit[0, 0] = forfeit[1, 1] = True  # lost, whatever the score
    numbers, side = np.arange(10, 16), np.array([0, 0, 0, 1, 1, 1])
    actions = torch.arange(6, dtype=torch.int8)[None, :, None].expand(3, 6, 6)
    by_home, by_away = find_examples(numbers, side, score, forfeit, actions, most=5)
    assert (by_home.numbers.tolist(), by_home.sides.tolist()) == ([12, 15], [0, 1])
    assert (by_away.numbers.tolist(), by_away.sides.tolist()) == ([13], [0])
    assert by_home.actions[0, :, 0].tolist() == [2, 5]
    first, _ = find_examples(numbers, side, score, forfeit, actions, most=1)
    assert first.numbers.tolist() == [12]
    both, _ = first_examples(join_examples([None, (by_home, by_away), (by_home, by_away)]), 3)
    assert both.numbers.tolist() == [12, 15, 12]
