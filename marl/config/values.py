"""Types of options: which values a type hint allows, and a value given as text or from YAML converted to that type;
and ranges of numbers, outside of which a value is a UserError of one line."""

import math
import types
import typing
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Annotated, Any, Literal

from marl.errors import UserError

NONE_WORDS = ("auto", "none", "null")
BOOL_WORDS = dict.fromkeys(("true", "yes", "on", "1"), True) | dict.fromkeys(("false", "no", "off", "0"), False)
SCALARS = {  # type -> its name in the help, and the allowed values in messages
    int: ("INT", "a whole number"),
    float: ("FLOAT", "a finite number"),
    bool: ("BOOL", "true or false"),
    str: ("TEXT", "text"),
}
EXACT = 2**53  # every whole number up to this is exact as a float
VALUE_MAX = 100  # letters of a value in a message


class Choices:
    """The allowed values of a text option are the keys of a table: `Annotated[str, Choices(TABLE)]`.

    Instead of the table a function may be given that returns it. It is called only to check a value or to print the
    help, so the module with the table is not loaded before. A package that must not import marl writes the names
    themselves, as a tuple, or the function: `Annotated[str, NAMES]`. Pairs (name, description) may follow as a second
    tuple; the help shows them.
    """

    def __init__(self, table: Collection[str] | Callable[[], Collection[str]]) -> None:
        self._table = table

    def names(self) -> tuple[str, ...]:
        names = tuple(self._table() if callable(self._table) else self._table)
        if {*names} & {*NONE_WORDS}:
            raise TypeError(f"{', '.join(names)}: a choice must not have a name that means None")
        return names


class NotText(ValueError):
    """Text was expected; the message is the type of the value that was given."""


def check_type(hint: Any) -> None:
    """TypeError if no file or flag could hold a value of this type: a mistake in the dataclass."""
    kind, optional = split_optional(hint)
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is tuple and arguments[1:] == (...,):
        check_type(arguments[0])
    elif origin is Literal and all(isinstance(choice, str) for choice in arguments):
        if optional and {*arguments} & {*NONE_WORDS}:
            raise TypeError(f"{hint}: a choice must not have a name that means None")
    elif not (kind in SCALARS or (origin is Annotated and _is_choice(kind.__metadata__[0]))):
        raise TypeError(f"a configuration cannot hold {hint}")


def _is_choice(about: Any) -> bool:
    return isinstance(about, (Choices, tuple)) or callable(about)


def describe(hint: Any) -> tuple[str, str]:
    """How the help writes a value of this type, and how a message says what is allowed."""
    kind, optional = split_optional(hint)
    if typing.get_origin(kind) is tuple:
        metavar, allowed = describe(typing.get_args(kind)[0])
        metavar, allowed = f"{metavar},...", f"a list, every item {allowed}"
    elif kind in SCALARS:
        metavar, allowed = SCALARS[kind]
    else:
        choices = choices_of(kind)
        metavar, allowed = "{" + ",".join(choices) + "}", "one of " + ", ".join(choices)
    return (f"{metavar}|auto", f"{allowed}, or auto") if optional else (metavar, allowed)


def choices_of(hint: Any) -> tuple[str, ...]:
    """The allowed names of an option that is a choice; none for any other type."""
    kind, _ = split_optional(hint)
    if typing.get_origin(kind) is Annotated:
        choices = kind.__metadata__[0]
        return (choices if isinstance(choices, Choices) else Choices(choices)).names()
    return typing.get_args(kind) if typing.get_origin(kind) is Literal else ()


def about_choices(hint: Any) -> dict[str, str]:
    """A description of each choice that has one: pairs (name, text), the second metadata of Annotated."""
    kind, _ = split_optional(hint)
    return dict(kind.__metadata__[1]) if typing.get_origin(kind) is Annotated and kind.__metadata__[1:] else {}


def split_optional(hint: Any) -> tuple[Any, bool]:
    """The type without `| None`, and whether `| None` was part of it."""
    if typing.get_origin(hint) not in (typing.Union, types.UnionType):
        return hint, False
    kinds = [kind for kind in typing.get_args(hint) if kind is not type(None)]
    return (kinds[0] if len(kinds) == 1 else hint), len(kinds) == 1


def parse(value: Any, hint: Any) -> Any:
    """The value, which may be text, as the type; ValueError or OverflowError if it does not fit."""
    kind, optional = split_optional(hint)
    if optional and (value is None or (isinstance(value, str) and value.lower() in NONE_WORDS)):
        return None
    if typing.get_origin(kind) is tuple:
        return tuple(parse(item, typing.get_args(kind)[0]) for item in _items(value))
    if kind in SCALARS and kind is not str:
        return {int: _int, float: _float, bool: _bool}[kind](value)
    if isinstance(value, str) and (kind is str or value in choices_of(kind)):
        return value
    if value is None or isinstance(value, (str, list, tuple, Mapping)):
        raise ValueError
    raise NotText(type(value).__name__)


def _items(value: Any) -> Sequence[Any]:
    if isinstance(value, Mapping):  # `opponents: {champion: 0.4}` in a file is the list champion:0.4
        return [f"{name}:{each}" for name, each in value.items()]
    if not isinstance(value, str):
        return value if isinstance(value, (list, tuple)) else [value]
    items = [item.strip() for item in value.split(",")] if value else []
    if "" in items:
        raise ValueError
    return items


def _int(value: Any) -> int:
    if isinstance(value, str):
        try:
            return int(value)
        except ValueError:
            value = float(value)
    if type(value) is float and value.is_integer() and abs(value) <= EXACT:
        return int(value)
    if type(value) is not int:  # bool is a subclass of int, and not allowed
        raise ValueError
    return value


def _float(value: Any) -> float:
    if type(value) not in (int, float, str) or not math.isfinite(number := float(value)):
        raise ValueError
    return number


def _bool(value: Any) -> bool:
    text = str(value).lower()
    if type(value) not in (bool, int, str) or text not in BOOL_WORDS:
        raise ValueError
    return BOOL_WORDS[text]


def as_written(value: Any) -> str:
    """A default value as a user would write it in a flag."""
    if value is None or isinstance(value, bool):
        return {None: NONE_WORDS[0], True: "true", False: "false"}[value]
    return (",".join(map(as_written, value)) if isinstance(value, tuple) else str(value)) or "''"


def shorten(value: Any) -> str:
    """Any value as a part of a message of one line."""
    text = " ".join(str(value).split())
    return text if len(text) <= VALUE_MAX else text[:VALUE_MAX] + "..."


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
