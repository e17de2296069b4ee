"""The rules, quirk by quirk. A cell is (row, column); bodies are written head first; the board is a torus of 10 x 20.

Snakes that a case does not name wait in rows 7 and 9, going right; beans it does not name lie in row 0.
"""

import numpy as np
import pytest
import torch
from helpers.boards import assert_uniform, beside, board, copies, crowded, play

from arena import BatchArena
from arena.rules import BEANS, BOARD, DIRECTION, DOWN, FREE, HEAD, LEFT, RIGHT, TAIL, UP

SEED = 20_240


# --- moving and eating ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("head", "move", "lands_on"),
    [
        ((4, 4), UP, (3, 4)),
        ((4, 4), DOWN, (5, 4)),
        ((4, 4), LEFT, (4, 3)),
        ((4, 4), RIGHT, (4, 5)),
        ((0, 7), UP, (9, 7)),
        ((9, 18), DOWN, (0, 18)),
        ((4, 0), LEFT, (4, 19)),
        ((4, 19), RIGHT, (4, 0)),
    ],
)
def test_a_head_moves_one_cell_around_the_torus(head, move, lands_on) -> None:
    neck = beside(head, move ^ 1)
    body = [head, neck, beside(neck, move ^ 1)]
    after = play(board({0: (body, move)}, beans=[(2, 9), (2, 10), (2, 11), (2, 12), (2, 13)]))
    assert after.body(0) == [lands_on, *body[:2]]


def test_a_bean_makes_a_snake_longer_by_one() -> None:
    after = play(board({0: ([(4, 4), (4, 3), (4, 2)], RIGHT)}, beans=[(4, 5)]))
    assert after.body(0) == [(4, 5), (4, 4), (4, 3), (4, 2)]
    assert (after.ate[0], after.reward[0]) == (True, 1)


def test_surviving_beans_keep_their_order_and_new_ones_are_appended() -> None:
    beans = [(0, 19), (0, 17), (0, 15), (0, 13), (0, 11)]
    snakes = {0: ([(1, 13), (2, 13), (3, 13)], UP), 1: ([(1, 17), (2, 17), (3, 17)], UP)}
    after = play(board(snakes, beans))
    assert after.match["beans"][:3] == [[0, 19], [0, 15], [0, 11]]
    assert len(after.match["beans"]) == 5


# --- quirk 1: a reversal is replaced by a random move ---------------------------------------------------------------


@pytest.mark.parametrize("facing", [UP, DOWN, LEFT, RIGHT])
def test_quirk_1_a_reversal_becomes_one_of_the_other_three_moves_uniformly(facing) -> None:
    arena = copies(board({0: ([(4, 10), (4, 11), (4, 12)], facing)}), 6000, SEED + facing)
    moves = arena.state[:, DIRECTION : DIRECTION + 6].long()
    moves[:, 0] = facing ^ 1
    arena.play_turn(moves)
    went = np.bincount(arena.state[:, DIRECTION].numpy(), minlength=4)
    assert went[facing ^ 1] == 0
    assert_uniform(np.delete(went, facing ^ 1), f"reversal from {facing}, seed {SEED + facing}")


def test_quirk_1_reversals_of_different_snakes_are_drawn_independently() -> None:
    arena = copies(board({0: ([(4, 4), (4, 5), (4, 6)], LEFT), 3: ([(4, 14), (4, 15), (4, 16)], LEFT)}), 9000, SEED)
    moves = arena.state[:, DIRECTION : DIRECTION + 6].long()
    moves[:, [0, 3]] = RIGHT
    arena.play_turn(moves)
    directions = arena.state[:, DIRECTION : DIRECTION + 6].numpy().astype(int)
    pairs = np.bincount(directions[:, 0] * 3 + directions[:, 3], minlength=9)
    assert_uniform(pairs, f"pairs of reversals, seed {SEED}")


# --- quirks 2-8: who eats, who dies ---------------------------------------------------------------------------------
# name, snakes {index: (body, direction)}, beans, moves {index: move}, who ate, who died, rewards of those named

