"""The result of one check of the doctor: one line, with the remedy where the check fails."""

import sys
from typing import NamedTuple

from marl.cli.invocation import TRAIN
from marl.cli.progress_bar import is_terminal

REINSTALL = f"run {TRAIN} --help, which repairs .venv"


class Check(NamedTuple):
    """A result; `fix` says what to do where `ok` is false."""

    name: str
    ok: bool
    detail: str
    fix: str = ""

    @classmethod
    def failed(cls, name: str, error: BaseException | str, fix: str = REINSTALL) -> "Check":
        """A failure with the text of an error. The text may end with its own remedy, after a semicolon."""
        line = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        detail, semicolon, own_fix = line.rpartition("; ")
        return cls(name, False, detail, own_fix) if semicolon else cls(name, False, line, fix)


def tell(what: str) -> None:
    """Say on a terminal what is checked now: on a busy machine a check may take a minute."""
    if is_terminal(sys.stderr):
        print(f"checking {what} ...", file=sys.stderr, flush=True)
