"""Value types of command-line arguments that several commands share."""

import argparse
from pathlib import Path


def new_file(text: str) -> Path:
    """A file to write; checked before the work starts, not after it."""
    path = Path(text)
    if path.is_dir():
        raise argparse.ArgumentTypeError(f"{text!r} is a folder; need a file name")
    if not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"{text!r}: there is no folder {str(path.parent)!r}")
    return path


def count(text: str) -> int:
    """A whole number from 1."""
    number = parse_whole_number(text, least=1)
    if number is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 1")
    return number


def parse_whole_number(text: str, least: int = 0) -> int | None:
    """The number that the text holds; None unless it is a whole number of at least `least`.

    The caller words the error, since a flag, an environment variable and an argparse type are named differently.
    """
    return int(text) if text.isdecimal() and int(text) >= least else None
