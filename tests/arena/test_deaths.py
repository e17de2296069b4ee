"""Deaths: their causes on boards made by hand, since when there was no safe move, and counts of recorded matches."""

from collections import Counter
from types import SimpleNamespace

import pytest
from helpers.boards import beside, board, play
from helpers.recorded import steps
from helpers.viewed import long_match, wild_match

from arena.deaths import (
    CAUSES,
    FOE_BODY,
    FOE_HEAD,
    MATE_BODY,
    MATE_HEAD,
    OWN_BODY,
    REVERSAL,
    UNKNOWN,
    Death,
    DecisiveTurn,
    cause_of_death,
    decisive_turn,
    find_deaths,
    has_safe_move,
)
from arena.match_dict import from_dict
from arena.render.timeline import recorded_timeline
from arena.rules import DOWN, LEFT, RIGHT, UP

# name: snakes as {snake: (cells head first, direction)}, beans, moves, the deaths as (snake, cause, other)
CASES = {
    "foe's body": (
        {0: ([(4, 4), (4, 3), (4, 2)], RIGHT), 3: ([(2, 5), (3, 5), (4, 5), (5, 5)], UP)},
        [],
        {},
        [(0, FOE_BODY, 3)],
    ),
    "mate's body": (
        {0: ([(4, 4), (4, 3), (4, 2)], RIGHT), 1: ([(2, 5), (3, 5), (4, 5), (5, 5)], UP)},
        [],
        {},
        [(0, MATE_BODY, 1)],
    ),
    "its own body": (
        {0: ([(4, 4), (4, 5), (5, 5), (5, 4), (5, 3)], LEFT)},
        [],
        {0: DOWN},
        [(0, OWN_BODY, 0)],
    ),
    "a tail stays because its snake eats": (
        {0: ([(4, 4), (4, 3), (4, 2)], RIGHT), 3: ([(5, 6), (4, 6), (4, 5)], DOWN)},
        [(6, 6)],
        {},
        [(0, FOE_BODY, 3)],
    ),
    "head-on with a foe": (
        {0: ([(4, 4), (4, 3), (4, 2)], RIGHT), 3: ([(4, 6), (4, 7), (4, 8), (4, 9)], LEFT)},
        [],
        {},
        [(0, FOE_HEAD, 3), (3, FOE_HEAD, 0)],
    ),
    "heads that swap their cells": (
        {0: ([(4, 4), (4, 3), (4, 2)], RIGHT), 3: ([(4, 5), (4, 6), (4, 7)], LEFT)},
        [],
        {},
        [(0, FOE_HEAD, 3), (3, FOE_HEAD, 0)],
    ),
    "head-on with a mate": (
        {4: ([(4, 4), (4, 3), (4, 2)], RIGHT), 5: ([(3, 5), (2, 5), (1, 5)], DOWN)},
        [],
        {},
        [(4, MATE_HEAD, 5), (5, MATE_HEAD, 4)],
    ),
    "a neck that was a head is a body": (
        {0: ([(4, 4), (4, 3), (4, 2)], RIGHT), 3: ([(4, 5), (4, 6), (4, 7)], LEFT)},
        [],
        {3: UP},
        [(0, FOE_BODY, 3)],
    ),
}


def played(match, moves=None):
    """One turn: the rows before and after, and what is known of the turn."""
    outcome = play(match, moves)
    actions = [(moves or {}).get(snake, match["directions"][snake]) for snake in range(6)]
    ate, died = ([snake for snake in range(6) if of[snake]] for of in (outcome.ate, outcome.died))
    turn = SimpleNamespace(actions=actions, ate=ate, died=died)
    return from_dict(match), from_dict(outcome.match), turn


@pytest.mark.parametrize("name", CASES)
def test_causes(name):
    snakes, beans, moves, expected = CASES[name]
    before, after, turn = played(board(snakes, beans), moves)
    found = [(snake, *cause_of_death(before, after, turn, snake)) for snake in turn.died]
    assert found == expected


