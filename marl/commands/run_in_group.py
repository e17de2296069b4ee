"""A function run in this process's group of ranks, with an exit code for each way in which the group can end."""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from arena.errors import ArenaError
from marl.config.train_config import TrainConfig
from marl.errors import UserError

if TYPE_CHECKING:
    from marl.ranks.process_group import Ranks, Solo


def run_in_group(config: TrainConfig, train: Callable[["Solo | Ranks"], int]) -> int:
    """Join the process group, call `train` with it and leave the group; returns the exit code of this process.

    A lost rank ends this process at once, because a group with a lost rank cannot be taken down in order.
    """
    from marl.ranks.exits import EXIT_LOST_RANK, EXIT_TOGETHER, LostRank, tell
    from marl.ranks.lost_rank import explain, leave
    from marl.ranks.startup import start
    from marl.ranks.sync_check import OutOfSync
    from marl.training.nonfinite import NotFinite

    try:
        group = start(config.ddp.backend, config.ddp.timeout, config.device)
    except LostRank as error:
        tell(str(error))
        return EXIT_LOST_RANK
    try:
        code = train(group)
        group.close()
        return code
    except (UserError, ArenaError):  # raised on all ranks
        group.close()
        raise
    except (NotFinite, OutOfSync) as error:  # raised on all ranks
        if group.is_main:
            print(f"snakes: {error}", file=sys.stderr)
        group.close()
        return 1 if group.backend is None else EXIT_TOGETHER
    except LostRank as error:
        leave(error, group)
    except RuntimeError as error:
        lost = explain(error, group)
        if lost is None:
            raise
        leave(lost, group)
