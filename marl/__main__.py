"""python -m marl COMMAND, and the program `snakes`."""

import sys
from typing import NoReturn

from marl.cli.main import main


def run() -> NoReturn:
    sys.exit(main())


if __name__ == "__main__":
    run()
