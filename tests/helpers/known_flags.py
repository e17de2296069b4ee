"""Every flag of every command, from the tables of the help: for tests of texts and of garbled command lines."""

import argparse
import importlib
from collections.abc import Iterator
from typing import NamedTuple

from marl.cli.arguments import add_import_flag
from marl.cli.main import COMMANDS


class Flag(NamedTuple):
    """A flag, with the words that may follow it, if they are known."""

    name: str  # with dashes in front
    choices: tuple[str, ...] = ()
    takes_value: bool = True


def flags_of(command: str) -> Iterator[Flag]:
    """The flags of a command."""
    if command == "train":
        yield from _train_flags()
        return
    for action in _actions(command):
        for flag in action.option_strings:
            if flag.startswith("--"):
                yield Flag(flag, tuple(map(str, action.choices or ())), action.nargs != 0)


def first_words(command: str) -> list[str]:
    """Words that may follow the command itself."""
    if command == "bench":
        from marl.bench.command import KNOWN_SUBJECTS

        return list(KNOWN_SUBJECTS)
    if command == "runs":
        from marl.commands.runs import ACTIONS

        return [*ACTIONS, "last"]
    return ["champion", "last"]


def _actions(command: str) -> list[argparse.Action]:
    parser = argparse.ArgumentParser(prog=command)
    importlib.import_module(COMMANDS[command][0]).add_arguments(parser)
    add_import_flag(parser)
    return parser._actions


def _train_flags() -> Iterator[Flag]:
    from marl.commands.train_argv import FLAGS
    from marl.config.named_configs import config_names
    from marl.config.options import Schema
    from marl.config.train_config import ALIASES, TrainConfig
    from marl.config.values import choices_of

    schema = Schema(TrainConfig, ALIASES)
    yield Flag("--config", tuple(config_names()))
    yield Flag("--import")
    yield Flag("--help", ("all", *filter(None, schema.sections)))
    for name, takes_value in FLAGS.items():
        yield Flag(f"--{name}", takes_value=takes_value is not False)
    for option in schema.options.values():
        yield Flag(schema.shortest_flag(option), ("true", "false") if option.is_bool else choices_of(option.type))
    for alias in schema.aliases:
        yield Flag(f"--{alias}")
    for name in sorted({option.name for option in schema.options.values() if len(schema.find(option.name)) > 1}):
        yield Flag(f"--{name}")
