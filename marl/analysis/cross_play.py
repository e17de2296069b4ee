"""Cross-play: matches between the final teams of runs, all runs of a group against all runs of every other group.

A team plays all its matches in one batch: a turn of a match alone takes as long as a turn of hundreds.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import torch
from torch.nn.functional import relu

from arena.rules import TEAM
from marl.analysis.comparison import percent, table_cell
from marl.analysis.groups import RunGroup
from marl.analysis.runs import CHECKPOINTS
from marl.analysis.statistics import Estimate, estimate_pair_mean
from marl.errors import UserError
from marl.fast.dense_pass import dense_layers
from marl.networks.actors import AnyActor
from marl.storage.policy_player import PolicyPlayer
from opponents.intervals import wilson

if TYPE_CHECKING:
    from arena import BatchArena
    from opponents.players import Player

SEED = 3_000_017  # of the matches; those of trainings and evaluations have others


class _Row(NamedTuple):
    """One team of a group against all teams of another group."""

    home: str
    away: tuple[str, ...]
    matches: int  # against each of them: an even number, half of it on each side
    device: str
    seed: int


class _Teams:
    """Several players as one: of n players, the player i plays the matches i, n + i, 2 n + i, ... of a batch."""

    name = "teams"

    def __init__(self, players: "Sequence[Player]") -> None:
        self._players, self._seats = players, list[torch.Tensor]()
        # Players with networks of one shape compute together.
        alike: dict[Any, list[int]] = {}
        for i, player in enumerate(players):
            alike.setdefault(_network_of(player) or i, []).append(i)
        self._together = [(_as_one([players[i] for i in each]), each) for each in alike.values()]

    def begin(self, arena: "BatchArena", seats: torch.Tensor) -> None:
        matches = seats.view(-1, TEAM)
        own = [matches[i :: len(self._players)].flatten() for i in range(len(self._players))]
        self._seats = [torch.cat([own[i] for i in each]) for _, each in self._together]
        for (player, _), seats in zip(self._together, self._seats, strict=True):
            player.begin(arena, seats)

    def act(self, arena: "BatchArena", seats: torch.Tensor, moves: torch.Tensor) -> None:
        for (player, _), seats in zip(self._together, self._seats, strict=True):
            player.act(arena, seats, moves)

    def close(self) -> None:
        """The players are closed where they were opened."""


def _network_of(player: "Player") -> Any:
    """What is equal for players that can compute together; None if a player cannot."""
    if not isinstance(player, PolicyPlayer) or dense_layers(player.actor) is None:
        return None
    return player.encoder.name, player.actor.spec


def _as_one(players: "Sequence[Player]") -> "Player":
    """Players with networks of one shape as one, which has their seats one after the other; or the only player."""
    policies = [player for player in players if isinstance(player, PolicyPlayer)]
    if len(players) == 1:
        return players[0]
    actor = cast(AnyActor, ManyActors([policy.actor for policy in policies]))  # it has what PolicyPlayer calls
    return PolicyPlayer(actor, policies[0].encoder, _Teams.name)


def cross_play(
    groups: Sequence[RunGroup],
    matches: int,
    device: str,
    progress: Callable[[float], None] | None = None,
    side_by_side: int = 1,
) -> dict[str, Any]:
    """Share of the points that row takes from column, with intervals over the runs of both.

    matches: for a pair of groups, split evenly over the pairs of their runs; at least two for each, one on each side.
    side_by_side: processes that play at a time, each with one thread.
    """
    from opponents.match import choose_device

    if len(groups) < 2:
        raise UserError("--cross_play needs runs of two configurations or more")
    device = choose_device(device, [])
    teams = [tuple(str(run.folder / CHECKPOINTS / "last") for run in group.runs) for group in groups]
    pairs = list(combinations(range(len(groups)), 2))
    each = {(i, j): max(2, 2 * round(matches / len(teams[i]) / len(teams[j]) / 2)) for i, j in pairs}
    rows = [
        _Row(home, teams[j], each[i, j], device, SEED + number)
        for i, j in pairs
        for number, home in enumerate(teams[i])
    ]
    cells: list[list[Any]] = [[None] * len(groups) for _ in groups]
    with _open_map(min(side_by_side, len(rows))) as run:
        played = _with_progress(run(_play_row, rows), len(rows), progress)
        for i, j in pairs:
            points = np.array([next(played) for _ in teams[i]])
            estimate = estimate_pair_mean(points)
            if np.ptp(points) == 0:  # one seed each, or equal ones, which tell no spread: the interval of the matches
                played_matches = each[i, j] * points.size
                estimate = Estimate(estimate.value, *wilson(estimate.value * played_matches, played_matches))
            cells[i][j] = table_cell(estimate, percent) | {"matches": each[i, j] * points.size}
            mirrored = Estimate(1 - estimate.value, 1 - estimate.high, 1 - estimate.low)
            cells[j][i] = table_cell(mirrored, percent) | {"matches": each[i, j] * points.size}
    return {"cells": cells, "device": device}


def _play_row(row: _Row) -> list[float]:
    """Points of the home team against each of the others."""
    from opponents.match import BATCH, play_some

    home, away = _open(row.home), _Teams([_open(name) for name in row.away])
    count = row.matches * len(row.away)
    batch = max(1, BATCH // len(row.away)) * len(row.away)  # whole rounds of all players
    played = play_some(home, away, count, range(count), row.device, row.seed, batch=batch)
    points = (1 + np.sign(played.scores[:, 0] - played.scores[:, 1])) / 2
    return [float(points[i :: len(row.away)].mean()) for i in range(len(row.away))]


@cache
def _open(team: str) -> "Player":
    """A team as a player. A checkpoint is read once: it may hold a replay buffer, whose bytes are compared."""
    from marl.planning.planned_player import load_player
    from opponents.players import find

    return find(team, load_player)


@contextmanager
def _open_map(processes: int) -> Iterator[Callable[..., Iterable[list[float]]]]:
    """`map` in this process, or in several processes."""
    if processes < 2:
        yield map
        return
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    from marl.compute.threads import use_threads

    # Not forked: this process may have threads of torch already.
    with ProcessPoolExecutor(processes, get_context("spawn"), use_threads, (1,)) as pool:
        yield pool.map


def _with_progress(
    results: Iterable[list[float]], number: int, progress: Callable[[float], None] | None
) -> Iterator[list[float]]:
    for done, result in enumerate(results, start=1):
        if progress is not None:
            progress(done / number)
        yield result


class ManyActors:
    """Plays for n dense actors without gradients: a product for each layer, not for each actor.

    Of the rows [n * R, W] the first R are for the first actor, and so on.
    """

    def __init__(self, actors: Sequence[AnyActor]) -> None:
        """The actors have one network shape, of dense layers only (dense_layers), and are not trained any more."""
        self.spec = actors[0].spec
        layers = [found for found in map(dense_layers, actors) if found is not None]
        self._scale = layers[0].scale
        # [n, inputs, outputs] and [n, 1, outputs] of each layer
        self._weights = [torch.stack(each).mT.contiguous() for each in zip(*(of.weights for of in layers), strict=True)]
        self._biases = [torch.stack(each)[:, None] for each in zip(*(of.biases for of in layers), strict=True)]

    def to(self, device: torch.device) -> "ManyActors":
        self._scale = self._scale.to(device)
        self._weights = [weight.to(device) for weight in self._weights]
        self._biases = [bias.to(device) for bias in self._biases]
        return self

    def initial_state(self, snakes: int, device: torch.device) -> None:
        """No hidden state."""

    def step(
        self, obs: torch.Tensor, is_first: torch.Tensor | None, hidden: torch.Tensor | None
    ) -> tuple[torch.Tensor, None]:
        """Outputs [n * R, 4 or 5]."""
        x = (obs.float() * self._scale).view(len(self._weights[0]), -1, obs.shape[-1])
        for weight, bias in zip(self._weights[:-1], self._biases[:-1], strict=True):
            x = relu(torch.baddbmm(bias, x, weight))
        return torch.baddbmm(self._biases[-1], x, self._weights[-1]).flatten(0, 1), None
