"""Choices that come from a measurement, kept per machine and configuration in a JSON file of the user.

The same command then makes the same choice at every start, also when the machine is busy with something else.
"""

import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from arena.files import write_atomically

FOLDER, FILE = "snakes_3v3", "threads.json"

T = TypeVar("T", bound=int)


def remember(key: str, measure: Callable[[], T], allowed: Callable[[T], bool]) -> T:
    """The choice kept under this key; without one, or with one that is not allowed, that of `measure`, which is kept.

    A file that cannot be read or written is no error: the choice is measured at every start.
    """
    found: Any = _read().get(key)
    if found is not None and allowed(found):
        return found
    choice = measure()
    path = cache_file()
    if path is not None:
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            # Read again: another start may have added its own in the meantime.
            write_atomically(path, (json.dumps(_read() | {key: choice}, indent=2) + "\n").encode())
    return choice


def cache_file() -> Path | None:
    """The file, in XDG_CACHE_HOME or ~/.cache; None for a user without a home."""
    given = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(given) if given else Path.home() / ".cache") / FOLDER / FILE
    except RuntimeError:
        return None


def _read() -> dict[str, Any]:
    path = cache_file()
    try:
        content = {} if path is None else json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):  # none yet, or damaged
        return {}
    return content if isinstance(content, dict) else {}
