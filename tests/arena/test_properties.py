"""What must hold in every match, looked at over whole matches of players that grow long snakes and of random ones."""

from typing import Any

import numpy as np
import pytest
import torch
from helpers.movers import random_moves, semi_greedy_moves

from arena import BatchArena
from arena.rules import (
    BEAN,
    BEAN_COUNT,
    BEANS,
    BOARD,
    CELLS,
    DIRECTION,
    ENTERED,
    FREE,
    HEAD,
    LENGTH,
    LINK,
    OVER,
    SNAKE,
    TAIL,
    TURN,
    turns_until_free,
)

SEED = 77
MATCHES = 32


class History:
    """States before the first turn and after each turn, and what happened on each."""

    def __init__(self, mover) -> None:
        arena = BatchArena(MATCHES, seed=SEED)
        arena.start()
        generator = np.random.default_rng(SEED)
        self.states = [arena.state.numpy().copy()]
        self.moves: list[np.ndarray] = []
        self.rewards, self.died = [], []
        for _ in range(200):
            moves = mover(arena.state.numpy(), generator)
            events = arena.play_turn(torch.from_numpy(moves))
            self.moves.append(moves)
            self.rewards.append(events.reward.numpy().copy())
            self.died.append(events.died.numpy().copy())
            self.states.append(arena.state.numpy().copy())

    def rows(self):
        """Every match after every turn, with words that say which."""
        for turn, state in enumerate(self.states):
            for b in range(MATCHES):
                yield f"match {b} after turn {turn}, seed {SEED}", state[b]


@pytest.fixture(scope="module", params=[random_moves, semi_greedy_moves], ids=["random", "semi_greedy"])
def history(request) -> History:
    return History(request.param)


def bodies(row: np.ndarray) -> list[list[int]]:
    """Cells of the six snakes, tail first, along the links."""
    values = row.tolist()
    found = []
    for snake in range(6):
        cell = values[TAIL + snake]
        body = []
        for _ in range(values[LENGTH + snake]):
            body.append(cell)
            cell = values[LINK + cell]
        found.append(body)
    return found


def beans(row: np.ndarray) -> list[int]:
    return row[BEANS : BEANS + int(row[BEAN_COUNT])].tolist()


def test_the_games_are_worth_looking_at(history) -> None:
    assert np.stack(history.died).sum() > 100
    assert np.stack(history.rewards).max() == 1


def test_bodies_never_overlap(history) -> None:
    for where, row in history.rows():
        cells = [cell for body in bodies(row) for cell in body]
        assert len(set(cells)) == len(cells), where


def test_beans_never_lie_under_a_body_or_another_bean(history) -> None:
    for where, row in history.rows():
        places = beans(row)
        assert len(set(places)) == len(places), where
        assert not set(places) & {cell for body in bodies(row) for cell in body}, where


def test_a_running_match_always_has_five_beans(history) -> None:
    for state in history.states:
        assert (state[state[:, OVER] == 0, BEAN_COUNT] == 5).all(), f"seed {SEED}"


def test_the_rewards_add_up_to_the_final_length_less_three(history) -> None:
    lengths = history.states[-1][:, LENGTH : LENGTH + 6].astype(int)
    total = np.stack(history.rewards).sum(axis=0)
    roomy = (lengths > 0).all(axis=1)
    assert roomy.any()
    assert (total[roomy] == lengths[roomy] - 3).all(), f"seed {SEED}"


def test_the_links_lead_from_the_tail_to_the_head(history) -> None:
    for where, row in history.rows():
        for snake, body in enumerate(bodies(row)):
            assert not body or body[-1] == row[HEAD + snake], f"snake {snake}, {where}"


def test_every_segment_knows_when_it_will_be_gone(history) -> None:
    for where, row in history.rows():
        length, turn = row[LENGTH : LENGTH + 6].tolist(), int(row[TURN])
        entered = row[ENTERED : ENTERED + CELLS].tolist()
        for snake, body in enumerate(bodies(row)):
            waits = [length[snake] - ((turn - entered[cell]) & 255) for cell in body]
            assert waits == list(range(1, len(body) + 1)), f"snake {snake}, {where}"


def test_turns_until_free_counts_from_the_tail() -> None:
    row = History(semi_greedy_moves).states[150][0]
    for body in bodies(row):
        assert [turns_until_free(row, cell) for cell in body] == list(range(1, len(body) + 1))
    empty = [cell for cell in range(CELLS) if row[BOARD + cell] in (FREE, BEAN)]
    assert all(turns_until_free(row, cell) <= 0 for cell in empty)


def test_the_board_shows_the_bodies_and_the_beans_and_nothing_else(history) -> None:
    for where, row in history.rows():
        board = np.zeros(CELLS, np.uint8)
        for snake, body in enumerate(bodies(row)):
            board[body] = SNAKE + snake
        board[beans(row)] = BEAN
        assert (board == row[BOARD : BOARD + CELLS]).all(), where


def test_lengths_change_by_the_reward(history) -> None:
    for turn, reward in enumerate(history.rewards):
        before, after = (history.states[t][:, LENGTH : LENGTH + 6].astype(int) for t in (turn, turn + 1))
        roomy = (after > 0).all(axis=1)
        assert (after - before == reward)[roomy].all(), f"turn {turn}, seed {SEED}"


