"""league.json of a league in training: its steps with their opponents, its members, and all results among them.

A step is written down with its opponents before it trains, and once more with its results when its team joins. The
file is replaced as a whole, so that a killed league finds what it has done and whom it meets.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from arena.files import write_atomically
from marl.errors import UserError
from marl.storage.run_folder import read_regular
from opponents.intervals import wilson
from opponents.prioritised import hardness

if TYPE_CHECKING:
    from opponents.round_robin import Table

FILE = "league.json"
VERSION = 1


@dataclass
class Step:
    """One training of the league; at its end the team joins the league under the name of the step."""

    name: str
    opponents: dict[str, float]  # member -> share of the matches
    first_episode: int  # episodes that its run had before
    is_done: bool = False


@dataclass(frozen=True)
class Pair:
    """The results of two members; wins and losses are those of `home`."""

    home: str
    away: str
    wins: int
    draws: int
    losses: int

    @property
    def points(self) -> float:
        """That `home` took."""
        return self.wins + self.draws / 2


@dataclass
class LeagueRecord:
    """What league.json holds."""

    seed: int  # of the matches among members
    matches: int  # of each pair
    steps: list[Step] = field(default_factory=list)
    pairs: list[Pair] = field(default_factory=list)
    rounds: list[dict[str, float]] = field(default_factory=list)  # metrics at the end of each round, with their `step`

    @property
    def members(self) -> list[str]:
        """The names of the frozen teams, in the order in which they have joined."""
        return [step.name for step in self.steps if step.is_done]

    def step(self, name: str) -> Step | None:
        return next((step for step in self.steps if step.name == name), None)

    def points(self, home: str, away: str) -> float:
        """Points that a member took from another one; half of the matches from itself."""
        for pair in self.pairs:
            if (pair.home, pair.away) == (home, away):
                return pair.points
            if (pair.away, pair.home) == (home, away):
                return self.matches - pair.points
        assert home == away, f"{home} and {away} have not met"
        return self.matches / 2

    def hardness_for(self, member: str | None) -> dict[str, float]:
        """Member -> how hard it is for this one, see opponents/prioritised.py; all alike for a team without results."""
        return {
            other: 1.0 if member is None else hardness(self.points(member, other), self.matches)
            for other in self.members
        }

    def table(self) -> "Table":
        """All results and the ratings."""
        import numpy as np

        from opponents.round_robin import Table, rate

        at = {name: i for i, name in enumerate(self.members)}
        wins = np.zeros((len(at), len(at)), np.int64)
        draws = np.zeros_like(wins)
        for pair in self.pairs:
            i, j = at[pair.home], at[pair.away]
            wins[i, j], wins[j, i] = pair.wins, pair.losses
            draws[i, j] = draws[j, i] = pair.draws
        return Table(tuple(at), self.matches, wins, draws, *rate(wins + draws / 2))

    def write(self, folder: Path) -> None:
        """Replace the file in the league's folder."""
        table = self.table() if self.members else None
        ratings = zip(table.names, table.ratings, table.margins, strict=True) if table else ()
        document = {
            "version": VERSION,
            **asdict(self),
            "pairs": [asdict(pair) | self._share(pair) for pair in self.pairs],
            "ratings": [
                {"name": name, "rating": rating, "rating_low": rating - margin, "rating_high": rating + margin}
                for name, rating, margin in ratings
            ],
        }
        write_atomically(folder / FILE, (json.dumps(document, indent=2) + "\n").encode())

    def _share(self, pair: Pair) -> dict[str, float]:
        low, high = wilson(pair.points, self.matches)
        return {"points": pair.points / self.matches, "points_low": low, "points_high": high}


def read_record(folder: Path) -> LeagueRecord | None:
    """The record in a league's folder; None if there is none yet."""
    file = folder / FILE
    if not file.exists():
        return None
    try:
        about: Mapping[str, Any] = json.loads(read_regular(file))
        if about["version"] != VERSION:
            raise ValueError(f"version {about['version']}, not {VERSION}")
        return LeagueRecord(
            about["seed"],
            about["matches"],
            [Step(**step) for step in about["steps"]],
            [Pair(**{name: pair[name] for name in Pair.__dataclass_fields__}) for pair in about["pairs"]],
            about["rounds"],
        )
    except Exception as error:  # of any kind that a file of a stranger brings about
        raise UserError(f"{file} is no record of a league ({error!r}); take another --run_name") from None
