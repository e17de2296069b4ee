"""Ranges of numbers in a configuration; a value outside is a UserError of one line."""

import math

from marl.errors import UserError

Range = tuple[float, float]


def at_least(low: float) -> Range:
    return low, math.inf


def between(low: float, high: float) -> Range:
    return low, high


def check_ranges(section: str, config: object, **ranges: Range) -> None:
    """Check the fields named by the keywords. None stands for auto and is in every range."""
    for name, (low, high) in ranges.items():
        value = getattr(config, name)
        if value is not None and not low <= value <= high:
            allowed = f"from {low:g}" + ("" if high == math.inf else f" to {high:g}")
            raise UserError(f"{section and section + '.'}{name} is {value}; allowed: {allowed}")
