"""python -m marl COMMAND."""

import sys

from marl.cli import main

if __name__ == "__main__":
    sys.exit(main())
