"""The help of `train`: the flags that matter most, or with `--help all` every flag."""

import textwrap
from collections.abc import Sequence

from marl.commands import launch_flags, train_league, train_seeds
from marl.config.help import WIDTH, help_text, short_help_text
from marl.config.named_configs import about_configs
from marl.config.options import Schema
from marl.config.train_config import ALIASES, MAIN_OPTIONS, PREFER, TrainConfig
from marl.errors import UserError
from marl.invocation import command
from marl.registry import LEARNERS

USAGE = """usage: {train} [--config NAME] [flags]

Train a team of three snakes. Without flags: good defaults for this machine.

{configs}
  --print_config              print the configuration as YAML and quit; with --dry_run also the values chosen for auto
  --dry_run                   check everything and print what would be done; start and write nothing
  --seeds 1-10                several seeds, each in a run of its own; the command `report` compares runs
  --league 4                  in rounds against frozen copies of itself and of exploiters: docs/opponents.md
  --help all                  every flag; --help SECTION those of one section:
                              {sections}
"""
ALL = "all"


def asks_for_help(words: Sequence[str]) -> bool:
    return any(word in ("-h", "--help", "--help-all") or word.startswith("--help=") for word in words)


def train_help(words: Sequence[str]) -> str:
    """The help text that the words ask for: short, of one section, or of all flags."""
    sections = [section for section in Schema(TrainConfig).sections if section]
    topic = _topic(words)
    usage = USAGE.format(train=command("train"), configs=_configs(), sections=", ".join(sections))
    if topic == ALL:
        starts = f"{launch_flags.HELP}\n{train_seeds.HELP}\n{train_league.HELP}"
        return f"{usage}\n{starts}\n{help_text(TrainConfig, ALIASES, PREFER)}"
    if topic in sections:
        return help_text(TrainConfig, ALIASES, PREFER, [topic])
    if topic:
        raise UserError(f"--help {topic}: unknown; known: {ALL}, {', '.join(sections)}")
    main = short_help_text(TrainConfig, MAIN_OPTIONS, ALIASES, PREFER)
    end = (
        "Every option is a flag or a line of a YAML file; flags override files, later files override earlier ones.\n"
        f"{command('train', '--help', ALL)} lists every flag."
    )
    return f"{usage}\n{main}\n\n{launch_flags.SHORT_HELP}\n{end}"


def _topic(words: Sequence[str]) -> str:
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word == "--help-all":
            return ALL
        if word.startswith("--help="):
            return word.partition("=")[2]
        if word in ("-h", "--help") and rest and not rest[0].startswith("-"):
            return rest[0]
    return ""


def _configs() -> str:
    about = {name: text for name, text in about_configs().items() if name not in LEARNERS}  # those are told by --algo
    width = max(map(len, about), default=0)
    rows = ["  --config NAME               read a configuration: a YAML file, or one of these by name:"]
    for name, text in about.items():
        first, *others = textwrap.wrap(text, WIDTH - width - 8, break_on_hyphens=False) or [""]
        rows += [f"{'':6}{name:{width}}  {first}", *(" " * (width + 8) + line for line in others)]
    return "\n".join(rows)
