"""Lost matches, played again from their actions to see when and how home lost length.

Many are played at a time; arena/deaths.py says what each death was. "Cells" are length above the three cells of the
start: what a death takes off the score.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from arena import BatchArena
from arena.deaths import Death, DecisiveTurn, decisive_turn, find_deaths
from arena.rules import LENGTH, SNAKES, START_LENGTH, TEAM, TURN
from opponents.results import RecordedMatches

BATCH = 64  # matches that are played again at a time; their positions take 8 MB


class _Turn(NamedTuple):
    """A turn for find_deaths."""

    actions: Sequence[int] | None = None
    ate: Sequence[int] = ()
    died: Sequence[int] = ()


@dataclass(frozen=True)
class LostMatch:
    """What happened in a match that home lost."""

    index: int  # among the recorded matches
    number: int  # of the seed
    side: int  # of home: 0 red, 1 blue
    scores: tuple[int, int]  # of home and away
    leads: list[int]  # of home after each turn; the first one is of the start
    deaths: list[Death]  # of home
    away_lost: list[int]  # cells lost by each death of away

    @property
    def lost(self) -> int:
        """Cells that home lost."""
        return sum(death.lost for death in self.deaths)

    @property
    def decisive(self) -> DecisiveTurn | None:
        """The turn that cost home the most."""
        return decisive_turn(self.leads, self.deaths)


def play_again(
    recorded: RecordedMatches, seed: int, progress: Callable[[float], None] = lambda share: None
) -> list[LostMatch]:
    """The recorded matches, which home lost, with all deaths."""
    found: list[LostMatch] = []
    for first in range(0, len(recorded.numbers), BATCH):
        found += _play_batch(recorded, seed, range(first, min(first + BATCH, len(recorded.numbers))))
        progress(len(found) / len(recorded.numbers))
    return found


def _play_batch(recorded: RecordedMatches, seed: int, indices: range) -> list[LostMatch]:
    arena = BatchArena(len(indices), seed=seed)
    chosen = slice(indices.start, indices.stop)
    arena.numbers[:] = torch.from_numpy(recorded.numbers[chosen]) - arena.stride  # `start` goes on by one stride
    arena.start()
    positions, ate, died = [arena.state.numpy().copy()], [], []
    actions = recorded.actions[:, chosen]
    for of_turn in actions:
        events = arena.play_turn(of_turn)
        positions.append(arena.state.numpy().copy())
        ate.append(events.ate.numpy().copy())
        died.append(events.died.numpy().copy())
    rows = np.stack(positions)
    return [
        _lost_match(
            recorded, indices[i], rows[:, i], actions[:, i].tolist(), [of[i] for of in ate], [of[i] for of in died]
        )
        for i in range(len(indices))
    ]


def _lost_match(
    recorded: RecordedMatches,
    index: int,
    rows: np.ndarray,
    actions: list[list[int]],
    ate: list[np.ndarray],
    died: list[np.ndarray],
) -> LostMatch:
    last, side = int(rows[-1, TURN]), int(recorded.sides[index])
    turns = [_Turn()]
    for turn in range(last):
        turns.append(_Turn(actions[turn], np.flatnonzero(ate[turn]).tolist(), np.flatnonzero(died[turn]).tolist()))
    lengths = rows[: last + 1, LENGTH : LENGTH + SNAKES].astype(int)
    scores = lengths.reshape(-1, 2, TEAM).sum(2) - TEAM * START_LENGTH
    home, away = scores[:, side], scores[:, 1 - side]
    mine = range(side * TEAM, (side + 1) * TEAM)
    away_lost = [
        int(lengths[turn - 1, snake]) - START_LENGTH
        for turn in range(1, last + 1)
        for snake in turns[turn].died
        if snake not in mine
    ]
    deaths = find_deaths(turns, rows.__getitem__, mine)
    ends = int(home[-1]), int(away[-1])
    return LostMatch(index, int(recorded.numbers[index]), side, ends, (home - away).tolist(), deaths, away_lost)