COLLISIONS = {
    "quirk 2: one bean, two heads: the lower index eats, both die": (
        {0: ([(4, 4), (4, 3), (4, 2), (4, 1), (4, 0)], RIGHT), 3: ([(4, 6), (4, 7), (4, 8), (4, 9)], LEFT)},
        [(4, 5)],
        {},
        {0},
        {0, 3},
        {0: -2, 3: -1},
    ),
    "quirk 3: eating while dying costs exactly the old length": (
        {0: ([(4, 4), (4, 3), (4, 2), (4, 1)], RIGHT), 3: ([(4, 6), (4, 7), (4, 8)], LEFT)},
        [(4, 5)],
        {},
        {0},
        {0, 3},
        {0: -1, 3: 0},
    ),
    "quirk 4: a tail leaves before anyone collides": (
        {0: ([(4, 4), (4, 3), (4, 2)], RIGHT), 3: ([(5, 6), (4, 6), (4, 5)], DOWN)},
        [],
        {},
        set(),
        set(),
        {0: 0, 3: 0},
    ),
    "quirk 4: ... and the index does not matter": (
        {3: ([(4, 4), (4, 3), (4, 2)], RIGHT), 0: ([(5, 6), (4, 6), (4, 5)], DOWN)},
        [],
        {},
        set(),
        set(),
        {0: 0, 3: 0},
    ),
    "quirk 5: the tail of a snake that eats stays and kills": (
        {0: ([(4, 4), (4, 3), (4, 2)], RIGHT), 3: ([(5, 6), (4, 6), (4, 5)], DOWN)},
        [(6, 6)],
        {},
        {3},
        {0},
        {0: 0, 3: 1},
    ),
    "quirk 5: ... whichever index it has": (
        {3: ([(4, 4), (4, 3), (4, 2)], RIGHT), 0: ([(5, 6), (4, 6), (4, 5)], DOWN)},
        [(6, 6)],
        {},
        {0},
        {3},
        {0: 1, 3: 0},
    ),
    "quirk 6: two heads on one cell: both die": (
        {0: ([(4, 4), (4, 3), (4, 2)], RIGHT), 3: ([(4, 6), (4, 7), (4, 8)], LEFT)},
        [],
        {},
        set(),
        {0, 3},
        {0: 0, 3: 0},
    ),
    "quirk 6: mates kill each other like foes": (
        {0: ([(4, 4), (4, 3), (4, 2)], RIGHT), 1: ([(4, 6), (4, 7), (4, 8)], LEFT)},
        [],
        {},
        set(),
        {0, 1},
        {0: 0, 1: 0},
    ),
    "quirk 6: the longer snake has no advantage": (
        {0: ([(4, 4), (4, 3), (4, 2), (4, 1), (4, 0)], RIGHT), 3: ([(4, 6), (4, 7), (4, 8)], LEFT)},
        [],
        {},
        set(),
        {0, 3},
        {0: -2, 3: 0},
    ),
    "quirk 6: adjacent heads that swap places both die": (
        {0: ([(4, 4), (4, 3), (4, 2)], RIGHT), 3: ([(4, 5), (4, 6), (4, 7)], LEFT)},
        [],
        {},
        set(),
        {0, 3},
        {0: 0, 3: 0},
    ),
    "quirk 6: three heads on one cell: all die": (
        {
            0: ([(4, 4), (4, 3), (4, 2)], RIGHT),
            3: ([(4, 6), (4, 7), (4, 8)], LEFT),
            4: ([(3, 5), (2, 5), (1, 5)], DOWN),
        },
        [],
        {},
        set(),
        {0, 3, 4},
        {},
    ),
    "quirk 6: four heads on one cell: all die": (
        {
            0: ([(4, 4), (4, 3), (4, 2)], RIGHT),
            2: ([(5, 5), (6, 5), (6, 4)], UP),
            3: ([(4, 6), (4, 7), (4, 8)], LEFT),
            4: ([(3, 5), (2, 5), (1, 5)], DOWN),
        },
        [],
        {},
        set(),
        {0, 2, 3, 4},
        {},
    ),
    "quirk 6: 3 runs into the body of 0: only 3 dies": (
        {0: ([(4, 6), (4, 5), (4, 4), (4, 3)], RIGHT), 3: ([(3, 5), (2, 5), (1, 5)], DOWN)},
        [],
        {},
        set(),
        {3},
        {},
    ),
    "quirk 6: 0 runs into the body of 3: only 0 dies": (
        {3: ([(4, 6), (4, 5), (4, 4), (4, 3)], RIGHT), 0: ([(3, 5), (2, 5), (1, 5)], DOWN)},
        [],
        {},
        set(),
        {0},
        {},
    ),
    "quirk 6: a snake that bites itself dies": (
        {0: ([(4, 4), (4, 5), (5, 5), (5, 4), (5, 3)], LEFT)},
        [],
        {0: DOWN},
        set(),
        {0},
        {0: -2},
    ),
    "quirk 7: the own tail is safe": (
        {0: ([(4, 4), (4, 5), (5, 5), (5, 4)], LEFT)},
        [],
        {0: DOWN},
        set(),
        set(),
        {0: 0},
    ),
    "quirk 8: the body of a dying snake still kills": (
        {
            0: ([(4, 4), (4, 3), (4, 2)], RIGHT),
            3: ([(4, 6), (4, 7), (4, 8)], LEFT),
            4: ([(3, 3), (2, 3), (1, 3)], DOWN),
        },
        [],
        {},
        set(),
        {0, 3, 4},
        {},
    ),
    "head-on across the side border": (
        {0: ([(4, 19), (4, 18), (4, 17)], RIGHT), 3: ([(4, 1), (4, 2), (4, 3)], LEFT)},
        [],
        {},
        set(),
        {0, 3},
        {},
    ),
}


