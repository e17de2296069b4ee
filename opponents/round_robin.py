"""A round robin: plays all pairs of players and computes their ratings, for the command `league`.

Ratings are Bradley-Terry ratings on the Elo scale: of two players 400 apart the better one takes 10 of 11 points, and
the mean of the league is 1500. A draw counts as half a win and half a loss. One additional draw per pair (PRIOR) keeps
the rating of a player that won every match finite.

The 95 % intervals come from the Fisher information at the fitted ratings. It treats every match as a win or a loss, so
with many draws the intervals are slightly too wide.
"""

import math
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from arena.errors import ArenaError
from opponents.intervals import NORMAL_95
from opponents.league_decision import AWAY, HOME
from opponents.league_rounds import PairedMatches, play_rounds
from opponents.match import choose_device, open_player, play_some, summarise
from opponents.players import Loader, Player
from opponents.results import Results
from opponents.submission import SANDBOXED, Submission, SubmissionOptions

MEAN = 1500.0
ELO = 400 / math.log(10)  # rating points per unit of log-odds
PRIOR = 1.0  # additional drawn matches per pair
REPLAYS = ("best", "worst")  # of a pair, if recorded
TOLERANCE = 1e-6  # log-odds; far below any measurable difference


@dataclass(frozen=True)
class Conduct:
    """How a team behaved in its matches. Only submissions make errors and have times: others decide in batches."""

    errors: int = 0  # moves that did not come, and failures to load
    forfeits: int = 0  # matches
    mean_ms: float | None = None  # of a move: CPU time if the kernel tells it
    longest_ms: float | None = None


def conduct_of(player: Player, forfeits: int) -> Conduct:
    """The conduct of a player since it was opened."""
    if not isinstance(player, Submission):
        return Conduct(forfeits=forfeits)
    times = player.move_times
    if not times.moves:
        return Conduct(player.errors, forfeits)
    return Conduct(player.errors, forfeits, 1000 * times.mean, 1000 * times.longest)


@dataclass(frozen=True)
class Table:
    """The results of a league of n players, in the given order."""

    names: tuple[str, ...]
    matches: int  # per pair; the most, if some pairs were decided earlier
    wins: np.ndarray  # [n, n] int: matches that row won against column
    draws: np.ndarray  # [n, n] int, symmetric
    ratings: np.ndarray  # [n]
    margins: np.ndarray  # [n]: the 95 % interval is rating - margin to rating + margin
    problems: tuple[str, ...] = ()  # of submissions
    conduct: tuple[Conduct, ...] = ()  # of each player
    better: np.ndarray | None = None  # [n, n] bool: the sequential test has found row better than column

    @property
    def played(self) -> np.ndarray:
        """[n, n] int: matches of row and column."""
        return self.wins + self.wins.T + self.draws

    @property
    def points(self) -> np.ndarray:
        """[n, n]: fraction of the points that row took from column; nan on the diagonal."""
        points = np.full(self.wins.shape, np.nan)
        np.divide(self.wins + self.draws / 2, self.played, out=points, where=self.played > 0)
        return points

    @property
    def matches_per_pair(self) -> str:
        """How many, for headings: `1,000`, or `16 to 200`."""
        least = int(self.played[~np.eye(len(self.names), dtype=bool)].min(initial=self.matches))
        return f"{self.matches:,}" if least == self.matches else f"{least:,} to {self.matches:,}"

    def order(self) -> list[int]:
        """The players from the best rating to the worst."""
        return [int(i) for i in np.argsort(-self.ratings, kind="stable")]


