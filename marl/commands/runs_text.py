"""Numbers and tables of `runs`, as text and for JSON."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from marl.wording import in_one_line

if TYPE_CHECKING:
    from marl.commands.runs_summary import EvaluationPoint, RunSummary

NAME_WIDTH = 28


def document(run: "RunSummary") -> dict[str, Any]:
    """A run for JSON."""
    best = run.best
    rates = {
        name: {"win_rate": rate, "low": best.intervals[name][0], "high": best.intervals[name][1]}
        for name, rate in (best.rates if best else {}).items()
    }
    return {
        "name": run.name,
        "path": str(run.folder),
        "algo": run.algo,
        "state": run.state,
        "episodes": run.episodes,
        "env_steps": run.env_steps,
        "seconds": run.seconds,
        "started_unix": run.started,
        "bytes": run.size,
        "best": {"episode": best.episode, "points": best.points, "against": rates} if best else None,
    }


def rate_text(point: "EvaluationPoint | None") -> str:
    """The win rate of an evaluation against its last opponent, with its interval."""
    if point is None:
        return "-"
    name, rate = list(point.rates.items())[-1]
    low, high = point.intervals[name]
    return f"{name} {rate:.1%} ({100 * low:.0f}-{100 * high:.0f})"


def print_rows(rows: Sequence[tuple[str, ...]], right: tuple[int, ...] = (), gap: str = "  ") -> None:
    """Print aligned columns; those in `right` are aligned on the right."""
    rows = [tuple(map(in_one_line, row)) for row in rows]  # names of runs may hold terminal escapes
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (f"{cell:{'>' if i in right else '<'}{widths[i]}}" for i, cell in enumerate(row))
        print(gap.join(cells).rstrip())


def shortened(name: str, most: int = NAME_WIDTH) -> str:
    """A name of at most so many letters; the beginning says most."""
    return name if len(name) <= most else name[: most - 3] + "..."


def amount(number: float) -> str:
    """A large number: `600 k`, `1.25 M`."""
    for factor, unit in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if number >= factor:
            return f"{number / factor:.3g}{unit}"
    return f"{number:.0f}"


def size_text(number: int) -> str:
    """A size on disk."""
    return f"{number / 1e9:.1f} GB" if number >= 1e9 else f"{number / 1e6:.1f} MB"


def duration(seconds: float) -> str:
    """A time of training."""
    minutes, hours = seconds / 60, seconds / 3600
    return f"{seconds:.0f} s" if seconds < 100 else f"{minutes:.0f} min" if minutes < 100 else f"{hours:.1f} h"