@pytest.mark.parametrize("case", COLLISIONS)
def test_who_eats_and_who_dies(case) -> None:
    snakes, beans, moves, ate, died, rewards = COLLISIONS[case]
    after = play(board(snakes, beans), moves)
    assert {i for i in range(6) if after.ate[i]} == ate
    assert {i for i in range(6) if after.died[i]} == died
    assert {i: after.reward[i] for i in rewards} == rewards


def test_quirk_2_the_bean_under_two_heads_is_gone_and_drawn_again() -> None:
    snakes, beans, moves, *_ = COLLISIONS["quirk 2: one bean, two heads: the lower index eats, both die"]
    before = board(snakes, beans)
    after = play(before, moves)
    assert after.match["beans"][:4] == before["beans"][1:]
    assert len(after.match["beans"]) == 5


def test_quirk_7_a_ring_can_circle_for_ever() -> None:
    match = board({0: ([(4, 4), (4, 5), (5, 5), (5, 4)], LEFT)})
    for move in (DOWN, RIGHT, UP, LEFT):
        match = play(match, {0: move}).match
    assert match["snakes"][0] == [[4, 4], [4, 5], [5, 5], [5, 4]]


def test_quirk_8_the_dead_come_back_in_index_order_at_the_top_left() -> None:
    snakes, beans, moves, *_ = COLLISIONS["quirk 8: the body of a dying snake still kills"]
    after = play(board(snakes, beans), moves)
    assert after.body(0) == [(0, 1), (0, 0), (1, 0)]
    assert after.body(3) == [(0, 3), (0, 2), (1, 2)]
    assert after.body(4) == [(0, 5), (0, 4), (1, 4)]
    assert [after.match["directions"][i] for i in (0, 3, 4)] == [RIGHT, RIGHT, RIGHT]


def test_all_six_can_die_at_once() -> None:
    heads_on = {
        0: ([(1, 4), (1, 3), (1, 2)], RIGHT),
        3: ([(1, 6), (1, 7), (1, 8)], LEFT),
        1: ([(3, 4), (3, 3), (3, 2)], RIGHT),
        4: ([(3, 6), (3, 7), (3, 8)], LEFT),
        2: ([(5, 4), (5, 3), (5, 2)], RIGHT),
        5: ([(5, 6), (5, 7), (5, 8)], LEFT),
    }
    after = play(board(heads_on))
    assert after.died == [True] * 6
    assert [after.body(i)[0] for i in range(6)] == [(0, 1), (0, 3), (0, 5), (0, 7), (0, 9), (0, 10)]


