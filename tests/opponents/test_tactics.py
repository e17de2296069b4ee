"""The compiled tactics and level1 to level4 against the plain Python of plain_levels.py, on positions in play."""

import pytest
from helpers import plain_levels
from helpers.drawn_boards import Positions, decisions, positions_in_play
from helpers.plain_levels import PLAIN
from helpers.plain_search import unpack

from arena.dangers import tail_may_stay
from arena.encoders.distances import bean_distances, measure
from arena.rules import (
    BEAN_COUNT,
    BEANS,
    BOARD,
    CELLS,
    FREE,
    HEAD,
    SNAKES,
    first_foe,
    first_mate,
    neighbour,
    turns_until_free,
)
from opponents.scripted import beans_to_win
from opponents.tactics import (
    NO_BEAN,
    candidate,
    distance,
    free_ways_on,
    heads_beside,
    moves_towards,
    of_move,
)

SEED = 23


@pytest.fixture(scope="module")
def positions() -> Positions:
    return positions_in_play(SEED, matches=28, every=10)


@pytest.fixture(scope="module")
def matches(positions):
    return positions.state.numpy()[::7]


@pytest.mark.parametrize("start", [0, 19, 87, 180, 199])
def test_distance_and_the_moves_that_shorten_it(start) -> None:
    for end in range(CELLS):
        moves = distance(start, end)
        assert moves == plain_levels.distance(start, end), (start, end)
        nearer = [distance(neighbour(start, move), end) < moves for move in range(4)]
        assert moves_towards(start, end) == sum(bit << move for move, bit in enumerate(nearer)), (start, end)
    assert moves_towards(start, NO_BEAN) == 0


def test_candidates_are_straight_on_then_both_turns() -> None:
    for cell in range(CELLS):
        for direction in range(4):
            turns = [move for move in range(4) if move // 2 != direction // 2]
            expected = [(move, neighbour(cell, move)) for move in (direction, *turns)]
            assert [candidate(cell, direction, number) for number in range(3)] == expected


def test_the_dangers_of_a_cell_are_those_of_plain_words(positions) -> None:
    tails = 0
    for match in positions.state.numpy()[::2]:
        for snake in range(SNAKES):
            head = int(match[HEAD + snake])
            mates = heads_beside(match, first_mate(snake), head)
            foes = heads_beside(match, first_foe(snake), head)
            for move in range(4):
                cell = neighbour(head, move)
                where = f"snake {snake}, move {move}, seed {SEED}"
                assert of_move(mates, move) == plain_levels.near(match, cell, plain_levels.mates(snake)), where
                assert of_move(foes, move) == plain_levels.near(match, cell, plain_levels.foes(snake)), where
                # Plain words count the cell of the own head too: it is never free.
                assert free_ways_on(match, cell, move) == plain_levels.ways_on(match, cell), where
                if turns_until_free(match, cell) <= 1:
                    stays = tail_may_stay(match, snake, cell)
                    assert stays == plain_levels.tail_may_stay(match, snake, cell), where
                    tails += stays
    assert tails > 0, f"seed {SEED}"


def test_the_beans_to_win_agree_with_the_distances_of_the_encoder(matches) -> None:
    for match in matches:
        measured = measure(match)
        for snake in range(SNAKES):
            own, mate, foe = bean_distances(measured, snake)
            found = []
            for i in range(int(match[BEAN_COUNT])):
                distances = [five_bytes >> 8 * i & 255 for five_bytes in (own, mate, foe)]
                assert distance(int(match[HEAD + snake]), int(match[BEANS + i])) == distances[0]
                if min(distances[1:]) >= distances[0]:
                    found.append(int(match[BEANS + i]))
            everything = match[BEANS : BEANS + int(match[BEAN_COUNT])].tolist()
            assert unpack(beans_to_win(match, snake)) == set(found or everything), f"snake {snake}, seed {SEED}"


def with_fewer_beans(positions: Positions) -> Positions:
    """The same positions, each with the last 0 to 5 of its beans taken away."""
    state = positions.state.clone()
    for number, match in enumerate(state):
        left = int(match[BEAN_COUNT]) * (number % 6) // 5
        for cell in match[BEANS + left : BEANS + int(match[BEAN_COUNT])].tolist():
            match[BOARD + cell] = FREE
        match[BEAN_COUNT] = left
    return Positions(state, positions.keys)


@pytest.mark.parametrize("name", PLAIN)
@pytest.mark.parametrize("beans", ["all", "fewer"])
def test_levels_decide_as_in_plain_words(name, beans, positions) -> None:
    found = with_fewer_beans(positions) if beans == "fewer" else positions
    moves = decisions(name, found.arena()).tolist()
    for number, match in enumerate(found.state.numpy()):
        plain = [PLAIN[name](match, snake) for snake in range(SNAKES)]
        assert moves[number] == plain, f"position {number}, seed {SEED}"
