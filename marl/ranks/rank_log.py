"""A log file of each rank (`--rank_logs DIR`): what it does and measures, and how it ends; also the stacks of a crash.

Without the flag nothing is written. What a rank prints goes to the console with and without it.
"""

import contextlib
import faulthandler
import logging
import os
import socket
from collections.abc import Iterator
from pathlib import Path

from marl.errors import UserError
from marl.ranks import environment

_logger = logging.getLogger("snakes.rank")
_logger.addHandler(logging.NullHandler())
_logger.propagate = False


def write(text: str) -> None:
    """Add a line to the log file of this rank, if it has one. On the disk when the call returns."""
    _logger.info(text)


@contextlib.contextmanager
def recording(folder: str | None) -> Iterator[None]:
    """The block is all that this rank does. folder: of the log files, rank_0.log and so on; None for no file."""
    if folder is None:
        yield
        return
    found = environment.read_rank_environment()
    rank, world = (found.rank, found.world) if found else (0, 1)
    handler = _open(Path(folder), rank)
    try:
        write(f"rank {rank} of {world} begins on {socket.gethostname()}, process {os.getpid()}")
        faulthandler.enable(handler.stream)
        # Only where NCCL_DEBUG asks NCCL to tell something.
        os.environ.setdefault("NCCL_DEBUG_FILE", str(Path(folder).absolute() / f"rank_{rank}.nccl.log"))
        yield
        write("ended in order")
    except BaseException as error:
        is_told = isinstance(error, UserError)  # what the user reads is all that there is to know
        _logger.info(f"ended by {type(error).__name__}{f': {error}' * is_told}", exc_info=not is_told)
        raise
    finally:
        faulthandler.disable()
        _logger.removeHandler(handler)
        handler.close()


def _open(folder: Path, rank: int) -> logging.FileHandler:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handler = logging.FileHandler(folder / f"rank_{rank}.log", encoding="utf-8")
    except OSError as error:
        raise UserError(
            f"--rank_logs {folder}: {error.strerror or error}; choose a folder that can be written"
        ) from None
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    _logger.setLevel(logging.INFO)
    _logger.addHandler(handler)
    return handler
