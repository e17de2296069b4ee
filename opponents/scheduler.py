"""The schedule of opponents: a mix of opponents for every episode. marl/rollout draws each match's opponent from it.

The run climbs the ladder by progress (linear, exponential, curriculum, evasive) or by results (adaptive, league).
Progress is compared in integers, never in floats, so that a threshold falls on exactly the configured episode. A run
with another limit than its episodes, such as a time limit, tells its done share: the schedule is then where a run of
episodes alone would be after that share, if that is further.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isqrt
from numbers import Integral
from typing import Annotated, Any

from arena.errors import ArenaError
from opponents.prioritised import hardness, prioritised_weights

ROUNDING = 1e-9  # of sums of shares
Mix = dict[str, float]  # opponent -> share of the matches: easiest rung first, then past selves; adds up to 1

LADDER = ("level0", "level1", "level2", "level3", "level4", "evasive", "territory")
EVASIVE = LADDER.index("evasive")
EPISODES = 50_000  # of a run, by default


def _curriculum(episode: int, end: int) -> int:
    return sum(100 * episode >= percent * end for percent in (10, 30, 60, 85))


# Strategies by progress: (episode, max_episodes), the episode not above the maximum, to a rung from 0 to 4. A line here
# is a new strategy (docs/extend.md).
BY_PROGRESS: dict[str, Callable[[int, int], int]] = {
    "linear": lambda episode, end: 4 * episode // end,
    "exponential": lambda episode, end: isqrt(16 * episode**3 // end**3),  # floor(4 p^1.5)
    "curriculum": _curriculum,
    "evasive": _curriculum,
}
# What each strategy does, for the help text.
ABOUT_STRATEGIES = (
    ("linear", "level0 to level3, each for a quarter of the run"),
    ("exponential", "level0 to level3, the easy ones longer"),
    ("curriculum", "level0 to level4, changing at 10, 30, 60 and 85 % of the run"),
    ("evasive", "as curriculum, then evasive from opponent_evasion_start_episode on"),
    ("adaptive", "level0 to territory, up or down by the measured win rate"),
    ("league", "as adaptive, and also against past selves, the hard ones more often"),
)


def strategies() -> tuple[str, ...]:
    """The names of all strategies."""
    return *BY_PROGRESS, "adaptive", "league"


@dataclass(frozen=True)
class ScheduleConfig:
    """The settings of a schedule; a value out of range is an error."""

    strategy: Annotated[str, strategies, ABOUT_STRATEGIES] = "curriculum"
    """How the opponents get harder."""
    max_episodes: int | None = None
    """Episodes of the whole run (auto: 50,000). Opponents change by the done share of the episodes, or of max_minutes
    if that is larger."""
    enable_opponent_evasion: bool = False
    """From opponent_evasion_start_episode on, play at least the evasive opponent, with any strategy (strategy evasive
    always does)."""
    opponent_evasion_start_episode: int = 40_000
    """First episode of the evasive phase; with max_minutes, the same share of the minutes at the latest."""
    easier_share: float = 0.2
    """Share of the matches against easier opponents than the current one, against forgetting; each level gets twice the
    share of the level below it."""
    up: float = 0.7
    """adaptive, league: from this win rate against the current opponent on, the next harder one follows."""
    down: float = 0.3
    """adaptive, league: below this win rate against the current opponent, the next easier one follows."""
    window: int = 200
    """Matches needed to judge a win rate; at twice as many, all results so far count half, so old ones fade."""
    league_power: float = 2.0
    """league: a past self weighs (1 - win rate) to this power; 0: all equally often."""
    league_scripted_share: float = 0.3
    """league: share of the matches against scripted opponents; self-play matches are not counted."""
    league_interval: int = 5_000
    """league: episodes between two snapshots of the team that join the past selves."""
    league_size: int = 20
    """league: number of past selves to keep; the one that the team beats most often is dropped."""
    self_play: float = 0.0
    """Self-play: share of the matches against the current team itself, with any strategy."""
    learn_both_sides: bool = True
    """Learn from both sides of self-play matches."""
    opponents: tuple[str, ...] = ()
    """Named players with their shares of the matches: any player that `eval` knows. The schedule has the rest
    (champion:0.4,runs/NAME:0.2)."""

    def __post_init__(self) -> None:
        if self.strategy not in strategies():
            raise ArenaError(f"unknown opponent strategy {self.strategy!r}; known: {', '.join(strategies())}")
        for name, fits, allowed in (
            ("max_episodes", self.max_episodes is None or self.max_episodes >= 1, "at least 1"),
            ("opponent_evasion_start_episode", self.opponent_evasion_start_episode >= 0, "at least 0"),
            ("easier_share", 0 <= self.easier_share < 1, "from 0 to below 1"),
            ("up", 0 < self.up <= 1, "above 0, at most 1"),
            ("down", 0 <= self.down < self.up, "from 0 to below up"),
            ("window", self.window >= 1, "at least 1"),
            ("league_power", 0 <= self.league_power < float("inf"), "at least 0"),
            ("league_scripted_share", 0 <= self.league_scripted_share <= 1, "from 0 to 1"),
            ("league_interval", self.league_interval >= 1, "at least 1"),
            ("league_size", self.league_size >= 1, "at least 1"),
            ("self_play", 0 <= self.self_play <= 1, "from 0 to 1"),
        ):
            if not fits:
                raise ArenaError(f"{name} is {getattr(self, name)}; allowed: {allowed}")
        check_sum(self.shares, self.self_play)

    @property
    def shares(self) -> dict[str, float]:
        """Named player -> share of the matches."""
        return parse_shares(self.opponents)

    @property
    def evades(self) -> bool:
        """Whether the evasive opponent is played from opponent_evasion_start_episode on."""
        return self.enable_opponent_evasion or self.strategy == "evasive"


class Scheduler:
    """A schedule with its state from results; without results it is a pure function of the progress.

    Progress is an episode, and the done share of the run if that counts anything else than episodes.
    """

    def __init__(self, config: ScheduleConfig) -> None:
        self.config = config
        self._rung = 0  # set by results; strategies by progress leave it at 0
        self._results: dict[str, list[float]] = {}  # opponent -> [score, matches], both decayed
        self._past_selves: list[str] = []

    def level(self, episode: int, fraction_done: float = 0.0) -> str:
        """Name of the rung at this progress: the main opponent, and in a league the main scripted one."""
        return LADDER[self.rung(episode, fraction_done)]

    def rung(self, episode: int, fraction_done: float = 0.0) -> int:
        """Index of `level` on the ladder, from 0."""
        config = self.config
        end = int(config.max_episodes or EPISODES)
        reached = max(int(episode), int(min(fraction_done, 1.0) * end))
        by_progress = BY_PROGRESS.get(config.strategy)
        rung = by_progress(min(max(reached, 0), end), end) if by_progress else self._rung
        if by_progress and not (isinstance(rung, Integral) and rung in range(EVASIVE)):
            raise ArenaError(f"strategy {config.strategy} gave rung {rung!r}; allowed: 0 to {EVASIVE - 1}")
        return max(rung, EVASIVE) if config.evades and reached >= config.opponent_evasion_start_episode else rung

    def reachable(self) -> tuple[str, ...]:
        """The part of the ladder that this schedule can ever reach."""
        if self.config.strategy not in BY_PROGRESS:
            return LADDER
        return LADDER[: EVASIVE + 1 if self.config.evades else EVASIVE]

    def mix(self, episode: int, fraction_done: float = 0.0) -> Mix:
        """The opponents at this progress and their shares of the matches."""
        ladder = _with_easier(self.rung(episode, fraction_done), self.config.easier_share)
        if self.config.strategy != "league" or not self._past_selves:
            return ladder
        share = self.config.league_scripted_share
        hardness_of = {name: self._hardness(name) for name in self._past_selves}
        weights = prioritised_weights(hardness_of, self.config.league_power)
        total = sum(weights.values())
        mix = {name: share * part for name, part in ladder.items()}
        mix |= {name: (1 - share) * weight / total for name, weight in weights.items()}
        return {name: part for name, part in mix.items() if part > 0}

    def past_share(self) -> float:
        """Share of the matches against past selves: constant, because networks need fixed batch sizes."""
        config = self.config
        left = max(0.0, 1 - config.self_play - sum(config.shares.values()))
        return left * (1 - config.league_scripted_share) if config.strategy == "league" else 0.0

    def counts(self, name: str) -> bool:
        """Whether results against an opponent change the schedule."""
        return name in LADDER or name in self._past_selves

    def record(self, name: str, wins: int, draws: int, losses: int) -> None:
        """Add finished matches of all ranks against an opponent; this may change the rung."""
        if not self.counts(name):
            raise ArenaError(f"results against {name!r}, which is neither on the ladder nor a past self")
        if min(wins, draws, losses) < 0:
            raise ArenaError(f"results against {name} are negative: {wins} wins, {draws} draws, {losses} losses")
        score, matches = self._results.get(name, (0.0, 0.0))
        score, matches = float(score + wins + draws / 2), float(matches + wins + draws + losses)
        while matches >= 2 * self.config.window:
            score, matches = score / 2, matches / 2
        self._results[name] = [score, matches]
        if self.config.strategy in ("adaptive", "league") and name in LADDER and matches >= self.config.window:
            self._move(LADDER.index(name), score / matches)

    def add_past_self(self, name: str) -> str | None:
        """Add a snapshot to the league's pool. If the pool is full, the most beaten one leaves it and is returned."""
        if name in LADDER or name in self._past_selves:
            raise ArenaError(f"past self {name!r} has the name of an opponent that is already there")
        left = None
        if len(self._past_selves) >= self.config.league_size:
            left = min(self._past_selves, key=self._hardness)
            self._past_selves.remove(left)
            self._results.pop(left, None)
        self._past_selves.append(name)
        return left

    def state_dict(self) -> dict[str, Any]:
        """The state that depends on results, ready for JSON."""
        return {
            "strategy": self.config.strategy,
            "rung": self._rung,
            "results": {name: list(result) for name, result in self._results.items()},
            "past_selves": list(self._past_selves),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state of state_dict(); an invalid state raises an error and changes nothing."""
        if not isinstance(state, dict) or state.keys() != self.state_dict().keys():
            found = ", ".join(map(str, state)) if isinstance(state, dict) else type(state).__name__
            raise ArenaError(f"schedule state holds {found or 'nothing'}; expected: {', '.join(self.state_dict())}")
        if state["strategy"] != self.config.strategy:
            raise ArenaError(f"schedule state is of strategy {state['strategy']!r}, not {self.config.strategy!r}")
        rung, results, past = state["rung"], state["results"], state["past_selves"]
        if type(rung) is not int or not 0 <= rung < len(LADDER):
            raise ArenaError(f"schedule state has rung {rung!r}; allowed: 0 to {len(LADDER) - 1}")
        if not isinstance(past, list) or not all(isinstance(name, str) for name in past):
            raise ArenaError("schedule state has past_selves that are not a list of names")
        if len({*LADDER, *past}) != len(LADDER) + len(past):
            raise ArenaError("schedule state has two opponents of one name")
        if not isinstance(results, dict) or not all(
            (name in LADDER or name in past) and _is_result(result) for name, result in results.items()
        ):
            raise ArenaError("schedule state has results that are not [score, matches] of known opponents")
        self._rung, self._past_selves = rung, list(past)
        self._results = {name: list(result) for name, result in results.items()}

    def _move(self, rung: int, rate: float) -> None:
        """One rung above a beaten rung, or one down from the present rung."""
        new = self._rung
        if rung >= self._rung and rate >= self.config.up:  # a harder opponent (evasive phase) counts too
            new = min(rung + 1, len(LADDER) - 1)
        elif rung == self._rung and rate < self.config.down:
            new = max(rung - 1, 0)
        if new != self._rung:
            self._rung = new
            self._results.pop(LADDER[new], None)  # old results would move the rung back at once

    def _hardness(self, name: str) -> float:
        score, matches = self._results.get(name, (0, 0))
        return hardness(score, matches)


def _with_easier(rung: int, share: float) -> Mix:
    """A rung and all easier ones; the easier ones have `share` together, each twice the share of the rung below."""
    if rung == 0 or share == 0:
        return {LADDER[rung]: 1.0}
    parts = 2**rung - 1
    return {LADDER[i]: share * 2**i / parts for i in range(rung)} | {LADDER[rung]: 1 - share}


def _is_result(result: Any) -> bool:
    if not isinstance(result, list) or len(result) != 2 or any(type(value) not in (int, float) for value in result):
        return False
    return 0 <= result[0] <= result[1] < float("inf")


def parse_shares(texts: Sequence[str]) -> dict[str, float]:
    """Player -> share of the matches, from texts PLAYER:SHARE. The share stands after the last colon: `level3:0.2:0.5`
    is half of the matches against `level3:0.2`."""
    shares: dict[str, float] = {}
    for text in texts:
        name, _, share = text.rpartition(":")
        try:
            number = float(share)
        except ValueError:
            number = None
        if not name or number is None:
            raise ArenaError(f"opponents: {text!r} has no share of the matches; write PLAYER:SHARE, like champion:0.4")
        if not 0 < number <= 1:
            raise ArenaError(f"opponents: the share of {name} is {share}; allowed: above 0, at most 1")
        if name in shares:
            raise ArenaError(f"opponents: {name} is named twice; give it one share")
        shares[name] = number
    return shares


def check_sum(shares: dict[str, float], self_play: float) -> None:
    """ArenaError if the shares and that of self-play are more than all matches."""
    total = sum(shares.values()) + self_play
    if total > 1 + ROUNDING:
        and_self_play = f" with self_play {self_play:g}" if self_play else ""
        raise ArenaError(f"opponents: the shares{and_self_play} add up to {total:g}; allowed: at most 1")
