"""The one exception of the arena: a mistake of its caller, told in one line; the check of a number, and texts of
strangers made safe for such a line."""

from operator import index
from typing import Any

INT64_MAX = 2**63 - 1


class ArenaError(ValueError):
    """Bad input. The message says what is wrong, where, and what is allowed; nothing has been changed."""


def printable(text: str) -> str:
    """The text with `?` for every letter that is not printable: nothing moves a terminal's cursor or breaks a line."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def whole_number(
    value: Any, what: str, least: int = 0, most: int | None = INT64_MAX, allowed: str | None = None
) -> int:
    """`value` as an int; ArenaError unless it is a whole number from `least` to `most` (None: no upper bound).

    int, numpy integers and integer tensors of one element are whole numbers; bool and float are not. `allowed` replaces
    the words of the message that say what is allowed.
    """
    try:
        number = None if isinstance(value, bool) else index(value)
    except TypeError:
        number = None
    if number is None or number < least or (most is not None and number > most):
        upper = "" if most is None else f" to {most}"
        raise ArenaError(f"{what} is {value!r}; allowed: {allowed or f'a whole number from {least}{upper}'}")
    return number