def test_around_the_edge_and_lengths():
    match = board({0: ([(0, 19), (0, 18), (0, 17), (0, 16)], RIGHT), 3: ([(9, 0), (0, 0), (1, 0), (2, 0), (3, 0)], UP)})
    before, after, turn = played(match)
    start = SimpleNamespace(actions=None, ate=(), died=())
    assert find_deaths([start, turn], [before, after].__getitem__) == [Death(1, 0, 4, FOE_BODY, 3, 5, None)]
    assert find_deaths([start, turn], [before, after].__getitem__, snakes=(1, 2)) == []


def test_a_reversal_is_the_cause_of_its_own_death_and_hides_that_of_others():
    before = from_dict(board({0: ([(4, 4), (4, 3), (4, 2)], RIGHT), 3: ([(4, 6), (4, 7), (4, 8)], LEFT)}))
    turn = SimpleNamespace(actions=[LEFT, 3, 3, LEFT, 3, 3], ate=(), died=(0, 3))
    assert cause_of_death(before, before, turn, 0) == (REVERSAL, None)
    assert cause_of_death(before, before, turn, 3) == (UNKNOWN, None)


def test_without_actions_a_snake_went_straight_on():
    before, after, turn = played(board(CASES["foe's body"][0]))
    turn.actions = None
    assert cause_of_death(before, after, turn, 0) == (FOE_BODY, 3)


WALL_ABOVE, WALL_BELOW = ([(row, c) for c in range(12, 1, -1)] for row in (3, 5))


def corridor(head: int, end: int):
    """Snake 0 in row 4, between two long bodies that do not leave in time; a third one closes it in column `end`."""
    return board(
        {
            0: ([(4, head), (4, head - 1), (4, head - 2)], RIGHT),
            3: (WALL_ABOVE, RIGHT),
            4: (WALL_BELOW, RIGHT),
            5: ([(4, c) for c in range(end, 19)], LEFT),
        }
    )


@pytest.mark.parametrize(("head", "end", "safe"), [(4, 9, False), (6, 9, False), (8, 9, False), (4, 14, True)])
def test_a_closed_corridor_has_no_safe_move(head, end, safe):
    assert has_safe_move(from_dict(corridor(head, end)), 0) == safe


def test_a_reversal_is_no_safe_move():
    """A respawned snake may face its own neck; the way behind it is free, but the game draws a move instead."""
    match = board({0: ([(4, 0), (4, 19), (4, 18)], LEFT), 1: ([(3, 0), (3, 1), (3, 2)], RIGHT)})
    blocked = board(
        {
            0: ([(4, 0), (4, 19), (4, 18)], LEFT),
            1: ([(3, 4), (3, 3), (3, 2), (3, 1), (3, 0), (3, 19)], RIGHT),
            2: ([(5, 4), (5, 3), (5, 2), (5, 1), (5, 0), (5, 19)], RIGHT),
        }
    )
    assert has_safe_move(from_dict(match), 0)
    assert not has_safe_move(from_dict(blocked), 0)


def test_boxed_in_since_the_turn_that_closed_the_way():
    start = SimpleNamespace(actions=None, ate=(), died=())
    positions, turns = [from_dict(corridor(4, 9))], [start]
    match = corridor(4, 9)
    while not turns[-1].died:
        # The others stand still: only snake 0 moves.
        body = match["snakes"][0]
        cell = list(beside(tuple(body[0]), RIGHT))
        blocked = any(cell in other for other in match["snakes"][1:])
        turns.append(SimpleNamespace(actions=[RIGHT] * 6, ate=(), died=(0,) if blocked else ()))
        match = match | {"snakes": [[cell, *body[:-1]] if not blocked else body, *match["snakes"][1:]]}
        positions.append(from_dict(match))
    (death,) = find_deaths(turns, positions.__getitem__)
    assert (death.turn, death.length, death.other) == (5, 3, 5)
    assert death.boxed_since == 0
    # With a way out in the second position it was boxed in only from the third one on.
    open_board = from_dict(board({0: ([(4, 5), (4, 4), (4, 3)], RIGHT)}))
    (death,) = find_deaths(turns, [positions[0], open_board, *positions[2:]].__getitem__)
    assert death.boxed_since == 2


def test_a_new_body_is_not_boxed_in_by_the_old_one():
    start = SimpleNamespace(actions=None, ate=(), died=())
    died = SimpleNamespace(actions=[RIGHT] * 6, ate=(), died=(0,))
    rows = [from_dict(corridor(8, 9))] * 3
    assert [death.boxed_since for death in find_deaths([start, died, died], rows.__getitem__)] == [0, 1]