def play_round_robin(
    players: Sequence[str | Player],
    matches: int,
    device: str = "cpu",
    seed: int = 0,
    progress: Callable[[Results], None] | None = None,
    loader: Loader | None = None,
    record: bool = False,
    turn_progress: Callable[[str, str, float], None] | None = None,
    submissions: SubmissionOptions = SANDBOXED,
    stop_when_decided: bool = False,
    seconds: float | None = None,
    examples: int = 0,
) -> Table:
    """Play every pair of players or names; all pairs start from the same boards.

    Each pair plays `matches`. With stop_when_decided or `seconds` it plays each board twice, with the colours swapped,
    and at most `matches`: until it is decided who is better, and as many as fit into the time (see league_rounds).

    `device` may be `auto`: see choose_device. `progress` is called with the results of each pair; with `record`, these
    hold the replays that went best and worst for home, and with `examples` so many lost matches of each side.
    `turn_progress` is called after each turn with the names of the pair and the done fraction of the whole league.
    """
    if len(players) < 2:
        raise ArenaError(f"a league needs at least two players, got {len(players)}")
    with ExitStack() as opened:
        found = [open_player(player, opened, loader, submissions) for player in players]
        names = tuple(player.name for player in found)
        for name in names:
            if names.count(name) > 1:
                raise ArenaError(f"player {name} is named {names.count(name)} times; a league needs different ones")
        device = choose_device(device, found)
        wins = np.zeros((len(names), len(names)), np.int64)
        draws, forfeits = np.zeros_like(wins), np.zeros(len(names), np.int64)
        better = np.zeros(wins.shape, bool) if stop_when_decided else None
        pairs = list(combinations(range(len(names)), 2))

        def finish(i: int, j: int, results: Results) -> None:
            wins[i, j], wins[j, i] = results.wins, results.losses
            draws[i, j] = draws[j, i] = results.draws
            forfeits[[i, j]] += results.home_forfeits, results.away_forfeits
            if progress is not None:
                progress(results)

        if stop_when_decided or seconds is not None:
            in_rounds = [PairedMatches(found[i], found[j], device, seed, record, examples=examples) for i, j in pairs]

            def finish_turn_of(pair: PairedMatches, share: float) -> None:
                if turn_progress is not None:
                    turn_progress(pair.home.name, pair.away.name, share)

            play_rounds(in_rounds, (matches + 1) // 2, stop_when_decided, seconds, finish_turn_of)
            for (i, j), pair in zip(pairs, in_rounds, strict=True):
                finish(i, j, pair.results())
                if better is not None:
                    better[i, j], better[j, i] = pair.verdict == HOME, pair.verdict == AWAY
        else:
            for number, (i, j) in enumerate(pairs):

                def finish_turn(share: float, number: int = number, i: int = i, j: int = j) -> None:
                    if turn_progress is not None:
                        turn_progress(names[i], names[j], (number + share) / len(pairs))

                some = play_some(
                    found[i],
                    found[j],
                    matches,
                    range(matches),
                    device,
                    seed,
                    record,
                    progress=finish_turn,
                    examples=examples,
                )
                finish(i, j, summarise([some], seed, REPLAYS))
        problems = tuple(line for player in found if isinstance(player, Submission) for line in player.problems)
        conduct = tuple(conduct_of(player, int(number)) for player, number in zip(found, forfeits, strict=True))
    most = int((wins + wins.T + draws).max())
    return Table(names, most, wins, draws, *rate(wins + draws / 2), problems, conduct, better)


def rate(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Ratings and 95 % margins from points [n, n] that row took from column (win 1, draw 0.5)."""
    taken = points + PRIOR / 2
    np.fill_diagonal(taken, 0.0)
    played = taken + taken.T
    strength = np.zeros(len(taken))
    while True:
        win_prob = 1 / (1 + np.exp(strength[None, :] - strength[:, None]))
        weight = played * win_prob * (1 - win_prob)
        information = np.diag(weight.sum(1)) - weight
        # Only differences of ratings matter, so the matrix is singular; fixing the mean makes it invertible.
        covariance = np.linalg.inv(information + 1 / len(taken)) - 1 / len(taken)
        step = covariance @ (taken - played * win_prob).sum(1)
        spread = np.ptp(step)
        if spread < TOLERANCE:
            break
        # A damped Newton step. With this factor it never overshoots, because the slope of the logistic function changes
        # by at most a factor exp(spread) along the step.
        strength += step * math.log1p(spread) / spread
    strength -= strength.mean()
    return MEAN + ELO * strength, NORMAL_95 * ELO * np.sqrt(np.diag(covariance))
