"""Ranges of a sweep: which values an option may take, from the command line or built in for each learner."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from marl.config.options import Option, Schema, Setting, as_key
from marl.config.train_config import ALIASES, TrainConfig
from marl.config.values import as_written, describe, parse
from marl.errors import UserError

LOG = "log"
# Ranges of options by their plain names; a learner gets those of the options that its section has. About a factor of 3
# to 10 around the defaults.
BUILT_IN: Mapping[str, str] = {
    "lr": "5e-4:2e-2:log",
    "a_lr": "2e-4:1e-2:log",
    "c_lr": "2e-4:1e-2:log",
    "gamma": "0.9:0.995",
    "gae_lambda": "0.8:0.99",
    "clip": "0.1:0.4",
    "epochs": "1:4",
    "n_step": "1:6",
    "tau": "0.002:0.05:log",
    "entropy": "5e-4:5e-2:log",
}
HOW = "NAME=LOW:HIGH, NAME=LOW:HIGH:log or NAME=A,B,C"


@dataclass(frozen=True)
class Range:
    """The values of one option: from low to high, or some choices."""

    path: str
    low: float = 0.0
    high: float = 0.0
    is_int: bool = False
    is_log: bool = False
    choices: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.choices:
            return f"{self.path}={','.join(self.choices)}"
        return f"{self.path}={self.low:g}:{self.high:g}{':log' if self.is_log else ''}"


def parse_ranges(texts: Sequence[str], algo: str) -> list[Range]:
    """The ranges that the user gives; without any, those that are built in for the learner."""
    schema = Schema(TrainConfig, ALIASES)
    section = TrainConfig(algo=algo).learner_section
    if not texts:
        found = [f"{section}.{name}={text}" for name, text in BUILT_IN.items() if f"{section}.{name}" in schema.options]
        if not found:
            raise UserError(f"there are no built-in ranges for {algo}; give --range {HOW}")
        texts = found
    ranges = [_parse(text, schema, section) for text in texts]
    paths = [each.path for each in ranges]
    for path in paths:
        if paths.count(path) > 1:
            raise UserError(f"--range: {path} has two ranges; leave one out")
    return ranges


def _parse(text: str, schema: Schema, section: str) -> Range:
    name, equals, values = text.partition("=")
    if not (name and equals and values):
        raise UserError(f"--range {text}: {HOW} is needed")
    option = schema.resolve(Setting(None, f"--{name}", as_key(name), values), section)
    other = option.section in schema.chosen_by(schema.options["algo"]) and option.section != section
    if other:
        raise UserError(f"--range {text}: {option.path} is not read by this learner, which reads section {section}")
    if ":" not in values:
        choices = tuple(part.strip() for part in values.split(","))
        for choice in choices:
            _value(choice, option, text)
        if len(set(choices)) < 2:
            raise UserError(f"--range {text}: two different values or more are needed")
        return Range(option.path, choices=choices)
    low_text, high_text, scale = [*values.split(":"), "", ""][:3]
    low, high = (_value(part, option, text) for part in (low_text, high_text))
    if values.count(":") > 2 or scale not in ("", LOG) or not all(type(end) in (int, float) for end in (low, high)):
        raise UserError(f"--range {text}: {HOW} is needed")
    if not low < high or (scale == LOG and low <= 0):
        raise UserError(f"--range {text}: low must be below high{', and above 0 for log' if scale else ''}")
    return Range(option.path, low, high, type(low) is int, scale == LOG)


def _value(text: str, option: Option, given: str) -> Any:
    try:
        return parse(text, option.type)
    except (ValueError, OverflowError):
        raise UserError(
            f"--range {given}: {text!r} is no value of {option.path}; allowed: {describe(option.type)[1]}"
        ) from None


def as_flags(params: Mapping[str, Any]) -> list[str]:
    """The flags of a training with these values."""
    return [word for path, value in params.items() for word in (f"--{path}", value_text(value))]


def value_text(value: Any) -> str:
    """A value of a trial as a user would write it; four digits tell enough of a drawn number."""
    return f"{value:.4g}" if isinstance(value, float) else as_written(value)
