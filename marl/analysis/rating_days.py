"""The ratings of a league by day, as its page draws them (rating_days.js)."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple


class Day(NamedTuple):
    """The ratings of a day."""

    date: str  # like 2026-11-15
    ratings: Mapping[str, float]  # by name
    page: str | None  # name of its page in the same folder


def days_data(days: Sequence[Day]) -> list[dict[str, Any]]:
    """For the page; nothing if there is but one day."""
    return [day._asdict() for day in days] if len(days) > 1 else []
