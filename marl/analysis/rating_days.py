"""The ratings of a league by day, as its page draws them (rating_days.js): `league --daily DIR`.

The folder has a page and a JSON file for every day, and index.html, the newest page. The pages draw the ratings of the
days from the JSON files.
"""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from arena.files import cannot_write, write_user_file
from marl.errors import UserError
from marl.storage.run_folder import read_regular

NAME = re.compile(r"league-(\d{4}-\d\d-\d\d)\.json")
INDEX = "index.html"
DAYS = 60  # that are drawn; older files stay


class Day(NamedTuple):
    """The ratings of a day."""

    date: str  # like 2026-11-15
    ratings: Mapping[str, float]  # by name
    page: str | None  # name of its page in the same folder


def days_data(days: Sequence[Day]) -> list[dict[str, Any]]:
    """For the page; nothing if there is but one day."""
    return [day._asdict() for day in days] if len(days) > 1 else []


def page_name(date: str) -> str:
    """The name of a day's page."""
    return f"league-{date}.html"


def read_days(folder: Path, before: str) -> list[Day]:
    """The last days before a date (like 2026-11-15), in order. UserError if a file cannot be read."""
    if not folder.is_dir():
        return []
    dates = sorted(found[1] for path in folder.iterdir() if (found := NAME.fullmatch(path.name)))
    return [_read(folder, date) for date in [date for date in dates if date < before][1 - DAYS :]]


def _read(folder: Path, date: str) -> Day:
    path, page = folder / f"league-{date}.json", page_name(date)
    try:
        players = json.loads(read_regular(path))["players"]
        ratings = {str(player["name"]): float(player["rating"]) for player in players}
    except Exception as error:  # of any kind that a file of a stranger brings about
        raise UserError(f"{path} is no result of a league ({error!r}); remove it to go on without that day") from None
    return Day(date, ratings, page if (folder / page).exists() else None)


def write_day(folder: Path, date: str, text: str, document: Mapping[str, Any]) -> None:
    """Write the page and the JSON file of a day, and the page once more as index.html."""
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise cannot_write(folder, error) from None
    write_user_file(folder / page_name(date), text)
    write_user_file(folder / f"league-{date}.json", json.dumps(document, indent=2) + "\n")
    write_user_file(folder / INDEX, text)