def test_recorded_matches():
    deaths = deaths_of(long_match())
    assert [(d.turn, d.snake, d.lost, d.cause, d.other, d.boxed_since) for d in deaths] == [
        (116, 5, 14, FOE_BODY, 1, 113),
        (169, 4, 16, OWN_BODY, 4, 166),
        (175, 3, 13, MATE_HEAD, 5, None),
        (175, 5, 7, MATE_HEAD, 3, None),
    ]


def test_a_wild_match_by_cause():
    match = wild_match(200, seed=3)
    deaths = deaths_of(match)
    assert [(d.turn, d.snake) for d in deaths] == [
        (k, snake) for k, line in enumerate(match.turns, start=1) for snake in line.get("died", ())
    ]
    states = match.states()
    assert all(d.length == len(states[d.turn - 1]["snakes"][d.snake]) for d in deaths)
    counts = Counter(d.cause for d in deaths)
    assert [counts[cause] for cause in CAUSES] == [25, 4, 19, 4, 3, 25, 3]


def test_every_recorded_death_of_the_original_game_has_the_cause_that_its_board_shows():
    """Against the moves that the original took: where a reversal was drawn, our cause is `reversal` or `unknown`."""
    counts = Counter()
    for step in steps():
        died = [snake for snake in range(6) if step.died[snake]]
        if not died:
            continue
        before, after = from_dict(step.before), from_dict(step.after)
        ate = [snake for snake in range(6) if step.ate[snake]]
        turn = SimpleNamespace(actions=step.asked, ate=ate, died=died)
        for snake in died:
            cause, other = cause_of_death(before, after, turn, snake)
            counts[cause] += 1
            if step.asked[snake] != step.taken[snake]:
                assert cause == REVERSAL, step.name
                continue
            cell = beside(tuple(step.before["snakes"][snake][0]), step.taken[snake])
            assert_occupied(step, snake, cell, cause, other)
    assert min(counts[cause] for cause in CAUSES) > 5, counts


def assert_occupied(step, snake, cell, cause, other) -> None:
    """The named snake has a segment of the named kind in the cell after all have moved."""
    heads = {k: beside(tuple(body[0]), step.taken[k]) for k, body in enumerate(step.before["snakes"]) if body}
    if cause == UNKNOWN:
        met = [k for k in heads if k != snake and heads[k] == cell]
        assert any(step.died[k] and step.asked[k] != step.taken[k] for k in met), step.name
        return
    body = [tuple(at) for at in step.before["snakes"][other]]
    if not step.ate[other]:
        body = body[:-1]
    if cause in (FOE_HEAD, MATE_HEAD):
        assert heads[other] == cell or (body[0] == cell and heads[other] == tuple(step.before["snakes"][snake][0]))
    else:
        assert cell in body, (step.name, snake)
    teams = (cause in (FOE_BODY, FOE_HEAD), other // 3 != snake // 3)
    assert teams[0] == teams[1]


def deaths_of(match) -> list[Death]:
    timeline = recorded_timeline(match)
    return find_deaths(timeline.turns, lambda index: from_dict(timeline.turns[index].state))


def death(turn: int) -> Death:
    return Death(turn, 0, 9, FOE_BODY, 3, 5, None)


@pytest.mark.parametrize(
    ("leads", "turns", "expected"),
    [
        ([0, 5, -3], [2], DecisiveTurn(2, 8)),
        ([4, -2, -2, -14, -14], [1, 3], DecisiveTurn(3, 10)),  # 12, of which 2 are taken off
        ([4, -2, -2, -8, -14], [1, 3, 4], DecisiveTurn(1, 6)),
        ([3, -3, 3, -3], [1, 3], DecisiveTurn(3, 6)),  # of equals the last
        ([-30, -40], [1], DecisiveTurn(1, -20)),
        ([0, 1, 1], [2], None),  # it died, and the foe lost as much
        ([0, -1, -2], [], None),
    ],
)
def test_the_decisive_turn(leads, turns, expected):
    assert decisive_turn(leads, [death(turn) for turn in turns]) == expected
