"""The points of a grading: a table that the teacher writes in YAML.

loads: 10                            # its file loads
clean: 10                            # no error and no forfeit in any match
won:                                 # by share of the matches won; the highest share that was reached counts
  level1: {0.5: 10, 0.9: 20}
  each: {0.25: 5, 0.5: 10, 0.75: 15, 0.9: 20}      # against every opponent that has no line of its own
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from marl.config.values import shorten
from marl.config.yaml_file import as_mapping, read_yaml
from marl.errors import UserError

KEYS = ("loads", "clean", "won")
EACH = "each"
Steps = tuple[tuple[float, float], ...]  # share of the matches won, points from that share on; ascending


@dataclass(frozen=True)
class PointsTable:
    """What a submission gets points for; the defaults are those without a file."""

    loads: float = 10
    clean: float = 10
    won: Mapping[str, Steps] | None = None  # by opponent, or EACH; None: DEFAULT_STEPS against each

    def most(self, opponents: Sequence[str]) -> float:
        """The points of a perfect submission."""
        return self.points(True, dict.fromkeys(opponents, 1.0))

    def points(self, is_clean: bool, win_rates: Mapping[str, float]) -> float:
        """The points of a submission that loads."""
        rates = win_rates.items()
        return self.loads + self.clean * is_clean + sum(self._won(opponent, rate) for opponent, rate in rates)

    def _won(self, opponent: str, rate: float) -> float:
        won = {EACH: DEFAULT_STEPS} if self.won is None else self.won
        return next((points for share, points in reversed(won.get(opponent, won.get(EACH, ()))) if rate >= share), 0.0)


DEFAULT_STEPS: Steps = ((0.25, 5), (0.5, 10), (0.75, 15), (0.9, 20))


def read_points(path: Path, opponents: Sequence[str]) -> PointsTable:
    """The table in a file; a UserError, in one line, for what it cannot mean."""
    values = read_yaml(path).values
    for key in values:
        if key not in KEYS:
            raise UserError(f"{path}: unknown key {shorten(repr(key))}; known: {', '.join(KEYS)}")
    won = as_mapping(values.get("won", {}), f"{path}: won")
    for opponent in won:
        if opponent not in (*opponents, EACH):
            known = ", ".join((*opponents, EACH))
            raise UserError(f"{path}: won: {shorten(repr(opponent))} is none of the opponents; allowed: {known}")
    steps = {str(opponent): _steps(of, f"{path}: won: {opponent}") for opponent, of in won.items()}
    loads, clean = (_number(values.get(key, 0), f"{path}: {key}") for key in ("loads", "clean"))
    return PointsTable(loads, clean, steps)


def _steps(value: Any, where: str) -> Steps:
    steps = [(_number(share, where), _number(points, where)) for share, points in as_mapping(value, where).items()]
    for share, _ in steps:
        if not 0 <= share <= 1:
            raise UserError(f"{where}: {share:g} is no share of the matches won; allowed: 0 to 1, like 0.5: 10")
    return tuple(sorted(steps))


def _number(value: Any, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < 1e9:
        raise UserError(f"{where}: {shorten(repr(value))} is no number")
    return value
