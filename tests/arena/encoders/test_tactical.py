"""`tactical` and `tactical_board`: the numbers of each action against plain searches, on positions in play."""

import numpy as np
import pytest
from helpers import plain_levels
from helpers.drawn_boards import beside, positions_in_play
from helpers.plain_search import Board, goes_on, number, share_out, walk

from arena import BatchArena
from arena.encoders.egocentric import E_WIDTH
from arena.encoders.features import F_WIDTH
from arena.encoders.orientation import LOCAL_ACTIONS
from arena.encoders.tactical import CONTEST_MOVES, ROOM_MOVES, T_NUMBERS, WORTH_UNIT
from arena.match_dict import to_dict
from arena.rules import ACTIONS

SEED = 31
BEFORE = {"tactical": ("canonical", F_WIDTH), "tactical_board": ("egocentric", E_WIDTH)}


@pytest.fixture(scope="module")
def positions() -> BatchArena:
    return positions_in_play(SEED, matches=8, every=25).arena()


def expected_numbers(row: np.ndarray, snake: int) -> list[list[int]]:
    """The eight numbers of each action of the board."""
    match = to_dict(row)
    board, head = Board(match), tuple(match["snakes"][snake][0])
    waits = {number(cell): len(body) - age for body in match["snakes"] for age, cell in enumerate(body)}
    numbers = []
    for action in range(ACTIONS):
        cell = beside(head, action)
        if action == match["directions"][snake] ^ 1 or waits.get(number(cell), 0) > 1:
            numbers.append([0] * T_NUMBERS)
            continue
        room, bean, _ = walk(board, cell, board.beans, ROOM_MOVES)
        own, foes, worth = share_out(board, snake, cell, CONTEST_MOVES)
        worth = max(-127, min(127, worth // WORTH_UNIT))
        stays = plain_levels.tail_may_stay(row, snake, number(cell))
        dead_end = not goes_on(waits, len(match["snakes"][snake]), [], number(cell))
        soon = ROOM_MOVES + 1 - bean if bean else 0
        numbers.append([1, min(127, room), soon, min(127, own), min(127, foes), worth, int(stays), int(dead_end)])
    return numbers


@pytest.mark.parametrize("name", BEFORE)
def test_the_numbers_of_each_action_are_those_of_plain_searches(positions, name) -> None:
    before, width = BEFORE[name]
    seen, shown = positions.observe(name), positions.observe(before)
    orientations = positions.observe("canonical")[..., -1]
    assert (seen[..., :width] == shown).all()
    found = np.zeros(T_NUMBERS)
    for i, row in enumerate(positions.state.numpy()):
        for snake in range(6):
            local = LOCAL_ACTIONS[int(orientations[i, snake])]
            numbers = seen[i, snake, width:].view(ACTIONS, T_NUMBERS).numpy()[local]
            expected = expected_numbers(row, snake)
            assert numbers.tolist() == expected, f"match {i}, snake {snake}, seed {SEED}: {to_dict(row)}"
            found += (numbers != 0).any(0)
    assert (found > 0).all(), f"every number should occur: {found}, seed {SEED}"
