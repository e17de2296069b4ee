"""The flags of a script: its docstring is the help, and a mistake is told in one line."""

import argparse
from typing import NoReturn


class ScriptParser(argparse.ArgumentParser):
    """argparse that reports errors without printing the usage, and takes no abbreviated flags."""

    def __init__(self, docstring: str | None) -> None:
        super().__init__(
            description=docstring, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
        )

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")
