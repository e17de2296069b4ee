"""Results of matches between two players: counts, rates with intervals, means; and examples of the matches that each
side lost: a few of each, however many are played."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import numpy as np
import torch

from arena.replay import Replay
from opponents.intervals import wilson

RATES = ("win_rate", "win_rate_low", "win_rate_high", "points")


@dataclass(frozen=True)
class Tally:
    """How many of some matches, at least one, home won, drew and lost."""

    matches: int
    wins: int  # of home
    draws: int
    losses: int

    @property
    def win_rate(self) -> float:
        """The fraction of matches that home won; a draw is no win."""
        return self.wins / self.matches

    @property
    def win_rate_low(self) -> float:
        """Lower end of the 95 % interval of the win rate."""
        return wilson(self.wins, self.matches)[0]

    @property
    def win_rate_high(self) -> float:
        """Upper end of the 95 % interval of the win rate."""
        return wilson(self.wins, self.matches)[1]

    @property
    def points(self) -> float:
        """The fraction of the points that home took: 1 for a win, half for a draw."""
        return (self.wins + self.draws / 2) / self.matches

    def as_dict(self) -> dict[str, Any]:
        """The counts and the rates, for JSON."""
        return asdict(self) | {name: getattr(self, name) for name in RATES}


@dataclass(frozen=True)
class RecordedMatches:
    """The actions of some matches; with the seed, they are the matches."""

    numbers: np.ndarray  # [B] of the seed
    sides: np.ndarray  # [B] of home: 0 red, 1 blue
    actions: torch.Tensor  # [T, B, 6] int8; those after the end of a match mean nothing

    def chosen(self, which: np.ndarray) -> "RecordedMatches":
        """Those at some indices, or where a mask is true."""
        return RecordedMatches(self.numbers[which], self.sides[which], self.actions[:, torch.from_numpy(which)])

    @staticmethod
    def joined(parts: "Sequence[RecordedMatches]") -> "RecordedMatches":
        """All matches of the parts, in order."""
        numbers, sides = (np.concatenate([getattr(part, name) for part in parts]) for name in ("numbers", "sides"))
        return RecordedMatches(numbers, sides, torch.cat([part.actions for part in parts], 1))


Examples = tuple[RecordedMatches, RecordedMatches]  # lost by home, lost by away; `sides` are the loser's


@dataclass(frozen=True)
class Results(Tally):
    """Results of all matches of a `play`. A team's score is the length it gained; the larger score wins.

    A player that forfeits a match loses it; if both forfeit, it is a draw.
    """

    home: str
    away: str
    by_colour: dict[str, Tally]  # matches in which home was red, and blue; of one match there is no blue
    home_score: float  # mean over the matches, like the next five
    away_score: float
    home_deaths: float
    away_deaths: float
    home_length: float  # of one snake, at the end
    away_length: float
    home_forfeits: int  # matches lost because a submission failed, whatever the score
    away_forfeits: int
    problems: tuple[str, ...]  # of submissions
    turns: int  # of all matches together
    turns_per_second: float  # match-turns, without each batch's first turn, which may compile
    replays: dict[str, Replay] = field(default_factory=dict)  # if recorded: first, closest, worst and best (for home)
    # If all actions were kept: the matches that home lost by score.
    lost: RecordedMatches | None = field(default=None, compare=False)
    # If asked for: the first matches that each side lost by score.
    examples: Examples | None = field(default=None, compare=False)

    def as_dict(self) -> dict[str, Any]:
        """Everything but the recorded matches, for JSON."""
        names = [of.name for of in fields(self) if of.name not in ("replays", "lost", "examples")]
        values = {name: getattr(self, name) for name in ("home", "away", *names, *RATES)}
        return values | {"by_colour": {colour: tally.as_dict() for colour, tally in self.by_colour.items()}}


def join_examples(
    parts: Sequence[Examples | None],
) -> Examples | None:
    """The examples of all parts; None if there are none."""
    kept = [part for part in parts if part is not None]
    if not kept:
        return None
    home, away = zip(*kept, strict=True)
    return RecordedMatches.joined(home), RecordedMatches.joined(away)


def first_examples(examples: Examples | None, most: int) -> Examples | None:
    """At most so many of each side."""
    if examples is None:
        return None
    home, away = (of.chosen(np.arange(min(most, len(of.numbers)))) for of in examples)
    return home, away


def find_examples(
    numbers: np.ndarray, side: np.ndarray, score: np.ndarray, forfeit: np.ndarray, actions: torch.Tensor, most: int
) -> Examples:
    """The first matches of a batch that home lost, and those that away lost."""
    lead = np.where(forfeit.any(1), 0, score[:, 0] - score[:, 1])
    found = []
    for loser, sides in ((-1, side), (1, 1 - side)):
        which = np.flatnonzero(np.sign(lead) == loser)[:most]
        chosen = actions[:, torch.from_numpy(which).to(actions.device)].cpu()
        found.append(RecordedMatches(numbers[which], sides[which], chosen))
    return found[0], found[1]
