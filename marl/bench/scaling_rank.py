"""A rank that `bench scaling` starts: `python -m marl.bench.scaling_rank TASK FILE SECONDS [flags of training]`.

TASK `ranks` measures the training of all ranks together, `shares:N,N` the work of one rank among N, for each N. Rank 0
writes the results to FILE as JSON.
"""

import json
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from arena.errors import ArenaError
from arena.rules import TURNS
from marl.errors import UserError

if TYPE_CHECKING:
    from marl.config.train_config import TrainConfig
    from marl.ranks.process_group import Ranks, Solo
    from marl.training.trainer import Trainer
    from marl.training.training_state import TrainingState

# Bytes of the all-reduces that measure the link. The small one has a number for every segment of 64 ranks.
SMALL, LARGE = 2 * 64 * 4, 2 * 2**20
ROUNDS = 15
FEWEST_CYCLES, MOST_CYCLES = 3, 2000  # of a measurement


def main(words: list[str]) -> int:
    from marl.config.train_config import read_config
    from marl.ranks import environment
    from marl.ranks.exits import EXIT_LOST_RANK, EXIT_MISTAKE, LostRank
    from marl.ranks.lost_rank import explain, leave
    from marl.ranks.orphans import end_with_launcher
    from marl.ranks.placement import set_nccl_defaults
    from marl.ranks.startup import start

    end_with_launcher()
    task, file, seconds, *flags = words
    config = read_config(flags)
    set_nccl_defaults()
    first_on_node = environment.is_first_on_node()
    found = environment.read_rank_environment()
    if task == "ranks" and found is not None and found.world == 1:
        environment.forget_group()  # one rank trains without a group, and its work overlaps as in `train`
    try:
        group = start(config.ddp.backend, config.ddp.timeout, config.device)
    except LostRank as error:
        print(f"snakes: {error}", file=sys.stderr)
        return EXIT_LOST_RANK
    try:
        if task == "ranks":
            results = measure_ranks(group, config, float(seconds))
        else:
            counts = [int(number) for number in task.partition(":")[2].split(",")]
            results = measure_shares(group, config, counts, float(seconds))
    except (UserError, ArenaError) as error:  # on all ranks
        if first_on_node:
            print(f"snakes: {error}", file=sys.stderr)
        group.close()
        return EXIT_MISTAKE
    except RuntimeError as error:
        lost = error if isinstance(error, LostRank) else explain(error, group)
        if lost is None:
            raise
        leave(lost, group)
    if group.is_main:
        Path(file).write_text(json.dumps(results))
    group.close()
    return 0


# --- all ranks together


def measure_ranks(group: "Solo | Ranks", config: "TrainConfig", seconds: float) -> dict[str, Any]:
    """Speed of training, where its time goes, and the link. Complete on rank 0 only."""
    from marl.bench.timing import WINDOWS
    from marl.config import autoscale
    from marl.config.train_config import SAVE_EPISODES, SAVE_SECONDS
    from marl.ranks import environment
    from marl.ranks.process_group import on_main
    from marl.training.cpu_setup import set_up_cpu

    local = environment.ranks_on_this_node()
    config = on_main(group, lambda: autoscale.resolve(config, group.device, local, group.world))
    cpu = set_up_cpu(config, group) if group.device.type == "cpu" else None
    with tempfile.TemporaryDirectory(prefix="snakes-scaling-") as mine:
        trainer = _warm_trainer(group, config, Path(group.share(mine)))
        count = _choose_count(trainer, seconds / WINDOWS)
        cycle_seconds = min(_timed(lambda: _run_cycles(trainer, count)) for _ in range(WINDOWS)) / count
        evaluation, saving = trainer.time_pauses()
        parts = _split(trainer, WINDOWS * count)
        link = measure_link(group) if group.world > 1 else None
        group.barrier("the end of the measurement")  # rank 0's folder is in use until then
    learner = trainer.state.learner
    steps = learner.turns * config.matches * group.world  # of a cycle
    return {
        "ranks": group.world,
        "backend": group.transport or None,
        "device": group.device.type,
        "threads": cpu.threads if cpu else None,
        "matches": config.matches,
        "batch": 3 * learner.batch_turns,
        "turns": learner.turns,
        "updates": learner.updates,
        "cycle_seconds": cycle_seconds,
        "evaluation_seconds": evaluation,
        "saving_seconds": saving,
        "eval_interval": _eval_interval(trainer.state),
        "save_interval": config.save_interval or max(SAVE_EPISODES, int(SAVE_SECONDS * steps / cycle_seconds / TURNS)),
        "parts": parts,
        "link": link,
    }