# --- quirks 9-12: where a dead snake comes back ---------------------------------------------------------------------
# free cells once it is gone, where it lay, the move that kills it, its new body and direction

RESPAWNS = {
    "quirk 9: free above and below only: head in the middle": (
        [(0, 2), (1, 2), (9, 2)],
        [(0, 2), (1, 2), (9, 2)],
        RIGHT,
        [(0, 2), (1, 2), (9, 2)],
        UP,
    ),
    "quirk 9: free right and left only: head in the middle": (
        [(4, 0), (4, 1), (4, 19)],
        [(4, 0), (4, 1), (4, 19)],
        UP,
        [(4, 0), (4, 1), (4, 19)],
        LEFT,
    ),
    "quirk 10: over the side border the direction points at the own neck": (
        [(0, 0), (0, 19), (0, 18)],
        [(0, 18), (0, 19), (0, 0)],
        LEFT,
        [(0, 0), (0, 19), (0, 18)],
        LEFT,
    ),
    "quirk 10: over the upper border likewise": (
        [(0, 0), (9, 0), (0, 19)],
        [(9, 0), (0, 0), (0, 19)],
        RIGHT,
        [(9, 0), (0, 0), (0, 19)],
        DOWN,
    ),
    "quirk 11: corner with right and down: head to the right": (
        [(4, 4), (4, 5), (5, 4)],
        [(4, 5), (4, 4), (5, 4)],
        RIGHT,
        [(4, 5), (4, 4), (5, 4)],
        RIGHT,
    ),
    "quirk 11: corner with down and left: head below": (
        [(4, 0), (5, 0), (4, 19)],
        [(5, 0), (4, 0), (4, 19)],
        DOWN,
        [(5, 0), (4, 0), (4, 19)],
        DOWN,
    ),
    "quirk 11: a straight pocket: head on the first cell, facing out": (
        [(4, 4), (4, 5), (4, 6)],
        [(4, 6), (4, 5), (4, 4)],
        RIGHT,
        [(4, 4), (4, 5), (4, 6)],
        LEFT,
    ),
    "quirk 11: a bent pocket: head on the first cell": (
        [(4, 4), (5, 4), (5, 3)],
        [(5, 3), (5, 4), (4, 4)],
        LEFT,
        [(4, 4), (5, 4), (5, 3)],
        UP,
    ),
    "quirk 11: down a column": (
        [(3, 7), (4, 7), (5, 7)],
        [(5, 7), (4, 7), (3, 7)],
        LEFT,
        [(3, 7), (4, 7), (5, 7)],
        UP,
    ),
    "quirk 12: pockets of one and two cells are skipped": (
        [(0, 5), (2, 2), (2, 3), (6, 6), (6, 7), (6, 8), (7, 6)],
        [(6, 8), (6, 7), (6, 6)],
        RIGHT,
        [(6, 7), (6, 6), (7, 6)],
        RIGHT,
    ),
}


@pytest.mark.parametrize("case", RESPAWNS)
def test_where_a_dead_snake_comes_back(case) -> None:
    free, hole, move, body, direction = RESPAWNS[case]
    match, moves = crowded(free, hole, move)
    after = play(match, moves)
    assert after.died == [True, False, False, False, False, False]
    assert after.body(0) == body
    assert after.match["directions"][0] == direction


def test_quirk_9_beans_alone_can_force_a_torn_body() -> None:
    snakes = {0: ([(4, 4), (4, 3), (4, 2)], RIGHT), 3: ([(3, 5), (4, 5), (5, 5), (6, 5)], UP)}
    after = play(board(snakes, beans=[(0, 0), (0, 1), (1, 1), (0, 3), (5, 15)]))
    assert after.body(0) == [(0, 2), (1, 2), (9, 2)]
    assert after.match["directions"][0] == UP


