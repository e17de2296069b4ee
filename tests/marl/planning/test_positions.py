"""The mined positions: their verdicts are right, and players solve as many as docs/planning.md says."""

import json
import random

import numpy as np
import pytest
import torch
from helpers.command import assert_one_line
from helpers.training import here

from arena import BatchArena
from arena.rng import match_key
from arena.rules import DIRECTION, HEAD, LENGTH, OVER, SNAKES, TEAM, TURN, TURNS, neighbour
from marl.bench.planning import FILE
from marl.planning import planner
from marl.planning.escape import DIES, LIVES
from marl.planning.planned_player import load_player
from marl.planning.positions import FUTURES, LEAST_LENGTH, Positions, load, save, solved_by
from opponents.players import Player, find

SEED = random.randrange(10**6)
pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def positions() -> Positions:
    return load(FILE)


def test_there_are_enough_and_they_can_occur(positions) -> None:
    count = len(positions.states)
    assert count >= 200
    assert len(positions.states.unique(dim=0)) >= 200
    assert FILE.stat().st_size < 200_000
    rows = torch.arange(count)
    assert (positions.states[rows, LENGTH + positions.snakes] >= LEAST_LENGTH).all()
    assert (positions.states[:, OVER] == 0).all()
    assert (positions.states[:, TURN] + LIVES <= TURNS).all()
    assert (positions.moves != positions.states[rows, DIRECTION + positions.snakes].long() ^ 1).all(), "no reversal"


class PlainSearch:
    """One line of moves after the other, in an arena of one match: what marl.planning.escape does for many at once."""

    def __init__(self, others: Player, seed: int, snake: int) -> None:
        self.others, self.snake = others, snake
        self.sim = BatchArena(1)
        self.sim.keys.fill_(match_key(seed, 0))

    def moves_of(self, state: torch.Tensor, snake: int) -> list[int]:
        return [move for move in range(4) if move != int(state[DIRECTION + snake]) ^ 1]

    def after(self, state: torch.Tensor, own: dict[int, int]) -> tuple[torch.Tensor, bool, bool]:
        """The next position, whether the snake died, and whether head-on with a foe."""
        self.sim.state[0] = state
        actions = torch.zeros(1, SNAKES, dtype=torch.int8)
        self.others.act(self.sim, torch.arange(SNAKES, dtype=torch.int32), actions)
        for snake, move in own.items():
            actions[0, snake] = move
        heads = [neighbour(int(state[HEAD + snake]), int(actions[0, snake])) for snake in range(SNAKES)]
        died = bool(self.sim.play_turn(actions).died[0, self.snake])
        foes = [heads[snake] for snake in range(SNAKES) if snake // TEAM != self.snake // TEAM]
        return self.sim.state[0].clone(), died, heads[self.snake] in foes

    def lives(self, state: torch.Tensor, own: dict[int, int], turns: int, trades: bool) -> bool:
        state, died, head_on = self.after(state, own)
        if died:
            return trades and head_on
        moves = self.moves_of(state, self.snake)
        return turns == 1 or any(self.lives(state, {self.snake: move}, turns - 1, trades) for move in moves)

    def is_fatal(self, state: torch.Tensor, move: int) -> bool:
        first, second = (
            snake for snake in range(SNAKES) if snake // TEAM == self.snake // TEAM and snake != self.snake
        )
        pairs = [(one, two) for one in self.moves_of(state, first) for two in self.moves_of(state, second)]
        return not any(
            self.lives(state, {self.snake: move, first: one, second: two}, DIES, trades=True) for one, two in pairs
        )


def test_a_plain_search_proves_a_sample_again(positions) -> None:
    for i in random.Random(SEED).sample(range(len(positions.states)), 4):
        state, snake, only = positions.states[i], int(positions.snakes[i]), int(positions.moves[i])
        for name, seed in FUTURES[:2]:
            search = PlainSearch(find(name), seed, snake)
            for move in search.moves_of(state, snake):
                told = (i, name, move, only)
                assert search.lives(state, {snake: move}, LIVES, trades=False) == (move == only), told
                assert search.is_fatal(state, move) == (move != only), told


def test_the_planner_solves_them(positions) -> None:
    """Every tenth, all of them solved when this was written: all positions are for `bench positions`."""
    some = positions.take(torch.arange(0, len(positions.states), 10))
    solved = solved_by(load_player("plan:champion_growth"), some)
    assert solved.float().mean() >= 0.95, (~solved).nonzero()[:, 0].tolist()


def test_the_search_for_dead_ends_solves_more(positions, monkeypatch) -> None:
    """Positions that the planner does not solve without the search, by a policy that does not see dead ends itself."""
    some = positions.take(torch.tensor([8, 12, 26, 39, 40, 53, 60, 61, 65, 68]))
    solved = solved_by(load_player("plan:champion_planes"), some).sum()
    monkeypatch.setattr(planner, "DEAD_END", 0.0)
    assert solved_by(load_player("plan:champion_planes"), some).sum() + 3 <= solved


def test_bench_counts_what_players_solve(tmp_path, positions) -> None:
    file = tmp_path / "some.npz"
    save(file, positions.take(torch.arange(40)))
    words = ("bench", "positions", "--players", "level0,territory", "--file", str(file))
    random_mover, territory = json.loads(here(*words, "--json").stdout)["rows"]
    assert (random_mover["player"], random_mover["positions"]) == ("level0", 40)
    assert random_mover["solved"] < territory["solved"] < 40
    table = here(*words).stdout.splitlines()
    assert table[2].split()[:3] == ["territory", str(territory["solved"]), "40"]


def test_broken_files_are_told_in_one_line(tmp_path, positions) -> None:
    whole, file = tmp_path / "whole.npz", tmp_path / "broken.npz"
    some = positions.take(torch.arange(40))
    save(whole, some)
    good = whole.read_bytes()
    damaged = bytearray(good)
    damaged[200:300] = bytes(100)  # in the compressed states
    np.save(tmp_path / "array.npy", some.states.numpy())
    array = (tmp_path / "array.npy").read_bytes()
    for content in (b"", b"text", good[: len(good) // 2], bytes(damaged), array, array[:-1]):
        file.write_bytes(content)
        assert_one_line(here("bench", "positions", "--file", file), f"{file}: no file of positions (", "mine one with")
    none, uneven = some.take(torch.arange(0)), some._replace(moves=some.moves[:-1])
    for positions_ in (none, uneven, some._replace(states=some.states[0])):
        save(file, positions_)
        assert_one_line(here("bench", "positions", "--file", file), f"{file}: no positions", "mine them again")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("positions", "--file", "nothing.npz"), "nothing.npz"),
        (("positions", "--players", "levle4"), "did you mean level4?"),
        (("arena", "--players", "level4"), "--players"),
    ],
)
def test_mistakes_are_one_line(words, told) -> None:
    assert_one_line(here("bench", *words), told)