def measure_link(group: "Solo | Ranks") -> dict[str, Any]:
    """Bytes and seconds of a small and of a large all-reduce between all ranks."""
    return {name: [size, time_reduction(group, size)] for name, size in (("small", SMALL), ("large", LARGE))}


def time_reduction(group: "Solo | Ranks", size: int) -> float:
    """Median seconds of an all-reduce of this many bytes."""
    import torch

    tensor = torch.zeros(size // 4, device=group.device)

    def reduce() -> None:
        group.sum_(tensor)
        if tensor.is_cuda:
            torch.cuda.synchronize()

    reduce()  # opens connections
    return statistics.median(_timed(reduce) for _ in range(ROUNDS))


# --- one rank with its share of the work


def measure_shares(group: "Solo | Ranks", config: "TrainConfig", counts: list[int], seconds: float) -> dict[str, Any]:
    """The work of a rank among N, by N: stretches of compute and reductions. This rank is alone in its group.

    For a number of ranks that cannot share the run: the problem.
    """
    import torch

    from marl.compute import machine, threads
    from marl.config import autoscale
    from marl.training.cpu_setup import set_up_cpu

    measured: dict[tuple[Any, ...], dict[str, Any]] = {}
    by_count: dict[str, Any] = {}
    for ranks in counts:
        try:
            mine = autoscale.resolve(config, group.device, world=ranks)
        except UserError as error:
            by_count[str(ranks)] = {"problem": str(error)}
            continue
        if mine.learner_section == "ppo":  # of the whole run; this group has one rank
            mine = replace(mine, ppo=replace(mine.ppo, update_interval=mine.ppo.update_interval // ranks))
        number = None
        if group.device.type == "cpu":
            most = max(1, machine.usable_cores() // ranks)
            number = min(most, set_up_cpu(mine, group).threads)
            threads.use_threads(number, halves=False)
            group.overlaps = False  # as a rank
        key = (mine.matches, getattr(mine, mine.learner_section), number)
        if key not in measured:
            trainer = _warm_trainer(group, mine, Path())
            measured[key] = _measure_work(trainer, seconds) | {"threads": number or torch.get_num_threads()}
        by_count[str(ranks)] = measured[key]
    return by_count


def _measure_work(trainer: "Trainer", seconds: float) -> dict[str, Any]:
    """The fields of scaling_model.Work."""
    count = _choose_count(trainer, seconds)
    on_gpu = trainer.state.device.type == "cuda"
    # With CUDA graphs, reductions are inside a graph: the cycle is one stretch.
    whole = [[_timed(lambda: _run_cycles(trainer, 1)) for _ in range(count)]] if on_gpu else None
    cycles = _Watch(trainer).measure(count)
    sizes = Counter(reduction.size for cycle in cycles for reduction in cycle.reductions)
    stretches: list[list[float]] = []
    for cycle in cycles:
        for position, taken in enumerate(cycle.stretches()):
            if position == len(stretches):
                stretches.append([])
            stretches[position].append(taken)
    learner = trainer.state.learner
    return {
        "stretches": whole or stretches,
        "reductions": {size: number / count for size, number in sizes.items()},
        "cycles": count,
        "turns": learner.turns,
        "updates": learner.updates,
        "matches": trainer.state.config.matches,
    }


# --- cycles


def _warm_trainer(group: "Solo | Ranks", config: "TrainConfig", folder: Path) -> "Trainer":
    from marl.bench.training import AGAINST, equal_mix, warm_up
    from marl.training.outputs import RunOutputs
    from marl.training.trainer import Trainer
    from marl.training.training_state import TrainingState

    state = TrainingState(config, group)
    trainer = Trainer(state, RunOutputs(folder))
    warm_up(trainer, equal_mix(AGAINST, state.scheduler.reachable()))
    return trainer


def _run_cycles(trainer: "Trainer", count: int) -> None:
    import torch

    group = trainer.state.group
    for _ in range(count):
        trainer.cycle()
        group.sum_(torch.zeros(2, dtype=torch.float64))  # after every cycle ranks agree whether to go on
    if group.device.type == "cuda":
        torch.cuda.synchronize(group.device)


def _choose_count(trainer: "Trainer", seconds: float) -> int:
    """Cycles that take about so many seconds; the same number on all ranks."""
    one = min(_timed(lambda: _run_cycles(trainer, 1)) for _ in range(2))
    return trainer.state.group.share(min(MOST_CYCLES, max(FEWEST_CYCLES, int(seconds / one))))


class _Cycle:
    """Times of one cycle on this rank."""

    def __init__(self) -> None:
        self.begin = self.end = 0.0
        self.learn = 0.0  # seconds of learning, without its reductions
        self.reductions: list[Any] = []

    def stretches(self) -> list[float]:
        """Seconds of work before each reduction; work after the last one belongs to the first of the next cycle."""
        begins = [self.begin, *(reduction.end for reduction in self.reductions)]
        ends = [*(reduction.begin for reduction in self.reductions), self.end]
        *taken, rest = (end - begin for begin, end in zip(begins, ends, strict=True))
        return [taken[0] + rest, *taken[1:]] if taken else [rest]


class _Watch:
    """Measures the parts of a trainer's cycles. The trainer trains on as before, but without CUDA graphs."""

    def __init__(self, trainer: "Trainer") -> None:
        from marl.ranks.collective_clock import CollectiveClock
        from marl.ranks.process_group import Ranks

        self._trainer, self._cycle = trainer, _Cycle()
        trainer.instrument(self._wrap)
        group = trainer.state.group
        wrapped = [part for part in vars(trainer.state.learner).values() if hasattr(part, "register_comm_hook")]
        self._clock = CollectiveClock(group, wrapped) if isinstance(group, Ranks) else None

    def _wrap(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        if part not in ("batches", "update"):
            return function

        def timed(*arguments: Any, **options: Any) -> Any:
            reductions = self._clock.reductions if self._clock else []
            before, begin = len(reductions), time.perf_counter()
            result = function(*arguments, **options)
            taken = time.perf_counter() - begin
            inside = reductions[before:]
            self._cycle.learn += taken - sum(reduction.end - reduction.begin for reduction in inside)
            return result

        return timed

    def measure(self, count: int) -> list[_Cycle]:
        """The next cycles; a watch is used once."""
        _run_cycles(self._trainer, 2)
        cycles = []
        for _ in range(count):
            self._cycle = cycle = _Cycle()
            if self._clock:
                self._clock.reductions = cycle.reductions
            cycle.begin = time.perf_counter()
            _run_cycles(self._trainer, 1)
            cycle.end = time.perf_counter()
            cycles.append(cycle)
        if self._clock:
            self._clock.remove()
        return cycles


def _split(trainer: "Trainer", count: int) -> dict[str, float]:
    """Seconds of each part in a cycle, the mean of all ranks; on rank 0.

    The meetings before the reductions are the measurement's own; of the ranks' times for a meeting, the shortest is its
    cost, and what is longer is waiting.
    """
    cycles = _Watch(trainer).measure(count)
    reductions = [reduction for cycle in cycles for reduction in cycle.reductions]
    total = sum(cycle.end - cycle.begin for cycle in cycles)
    learn = sum(cycle.learn for cycle in cycles)
    mine = {
        "collect": total - learn - sum(each.end - each.begin for each in reductions),
        "learn": learn,
        "reduction": sum(each.end - each.met for each in reductions),
    }
    meetings = [each.met - each.begin for each in reductions]
    everyones = trainer.state.group.gather((mine, meetings)) or [(mine, meetings)]
    cost = sum(min(times) for times in zip(*(meetings for _, meetings in everyones), strict=True))
    sums = {name: sum(parts[name] for parts, _ in everyones) for name in mine}
    sums["waiting"] = sum(sum(meetings) - cost for _, meetings in everyones)
    return {name: value / len(everyones) / count for name, value in sums.items()}


def _eval_interval(state: "TrainingState") -> int:
    """Episodes between two evaluations; 0: none."""
    interval = state.config.evaluation.eval_interval
    return state.config.schedule.max_episodes // state.evaluation_plan.in_run if interval is None else interval


def _timed(work: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
