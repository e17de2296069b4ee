"""A rank that `bench scaling` starts: `python -m marl.bench.scaling_rank FILE SECONDS [flags of training]`.

All ranks train together; rank 0 writes their speed to FILE as JSON.
"""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from arena.errors import ArenaError
from marl.errors import UserError

if TYPE_CHECKING:
    from marl.config.train_config import TrainConfig
    from marl.ranks.process_group import Ranks, Solo
    from marl.training.trainer import Trainer

FEWEST_CYCLES, MOST_CYCLES = 3, 2000  # of a window


def main(argv: list[str]) -> int:
    from marl.config.train_config import read_config
    from marl.ranks import environment
    from marl.ranks.exits import EXIT_LOST_RANK, EXIT_MISTAKE, LostRank, end_with_launcher, wait_for_first_report
    from marl.ranks.lost_rank import explain, leave
    from marl.ranks.placement import set_nccl_defaults
    from marl.ranks.startup import start

    end_with_launcher()
    file, seconds, *flags = argv
    config = read_config(flags)
    set_nccl_defaults()
    first_on_node = environment.is_first_on_node()
    found = environment.read_rank_environment()
    if found is not None and found.world == 1:
        environment.forget_group()  # one rank trains without a group, and its work overlaps as in `train`
    try:
        group = start(config.ddp.backend, config.ddp.timeout, config.device)
    except LostRank as error:
        print(f"snakes: {error}", file=sys.stderr)
        return EXIT_LOST_RANK
    try:
        result = measure(group, config, float(seconds))
    except (UserError, ArenaError) as error:  # on all ranks
        if first_on_node:
            print(f"snakes: {error}", file=sys.stderr)
        group.close()
        wait_for_first_report()
        return EXIT_MISTAKE
    except RuntimeError as error:
        lost = error if isinstance(error, LostRank) else explain(error, group)
        if lost is None:
            raise
        leave(lost, group)
    if group.is_main:
        Path(file).write_text(json.dumps(result), "utf-8")
    group.close()
    return 0


def measure(group: "Solo | Ranks", config: "TrainConfig", seconds: float) -> dict[str, Any]:
    """The speed of all ranks in the best of several windows, and what each rank has. A collective."""
    from marl.bench.timing import WINDOWS
    from marl.bench.training import AGAINST, equal_mix, warm_up
    from marl.config import autoscale
    from marl.ranks import environment
    from marl.ranks.process_group import on_main
    from marl.ranks.sync_check import OutOfSync
    from marl.training.cpu_setup import set_up_cpu
    from marl.training.outputs import RunOutputs
    from marl.training.trainer import Trainer
    from marl.training.training_state import TrainingState

    local = environment.ranks_on_this_node()
    config = on_main(group, lambda: autoscale.resolve(config, group.device, local, group.world))
    if group.device.type == "cpu":
        set_up_cpu(config, group)
    state = TrainingState(config, group)
    trainer = Trainer(state, RunOutputs(Path()))
    warm_up(trainer, equal_mix(AGAINST, state.scheduler.reachable()))
    one = min(_timed(lambda: _run_cycles(trainer, 1)) for _ in range(2))
    count = group.broadcast(min(MOST_CYCLES, max(FEWEST_CYCLES, int(seconds / WINDOWS / one))))  # on all ranks the same
    cycle_seconds = min(_timed(lambda: _run_cycles(trainer, count)) for _ in range(WINDOWS)) / count
    try:
        group.check_sync(state.learner.named_weights(), "the measured updates")
        out_of_sync = None
    except OutOfSync as error:  # on all ranks
        out_of_sync = str(error).partition(";")[0]  # the advice after it is for training
    return {
        "ranks": group.world,
        "backend": group.transport or None,
        "matches_per_rank": config.matches,
        "batch_per_rank": 3 * state.learner.batch_turns,
        "env_steps_per_second": state.learner.turns * config.matches * group.world / cycle_seconds,
        "updates": state.progress.updates,
        "out_of_sync": out_of_sync,
    }


def _run_cycles(trainer: "Trainer", count: int) -> None:
    import torch

    group = trainer.state.group
    for _ in range(count):
        trainer.cycle()
        group.sum_(torch.zeros(2, dtype=torch.float64))  # after every cycle ranks agree whether to go on
    if group.device.type == "cuda":
        torch.cuda.synchronize(group.device)


def _timed(work: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
