"""Pairs that are played in rounds, each board twice with the colours swapped: until decided, or as time allows."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from arena.replay import Replay
from opponents.league_decision import verdict
from opponents.match import PlayedMatches, Progress, keep_first, leads, play_some, summarise
from opponents.players import Player
from opponents.results import Examples, Results, first_examples, join_examples

FIRST_ROUND = 8  # boards; fewer decide nothing
BOARDS_MOST = 50_000  # per pair, as many as tell 50 % of the points from 50.5 %
TURNED = {"first": "first", "closest": "closest", "worst": "best", "best": "worst"}  # picks, for the other side


class PairedMatches:
    """The matches of two players so far; board k is match k of the seed, played with home as red and as blue."""

    def __init__(
        self,
        home: Player,
        away: Player,
        device: str,
        seed: int,
        record: bool = False,
        keep_actions: bool = False,
        examples: int = 0,
    ) -> None:
        self.home, self.away = home, away
        self.boards = 0
        self._device, self._seed, self._record, self._keep_actions = device, seed, record, keep_actions
        self._most_examples = examples
        self._examples: Examples | None = None
        self._as_red: list[PlayedMatches] = []
        self._as_blue: list[PlayedMatches] = []

    def play(self, boards: int, progress: Progress | None = None) -> None:
        """Play some more boards, twice each."""
        numbers = range(self.boards, self.boards + boards)
        matches = 2 * numbers.stop  # of so many, these numbers are in the first half, in which the first player is red
        for home_is_red in (True, False):
            first, second = (self.home, self.away) if home_is_red else (self.away, self.home)

            def half(share: float, done: float = 0.0 if home_is_red else 0.5) -> None:
                if progress is not None:
                    progress(done + share / 2)

            some = play_some(
                first,
                second,
                matches,
                numbers,
                self._device,
                self._seed,
                self._record,
                progress=half,
                keep_actions=self._keep_actions,
                examples=self._most_examples,
            )
            some = some if home_is_red else _turned(some)
            self._examples = first_examples(join_examples([self._examples, some.examples]), self._most_examples)
            (self._as_red if home_is_red else self._as_blue).append(replace(some, examples=None))
        self.boards += boards

    @property
    def verdict(self) -> str | None:
        """Who is better, HOME or AWAY of league_decision; None: not decided."""
        points = np.zeros(self.boards)
        for of_colour in (self._as_red, self._as_blue):
            points += np.concatenate([np.sign(leads(part.scores, part.forfeits)) for part in of_colour]) + 1
        return verdict(np.bincount(points.astype(np.int64), minlength=5))

    def results(self) -> Results:
        """Of all matches so far, at least one board."""
        parts = [replace(part, picks={}) for part in (*self._as_red, *self._as_blue)]  # home is red in the first half
        found = summarise(parts, self._seed)
        speed = (found.turns - found.matches) / sum(part.seconds for part in parts)
        return replace(found, turns_per_second=speed, replays=self._replays(), examples=self._examples)

    def _replays(self) -> dict[str, Replay]:
        names = self.home.name, self.away.name
        replays: dict[str, tuple[int, Replay]] = {}
        for parts, (red, blue) in ((self._as_red, names), (self._as_blue, names[::-1])):
            picks = dict(parts[0].picks)
            for part in parts[1:]:
                keep_first(picks, part.picks)
            for name, (rank, number, actions) in picks.items():
                if name not in replays or rank < replays[name][0]:
                    made = Replay.from_actions(self._seed, number, None, actions, red=red, blue=blue)
                    replays[name] = rank, made
        return {name: replay for name, (_, replay) in replays.items()}


def play_rounds(
    pairs: Sequence[PairedMatches],
    most: int,
    stop_when_decided: bool,
    seconds: float | None = None,
    progress: Callable[[PairedMatches, float], None] | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Play all pairs in rounds, evenly, up to `most` boards each.

    stop_when_decided: a pair that is decided plays no further round. With `seconds`, no round begins that would, by the
    time of the last one, end later; the first one is played in any case. `progress` gets the pair in play and the done
    share of the boards or of the time.
    """
    begun, size = clock(), FIRST_ROUND if seconds is None else 1
    played, playing = 0, list(pairs)
    while playing and played < most:
        size = min(size, most - played)
        round_begun = clock()
        for number, pair in enumerate(playing):
            done, width = (played + size * number / len(playing)) / most, size / len(playing) / most

            def show(share: float, pair: PairedMatches = pair, done: float = done, width: float = width) -> None:
                if progress is not None:
                    spent = clock() - begun
                    progress(pair, done + width * share if seconds is None else spent / max(spent, seconds, 1e-9))

            pair.play(size, show)
        played += size
        if stop_when_decided:
            playing = [pair for pair in playing if pair.verdict is None]
        if seconds is None:
            size = max(FIRST_ROUND, played // 2)
            continue
        now = clock()
        fit = int((begun + seconds - now) * size / max(now - round_begun, 1e-9))
        if fit < 1:
            return
        size = max(1, fit // 2)  # half of what fits: times of rounds differ


def _turned(part: PlayedMatches) -> PlayedMatches:
    """The same matches as the other side sees them."""
    recorded = part.recorded
    return replace(
        part,
        home=part.away,
        away=part.home,
        scores=part.scores[:, ::-1],
        deaths=part.deaths[:, ::-1],
        forfeits=part.forfeits[:, ::-1],
        picks={TURNED[name]: pick for name, pick in part.picks.items()},
        problems=part.problems[::-1],
        recorded=None if recorded is None else replace(recorded, sides=1 - recorded.sides),
        examples=None if part.examples is None else (part.examples[1], part.examples[0]),
    )
