"""The most telling matches of every team of a league: first those that it lost, then those that it won.

Of each pair some lost matches of either side are played again (marl/analysis/losses.py), and of each team only the few
most telling ones are kept, so time and memory do not grow with the matches of a pair.
"""

from dataclasses import dataclass

import numpy as np

from arena.replay import Replay
from marl.analysis.explanation import TELLING, tellingness
from marl.analysis.losses import LostMatch, play_again
from opponents.results import RecordedMatches, Results

EXAMPLES = 16  # lost matches of each side of a pair that are looked at
PAIRS = 120  # from so many on they are fewer: one takes about 4 ms


def examples_per_pair(players: int) -> int:
    """How many lost matches of each side of a pair are looked at, in a league of so many players."""
    pairs = max(1, players * (players - 1) // 2)
    return max(1, min(EXAMPLES, EXAMPLES * PAIRS // pairs))


@dataclass(frozen=True)
class TellingMatch:
    """A match whose loser lost it on one turn more than on any other."""

    loser: str
    winner: str
    scores: tuple[int, int]  # of loser and winner
    turn: int  # the decisive one
    leads: tuple[int, int]  # of the loser before and after it
    replay: Replay


@dataclass(frozen=True)
class _Kept:
    """A match that may be among the most telling ones; its replay is made at the end."""

    order: tuple[bool, float]
    loser: str
    winner: str
    match: LostMatch
    turn: int
    recorded: RecordedMatches  # the match alone


class TellingMatches:
    """Collects them while a league is played."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._lost: dict[str, list[_Kept]] = {}  # by team, the most telling one first
        self._won: dict[str, list[_Kept]] = {}

    def add(self, results: Results) -> None:
        """Look at the examples of a pair."""
        assert results.examples is not None
        sides = ((results.home, results.away), (results.away, results.home))
        for (loser, winner), examples in zip(sides, results.examples, strict=True):
            found = [
                _Kept(
                    tellingness(match, decisive),
                    loser,
                    winner,
                    match,
                    decisive.turn,
                    examples.chosen(np.array([match.index])),
                )
                for match in play_again(examples, self._seed)
                if (decisive := match.decisive) is not None
            ]
            _merge(self._lost, loser, found)
            _merge(self._won, winner, found)

    def of(self, team: str) -> list[TellingMatch]:
        """The most telling matches of a team."""
        kept = [*self._lost.get(team, []), *self._won.get(team, [])][:TELLING]
        return [self._telling(each) for each in kept]

    def _telling(self, kept: _Kept) -> TellingMatch:
        match, recorded = kept.match, kept.recorded
        red, blue = (kept.winner, kept.loser) if match.side else (kept.loser, kept.winner)
        actions = recorded.actions[:, 0]
        replay = Replay.from_actions(self._seed, match.number, None, actions, red=red, blue=blue)
        leads = match.leads[kept.turn - 1], match.leads[kept.turn]
        return TellingMatch(kept.loser, kept.winner, match.scores, kept.turn, leads, replay)


def _merge(kept: dict[str, list[_Kept]], team: str, found: list[_Kept]) -> None:
    kept[team] = sorted([*kept.get(team, []), *found], key=lambda each: each.order)[:TELLING]