def test_quirk_9_a_torn_body_may_enter_its_own_tail_cell() -> None:
    after = play(board({0: ([(0, 2), (1, 2), (9, 2)], UP), 4: ([(6, 4), (6, 3), (6, 2)], RIGHT)}))
    assert not after.died[0]
    assert after.body(0) == [(9, 2), (0, 2), (1, 2)]


BACKWARDS = {0: ([(0, 0), (0, 19), (0, 18)], LEFT)}  # quirk 10: stored direction left, neck on the left


def test_quirk_10_going_on_in_the_stored_direction_kills() -> None:
    assert play(board(BACKWARDS, beans=[(2, 9)]), {0: LEFT}).died[0]


@pytest.mark.parametrize("move", [UP, DOWN])
def test_quirk_10_turning_aside_is_safe(move) -> None:
    assert not play(board(BACKWARDS, beans=[(2, 9)]), {0: move}).died[0]


def test_quirk_10_the_way_out_counts_as_a_reversal_and_kills_in_a_third_of_cases() -> None:
    match = board(BACKWARDS, beans=[(2, 9)])
    arena = copies(match, 6000, SEED)
    moves = torch.tensor(match["directions"]).repeat(6000, 1)
    moves[:, 0] = RIGHT
    died = int(arena.play_turn(moves).died[:, 0].sum())
    assert abs(died - 2000) < 6 * (6000 * 2 / 9) ** 0.5, f"{died} of 6000 died, seed {SEED}"


def test_quirk_12_cells_of_snakes_that_died_on_the_same_turn_are_free_for_the_search() -> None:
    snakes = {0: ([(0, 1), (0, 0), (1, 0)], RIGHT), 3: ([(0, 3), (0, 4), (0, 5)], LEFT)}
    after = play(board(snakes, beans=[(2, 9), (2, 10), (2, 11), (2, 12), (2, 13)]))
    assert after.body(0) == [(0, 1), (0, 0), (1, 0)]
    assert after.body(3) == [(0, 3), (0, 2), (1, 2)]


# --- quirks 13 and 17: the end --------------------------------------------------------------------------------------


def no_room() -> tuple[dict, list[int]]:
    """Snake 0 dies, but another steps onto the cell that its tail leaves: two of its cells and a far one are free."""
    match, moves = crowded([(4, 4), (4, 5), (4, 6)], [(4, 6), (4, 5), (4, 4)], RIGHT)
    other = next(i for i in range(1, 6) if [3, 4] in match["snakes"][i])
    match["snakes"][other].remove([3, 4])
    match["snakes"][other].insert(0, [3, 4])
    match["directions"][other] = moves[other] = DOWN
    return match, moves


def test_quirk_13_without_room_the_snake_stays_empty_and_the_match_ends() -> None:
    after = play(*no_room())
    assert after.died[0]
    assert after.body(0) == []
    assert after.over


def test_quirk_13_the_reward_is_still_three_minus_the_length() -> None:
    assert play(*no_room()).reward[0] == 0


def filled(total: int) -> tuple[dict, list[int]]:
    """A crowded board of this total length where snake 0 eats the bean above its head."""
    match, moves = crowded([(4, 4), (4, 5), (4, 6)], [(4, 4), (4, 5), (4, 6)], LEFT)
    above = [3, 4]
    other = next(i for i in range(1, 6) if above in match["snakes"][i][1:-1])
    body, beans = match["snakes"][other], match["beans"]
    body[body.index(above)], beans[0] = beans[0], above
    del body[1 : 1 + 195 - total]
    moves[0] = UP
    return match, moves


@pytest.mark.parametrize(("total", "over"), [(193, False), (194, False), (195, True)])
def test_quirk_17_the_match_ends_when_the_total_length_passes_195(total, over) -> None:
    match, moves = filled(total)
    assert sum(map(len, match["snakes"])) == total
    after = play(match, moves)
    assert after.ate[0]
    assert after.over == over


@pytest.mark.parametrize(("turn", "over"), [(0, False), (198, False), (199, True)])
def test_a_match_has_200_turns(turn, over) -> None:
    after = play(board({}, turn=turn))
    assert after.match["turn"] == turn + 1
    assert after.over == over


