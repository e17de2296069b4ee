"""python -m marl COMMAND, and the program `snakes`."""

from typing import NoReturn

from marl.cli.main import main
from marl.process_exit import leave


def run() -> NoReturn:
    leave(main())


if __name__ == "__main__":
    run()
