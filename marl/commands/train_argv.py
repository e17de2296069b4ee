"""The command line of `train`, read once: flags of the training itself, and those that say what is started where."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from marl.cli.arguments import parse_whole_number
from marl.cli.invocation import command
from marl.commands.launch_flags import LAUNCH_FLAGS
from marl.errors import UserError

SEEDS, SIDE_BY_SIDE, LEAGUE = "--seeds", "--side-by-side", "--league"
ROUNDS = 4  # of a league, by default
MOST_SEEDS = 1_000
# Name -> whether a value follows; None: it may. All other flags are those of a training, which the configuration reads.
FLAGS: Mapping[str, bool | None] = {
    **LAUNCH_FLAGS, "seeds": True, "side_by_side": True, "league": None, "dry_run": False, "print_config": False,
}  # fmt: skip


@dataclass(frozen=True)
class TrainArgv:
    """What a command line of `train` asks for."""

    training: tuple[str, ...] = ()  # the flags of a training, which the configuration reads
    launch: Mapping[str, str] = field(default_factory=dict)  # flags that start ranks -> value
    seeds: tuple[int, ...] = ()  # several trainings; empty without --seeds
    side_by_side: int | None = None
    rounds: int = 0  # of a league; 0 without --league
    dry_run: bool = False
    print_config: bool = False
    help: str | None = None  # what about: all, a section, or nothing; None without --help

    @property
    def flags(self) -> list[str]:
        """The flags of one training, after those that start its ranks."""
        argv = list[str]()
        for name, value in self.launch.items():
            argv += [f"--{name.replace('_', '-')}", *([value] if FLAGS[name] else [])]
        return [*argv, *self.training]

    def with_flags(self, *more: str) -> "TrainArgv":
        """The same with further flags of the training, which count before those that are given."""
        return replace(self, training=(*self.training, *more))

    def command(self) -> str:
        """The command that starts the same in this shell; without --dry_run and --print_config."""
        argv = [SEEDS, list_seeds(self.seeds)] if self.seeds else []
        argv += [] if self.side_by_side is None else [SIDE_BY_SIDE, str(self.side_by_side)]
        return command("train", *self.flags, *argv, *([LEAGUE, str(self.rounds)] if self.rounds else []))


def parse_train(argv: Sequence[str]) -> TrainArgv:
    """Read the command line; a UserError for a flag without its value, and for values and flags that do not fit."""
    topic = _help_topic(argv)
    if topic is not None:
        return TrainArgv(help=topic)
    training, given, rest = list[str](), dict[str, str](), list(argv)
    while rest:
        word = rest.pop(0)
        flag, equals, value = word.partition("=")
        name = flag.removeprefix("--").replace("-", "_")
        if not word.startswith("--") or name not in FLAGS:
            training.append(word)
        elif equals and FLAGS[name] is False:
            raise UserError(f"--{name} takes no value; it was given {value!r}")
        elif equals or FLAGS[name] is False:
            given[name] = value
        elif rest and not rest[0].startswith("--" if FLAGS[name] else "-"):
            given[name] = rest.pop(0)
        elif FLAGS[name]:
            raise UserError(f"--{name} needs a value (see {command('train', '--help')})")
        else:
            given[name] = str(ROUNDS)
    if "side_by_side" in given and "seeds" not in given:
        raise UserError("--side_by_side is about --seeds, which is missing")
    if "league" in given and "seeds" in given:
        raise UserError("--league does not go with --seeds; train one league for each --seed, with its own --run_name")
    return TrainArgv(
        tuple(training),
        {name: value for name, value in given.items() if name in LAUNCH_FLAGS},
        parse_seeds(given["seeds"]) if "seeds" in given else (),
        _number(given, "side_by_side", "a whole number from 1 is needed") if "side_by_side" in given else None,
        _number(given, "league", f"a whole number of rounds from 1 is needed, or none ({ROUNDS} rounds)"),
        "dry_run" in given,
        "print_config" in given,
    )


def parse_seeds(text: str) -> tuple[int, ...]:
    """The seeds of `1-10`, `1,2,5` or `1-3,7`, each once and in this order."""
    seeds: dict[int, None] = {}
    for part in text.split(","):
        match = re.fullmatch(r"(\d+)(?:-(\d+))?", part.strip())
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if not first <= last < first + MOST_SEEDS:
            raise UserError(f"--seeds {text}: seeds like 1-10 or 1,2,5 are needed, at most {MOST_SEEDS:,}")
        seeds |= dict.fromkeys(range(first, last + 1))
    return tuple(seeds)


def list_seeds(seeds: Sequence[int]) -> str:
    """`1-3` or `1,2,5`."""
    is_range = len(seeds) > 2 and list(seeds) == list(range(seeds[0], seeds[0] + len(seeds)))
    return f"{seeds[0]}-{seeds[-1]}" if is_range else ",".join(map(str, seeds))


def _number(given: Mapping[str, str], name: str, needed: str) -> int:
    """The whole number from 1 that a flag gives; 0 without the flag."""
    number = parse_whole_number(given[name], least=1) if name in given else 0
    if number is None:
        raise UserError(f"--{name} {given[name]}: {needed}")
    return number


def _help_topic(argv: Sequence[str]) -> str | None:
    """What the arguments ask help about: all, a section, or nothing; None if they ask for none."""
    for i, word in enumerate(argv):
        if word == "--help-all":
            return "all"
        if word.startswith("--help="):
            return word.partition("=")[2]
        if word in ("-h", "--help"):
            return next((topic for topic in argv[i + 1 : i + 2] if not topic.startswith("-")), "")
    return None
