"""Value types and flags of the command line that several commands share."""

import argparse
import secrets
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from marl.errors import UserError

if TYPE_CHECKING:
    from opponents.submission import SubmissionOptions

SEEDS = 2**53  # too many to be tried; every program that reads JSON can read them


def new_file(text: str) -> Path:
    """A file to write; checked before the work starts, not after it."""
    path = Path(text)
    if path.is_dir():
        raise argparse.ArgumentTypeError(f"{text!r} is a folder; need a file name")
    _check_parent(path)
    return path


def _check_parent(path: Path) -> None:
    if not path.parent.is_dir():
        parent = repr(str(path.parent))
        problem = f"{parent} is a file; need a folder" if path.parent.exists() else f"there is no folder {parent}"
        raise argparse.ArgumentTypeError(f"{str(path)!r}: {problem}")


def new_folder(text: str) -> Path:
    """A folder to write to, which may exist; checked before the work starts."""
    path = Path(text)
    if path.exists() and not path.is_dir():
        raise argparse.ArgumentTypeError(f"{text!r} is a file; need a folder")
    if not path.is_dir():
        _check_parent(path)
    return path


def new_file_ending(suffix: str) -> Callable[[str], Path]:
    """A file to write whose name must end in this suffix: programs that read it go by the name."""

    def checked(text: str) -> Path:
        path = new_file(text)
        if path.suffix.lower() != suffix:
            raise argparse.ArgumentTypeError(f"{text!r}: its name must end in {suffix}")
        return path

    return checked


def split_flags(argv: Sequence[str], with_value: Collection[str]) -> tuple[list[str], list[str]]:
    """The flags, with the values of those in `with_value`; and the arguments that belong to no flag."""
    flags: list[str] = []
    others: list[str] = []
    rest = list(argv)
    while rest:
        word = rest.pop(0)
        (flags if word.startswith("-") else others).append(word)
        if word in with_value:
            flags += rest[:1]
            del rest[:1]
    return flags, others


def split_own(argv: Sequence[str], own: Mapping[str, bool]) -> tuple[list[str], list[str]]:
    """A command's own flags with their values, and all other arguments. own: flag -> whether a value follows."""
    mine, others, rest = list[str](), list[str](), list(argv)
    while rest:
        word = rest.pop(0)
        flag, equals, _ = word.partition("=")
        (mine if flag in own else others).append(word)
        if own.get(flag) and not equals:
            mine += rest[:1]
            del rest[:1]
    return mine, others


def flag_names(argv: Iterable[str]) -> set[str]:
    """The flags among the arguments, without their values."""
    return {word.partition("=")[0] for word in argv if word.startswith("--")}


def refuse_flags(argv: Iterable[str], refused: Sequence[str], beside: str, reason: str) -> None:
    """A UserError for the first of the refused flags that is among the arguments.

    Flags have dashes, as the command line is read; the message has underscores, as the help writes them.
    """
    given = flag_names(argv)
    for flag in refused:
        if flag in given:
            raise UserError(f"--{flag[2:].replace('-', '_')} does not go with {beside}; {reason}")


def add_import_flag(parser: argparse.ArgumentParser) -> None:
    """The flag of own code, which the command line has read already when a command is parsed."""
    about = "import own code first, a module or a .py file; again for several (see docs/extend.md)"
    parser.add_argument("--import", action="append", metavar="MODULE", help=about)


def add_device_flag(parser: argparse.ArgumentParser) -> None:
    """The device that matches are played on."""
    parser.add_argument(
        "--device",
        default="auto",
        metavar="D",
        help="cpu, cuda, cuda:1, ... (default: auto, a GPU if there is one and no player is a submission.py)",
    )


def add_submission_flags(parser: argparse.ArgumentParser) -> None:
    """The flags about players that are a submission.py."""
    parser.add_argument(
        "--uncaged",
        "--trust",
        action="store_true",
        help="run submissions with your rights, not in a sandbox (see SECURITY.md)",
    )
    parser.add_argument(
        "--workers",
        type=positive_int,
        metavar="N",
        help="matches of a submission that compute at a time (default: cores)",
    )


def add_seed_flag(parser: argparse.ArgumentParser) -> None:
    """Which matches are played."""
    parser.add_argument(
        "--seed",
        type=int,
        metavar="N",
        help="which matches (default: 0; with a submission.py a random one, which is printed)",
    )


def choose_seed(given: int | None, players: Iterable[str]) -> int:
    """The seed of the matches: what is given, or 0; a random one if a stranger could have computed all matches of 0."""
    from opponents.players import is_submission

    if given is not None:
        return given
    return secrets.randbelow(SEEDS) if any(map(is_submission, players)) else 0


def submission_options(args: argparse.Namespace) -> "SubmissionOptions":
    """The options that these flags make."""
    from opponents.submission import SubmissionOptions

    return SubmissionOptions(args.uncaged, args.workers, notify=lambda line: print(f"snakes: {line}", file=sys.stderr))


def positive_int(text: str) -> int:
    """A whole number from 1."""
    number = parse_whole_number(text, least=1)
    if number is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 1")
    return number


def positive(text: str) -> float:
    """A finite number above 0."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is no number above 0")
    return number


def parse_whole_number(text: str, least: int = 0) -> int | None:
    """The number that the text holds; None unless it is a whole number of at least `least`.

    The caller words the error, since a flag, an environment variable and an argparse type are named differently.
    """
    return int(text) if text.isdecimal() and int(text) >= least else None


def add_stop_flag(parser: argparse.ArgumentParser) -> None:
    """Pairs play until it is decided who is better."""
    parser.add_argument(
        "--stop-when-decided",
        action="store_true",
        help="play a pair only until a sequential test has decided who is better, at most --matches; every board is "
        "played twice, with the colours swapped",
    )


def error_rates_text() -> str:
    """Both error rates of the test, for people."""
    from opponents.league_decision import ERROR

    return (
        f"a team that is not better is called so in at most {ERROR:.1%} of the cases, home and away alike "
        "(sequential test; pairs that stop early have intervals that are too narrow)"
    )