def test_a_match_that_is_over_stays_as_it_is_and_has_no_events(history) -> None:
    arena = BatchArena(MATCHES)
    arena.state.copy_(torch.from_numpy(history.states[-1]))
    assert bool((arena.state[:, OVER] == 1).all())
    before = arena.state.clone()
    events = arena.play_turn(torch.full((MATCHES, 6), 1))
    assert torch.equal(arena.state, before)
    assert bool(events.over.all())
    assert not bool(events.ate.any() | events.died.any() | events.reward.any())


def test_a_match_survives_the_way_through_its_dictionary(history) -> None:
    """The dictionary holds everything that matters: the copy looks the same and goes on the same."""
    arena, copy = BatchArena(MATCHES, seed=SEED), BatchArena(MATCHES, seed=SEED)
    for a in (arena, copy):
        a.start()
    for turn in range(0, 200, 13):
        arena.state.copy_(torch.from_numpy(history.states[turn]))
        matches = [arena.get_match(b) for b in range(MATCHES)]
        for b, match in enumerate(matches):
            copy.set_match(b, match)
            assert copy.get_match(b) == match, f"match {b} after turn {turn}, seed {SEED}"
        moves = torch.from_numpy(history.moves[turn])
        arena.play_turn(moves)
        copy.play_turn(moves)
        assert [copy.get_match(b) for b in range(MATCHES)] == [arena.get_match(b) for b in range(MATCHES)], turn


# --- symmetries: nothing depends on names or places unless the rules say so -----------------------------------------


def forward_moves(state: np.ndarray, moves: np.ndarray) -> np.ndarray:
    """The moves without reversals, which are drawn at random."""
    facing = state[:, DIRECTION : DIRECTION + 6]
    return np.where(moves == facing ^ 1, facing, moves)


def turn_of_both(history: History, turn: int, change) -> list[tuple[str, dict, Any, dict, Any]]:
    """One turn of every match and of its changed twin, as (where, match, events, twin, twin's events)."""
    state = history.states[turn]
    moves = forward_moves(state, history.moves[turn])
    found = []
    arena, twin = BatchArena(MATCHES, seed=1), BatchArena(MATCHES, seed=2)
    arena.state.copy_(torch.from_numpy(state))
    twin_moves = []
    for b in range(MATCHES):
        match, changed_moves = change(arena.get_match(b), moves[b].tolist())
        twin.set_match(b, match)
        twin_moves.append(changed_moves)
    events = [t.tolist() for t in arena.play_turn(torch.from_numpy(moves.astype(np.int64)))]
    twin_events = [t.tolist() for t in twin.play_turn(torch.tensor(twin_moves))]
    for b in range(MATCHES):
        ours, theirs = ([values[b] for values in those] for those in (events, twin_events))
        where = f"match {b}, turn {turn}, seed {SEED}"
        found.append((where, arena.get_match(b), ours, twin.get_match(b), theirs))
    return found


def swapped(values: list) -> list:
    return values[3:] + values[:3]


def swap_teams(match: dict, moves: list[int]) -> tuple[dict, list[int]]:
    return match | {k: swapped(match[k]) for k in ("snakes", "directions")}, swapped(moves)


def shifted(cells: list[list[int]]) -> list[list[int]]:
    return [[(row + 3) % 10, (column + 13) % 20] for row, column in cells]


def shift(match: dict, moves: list[int]) -> tuple[dict, list[int]]:
    return match | {"snakes": [shifted(body) for body in match["snakes"]], "beans": shifted(match["beans"])}, moves


def test_swapping_the_teams_swaps_who_dies_and_what_it_costs(history) -> None:
    for turn in range(3, 200, 7):
        for where, _, (_, died, reward, _), _, twin in turn_of_both(history, turn, swap_teams):
            assert (swapped(died), swapped(reward)) == (twin[1], twin[2]), where


def test_swapping_the_teams_swaps_the_result_of_a_turn_without_deaths(history) -> None:
    seen = 0
    for turn in range(3, 200, 7):
        for where, match, (ate, died, _, over), other, twin in turn_of_both(history, turn, swap_teams):
            if any(died):
                continue  # the dead come back in index order
            seen += 1
            kept = 5 - sum(ate)
            assert swapped(match["snakes"]) == other["snakes"], where
            assert swapped(match["directions"]) == other["directions"], where
            assert match["beans"][:kept] == other["beans"][:kept], where
            assert over == twin[3], where
    assert seen > 100


def test_shifting_the_torus_shifts_the_result_of_a_turn_without_deaths(history) -> None:
    seen = 0
    for turn in range(3, 200, 7):
        for where, match, events, other, twin in turn_of_both(history, turn, shift):
            assert events == twin, where
            if any(events[1]):
                continue  # the search for room starts at the top left
            seen += 1
            kept = 5 - sum(events[0])
            assert [shifted(body) for body in match["snakes"]] == other["snakes"], where
            assert shifted(match["beans"][:kept]) == other["beans"][:kept], where
    assert seen > 100
