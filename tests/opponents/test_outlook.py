"""What the outlook packs into lanes and tables, against the plain words of the rules."""

import pytest
from helpers.drawn_boards import Positions, decisions, positions_in_play
from helpers.plain_levels import PLAIN

from arena.encoders.distances import bean_distances, measure
from arena.rules import (
    BEAN,
    BEAN_COUNT,
    BEANS,
    BEANS_MAX,
    BOARD,
    CELLS,
    FREE,
    HEAD,
    SNAKES,
    TAIL,
    neighbour,
    turns_until_free,
)
from opponents.outlook import (
    STEP,
    ahead,
    blocked_or_tail,
    corners,
    each,
    narrows,
    outlook,
    outlook_of,
    shut_in_time,
    spot,
    taken,
    way,
)

SEED = 23


@pytest.fixture(scope="module")
def positions() -> Positions:
    return positions_in_play(SEED, matches=28, every=10)


@pytest.fixture(scope="module")
def matches(positions):
    return positions.state.numpy()[::7]


def lanes(number: int) -> list[int]:
    return [number >> 16 * move & 0xFFFF for move in range(4)]


def test_a_way_is_the_distance_and_the_moves_that_shorten_it(matches) -> None:
    match = matches[0].copy()

    def between(start: int, end: int) -> tuple[int, int]:
        match[HEAD], match[HEAD + 1] = start, end
        return divmod(way(spot(match, HEAD), spot(match, HEAD + 1)), STEP)

    for start in (0, 19, 87, 199):
        for end in range(CELLS):
            distance, moves = between(start, end)
            nearer = [between(neighbour(start, move), end)[0] < distance for move in range(4)]
            assert moves == sum(bit << move for move, bit in enumerate(nearer)), (start, end)
            assert (distance == 0) == (start == end)


def test_whose_bean_it_is_agrees_with_the_measured_distances(matches) -> None:
    for match in matches:
        shared, measured = outlook(match), measure(match)
        for snake in range(SNAKES):
            own, mate, foe = bean_distances(measured, snake)
            for i in range(int(match[BEAN_COUNT])):
                distances = [lanes_of_five >> 8 * i & 255 for lanes_of_five in (own, mate, foe)]
                assert way(spot(match, HEAD + snake), spot(match, BEANS + i)) // STEP == distances[0]
                found = shared.lost >> BEANS_MAX * snake + i & 1
                assert found == (min(distances[1:]) < distances[0]), f"seed {SEED}"


def test_one_seat_alone_sees_what_it_sees_among_all(matches) -> None:
    bits = {"lost": BEANS_MAX, "nearest": 4, "fair": 4, "winnable": 4, "red": 8, "blue": 8}  # of a snake
    for match in matches:
        shared = outlook(match)
        for snake in range(SNAKES):
            alone = outlook_of(match, snake)
            for name, each_has in bits.items():
                own = (1 << each_has) - 1 << each_has * snake
                assert getattr(alone, name) == getattr(shared, name) & own, (name, snake, f"seed {SEED}")
            assert alone.may_eat == shared.may_eat, (snake, f"seed {SEED}")


def test_the_cells_around_a_head_are_what_the_board_says(matches) -> None:
    for match in matches:
        tails = {int(cell) for cell in match[TAIL : TAIL + SNAKES]}
        for snake in range(SNAKES):
            head = int(match[HEAD + snake])
            cells = [neighbour(head, move) for move in range(4)]
            body = [match[BOARD + cell] not in (FREE, BEAN) for cell in cells]
            blocked, tail = blocked_or_tail(match, ahead(head))
            assert lanes(taken(match, ahead(head))) == body
            assert lanes(tail) == [cell in tails for cell in cells]
            assert lanes(blocked) == [there and cell not in tails for cell, there in zip(cells, body, strict=True)]
            beyond = [[neighbour(cell, on) for on in range(4) if on != move ^ 1] for move, cell in enumerate(cells)]
            in_time = [sum(turns_until_free(match, cell) > 2 for cell in three) for three in beyond]
            assert lanes(shut_in_time(match, ahead(head), corners(head))) == in_time


def test_narrows_and_each_are_right_for_all_numbers() -> None:
    none, one = narrows(0 | 1 << 16 | 2 << 32 | 3 << 48)
    assert lanes(none) == [0, 0, 0, 1]
    assert lanes(one) == [0, 0, 1, 0]
    for heads in range(256):
        assert lanes(each(heads)) == [heads >> 2 * move & 3 for move in range(4)]


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
def test_what_is_packed_is_decided_as_in_plain_words(name, beans, positions) -> None:
    found = with_fewer_beans(positions) if beans == "fewer" else positions
    moves = decisions(name, found.arena()).tolist()
    for number, match in enumerate(found.state.numpy()):
        plain = [PLAIN[name](match, snake) for snake in range(SNAKES)]
        assert moves[number] == plain, f"position {number}, seed {SEED}"