def test_a_full_board_gets_as_many_beans_as_there_are_free_cells() -> None:
    after = play(*filled(195))
    covered = sum(map(len, after.match["snakes"])) + len(after.match["beans"])
    assert covered == 200
    assert len(after.match["beans"]) == 4


# --- what is drawn --------------------------------------------------------------------------------------------------


def bean_draws(match: dict, count: int, seed: int, moves: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """Where the last bean went in many copies of a match, and which cells were open to it."""
    arena = copies(match, count, seed)
    arena.play_turn(torch.tensor(moves).repeat(count, 1))
    last = arena.state[:, BEANS + 4].numpy().astype(int)
    board_after = arena.state[0, BOARD : BOARD + 200].numpy().copy()
    board_after[last[0]] = FREE
    return last, np.flatnonzero(board_after == FREE)


def test_a_new_bean_falls_on_every_free_cell_alike() -> None:
    match = board({0: ([(4, 4), (4, 3), (4, 2)], RIGHT)}, beans=[(4, 5)])
    last, free = bean_draws(match, 40_000, SEED, match["directions"])
    assert set(last) <= set(free)
    assert_uniform(np.bincount(last, minlength=200)[free], f"new beans, seed {SEED}")


def test_a_new_bean_on_a_crowded_board_falls_on_every_free_cell_alike() -> None:
    match, moves = filled(189)  # 190 after eating, and four beans: six cells are left
    last, free = bean_draws(match, 20_000, SEED, moves)
    assert len(free) == 6
    assert set(last) <= set(free)
    assert_uniform(np.bincount(last, minlength=200)[free], f"new beans on a crowded board, seed {SEED}")


def test_five_new_beans_fall_on_distinct_cells() -> None:
    match = board({})
    match["beans"] = []
    arena = copies(match, 2000, SEED)
    arena.play_turn(torch.tensor(match["directions"]).repeat(2000, 1))
    beans = np.sort(arena.state[:, BEANS : BEANS + 5].numpy().astype(int), axis=1)
    assert (np.diff(beans, axis=1) > 0).all(), f"seed {SEED}"


@pytest.fixture(scope="module")
def starts() -> BatchArena:
    arena = BatchArena(20_000, seed=SEED)
    arena.start()
    return arena


def test_matches_start_with_six_straight_disjoint_snakes_and_five_beans(starts) -> None:
    for i in range(500):
        match = starts.get_match(i)
        for body, direction in zip(match["snakes"], match["directions"], strict=True):
            head, neck, tail = (tuple(cell) for cell in body)
            assert (beside(tail, direction), beside(neck, direction)) == (neck, head), f"match {i}, seed {SEED}"
        covered = [tuple(cell) for cells in (*match["snakes"], match["beans"]) for cell in cells]
        assert len(set(covered)) == len(covered) == 23, f"match {i}, seed {SEED}"
        assert match["turn"] == 0


@pytest.mark.parametrize("snake", [0, 5])
def test_start_directions_are_uniform(starts, snake) -> None:
    drawn = starts.state[:, DIRECTION + snake].numpy()
    assert_uniform(np.bincount(drawn, minlength=4), f"start direction of snake {snake}, seed {SEED}")


@pytest.mark.parametrize("what", ["head of snake 0", "tail of snake 0", "head of snake 5", "last bean"])
def test_start_positions_are_uniform(starts, what) -> None:
    at = {"head of snake 0": HEAD, "tail of snake 0": TAIL, "head of snake 5": HEAD + 5, "last bean": BEANS + 4}[what]
    drawn = starts.state[:, at].numpy()
    assert_uniform(np.bincount(drawn, minlength=200), f"{what}, seed {SEED}")


def test_start_places_are_independent_of_directions(starts) -> None:
    pairs = starts.state[:, TAIL].numpy().astype(int) * 4 + starts.state[:, DIRECTION].numpy()
    assert_uniform(np.bincount(pairs, minlength=800), f"tail and direction of snake 0, seed {SEED}")
