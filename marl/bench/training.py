"""The speed of training: whole cycles as a run goes through them, and what each part of them takes.

The trainer is the real one, with its buffer full as in a long run; logs, evaluations and checkpoints are left out, and
the opponents stay the same. For the split its parts are put behind a stopwatch where they are called from, so the
trainer knows nothing of clocks, and plays and learns on.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from arena.backends.cuda_graphs import WARM_UPS, Captured
from arena.rules import TEAM
from marl.bench.timing import WINDOWS, best_rate
from marl.cli.wording import count
from marl.config import autoscale, reader
from marl.config.train_config import read_config
from marl.errors import UserError
from marl.ranks.placement import place, set_nccl_defaults
from marl.ranks.process_group import Solo
from marl.rollout.turn_kernels import NONE
from marl.training.cpu_setup import CpuSetup, set_up_cpu
from marl.training.outputs import RunOutputs
from marl.training.trainer import Trainer
from marl.training.training_state import TrainingState
from opponents.scheduler import Mix, Scheduler

AGAINST = ("level2",)
PARTS = {
    "arena": "start, play_turn",
    "encode": "what snakes see",
    "opponents": "the choice of them, their moves",
    "policy": "the actor's answers, drawing moves",
    "buffer": "a turn's rows and rewards; DDPG's batches",
    "update": "gradients, steps, targets; PPO's batches",
    "rest": "the loop around them",
}
TURN, UPDATE = "turn", "update"  # what the time of a part is divided by
PART_OF = {"batches": ("buffer", UPDATE), "update": ("update", UPDATE)}  # all other parts belong to a turn
FASTEST_CLOCK = 3e9  # of any GPU: ticks that last at least a second


class TrainBench:
    """What `bench train` measures. `argv` are flags of training; `against` names opponents, met equally often."""

    def __init__(self, argv: Sequence[str], against: Sequence[str] | None, seconds: float) -> None:
        config = read_config(argv)
        set_nccl_defaults()  # some are for the memory of any GPU; a run has them too
        # Always alone: ranks would measure each other.
        device = place(None, config.device, 0, 1, torch.cuda.device_count())[1]
        self._config = config = autoscale.resolve(config, device)
        self._seconds, self._device = seconds, device
        self._mix = equal_mix(against or AGAINST, Scheduler(config.schedule).reachable())
        self._cpu: CpuSetup | None = None
        group = Solo(device)
        if device.type == "cpu":
            self._cpu = set_up_cpu(config, group)
        self._state = TrainingState(config, group)
        self._trainer = Trainer(self._state, RunOutputs(Path()))
        # A buffer on the host, and work that is not to be recorded, are timed call by call.
        self._graphs = device.type == "cuda" and config.graphs and self._state.buffer.storage == device

    def report(self) -> dict[str, Any]:
        """Everything measured, ready for JSON."""
        self._warm_up()
        rates = self._rates()
        count = max(1, int(self._seconds / WINDOWS / rates["seconds_per_cycle"]))
        split = self._split(count)
        return {"config": reader.to_dict(self._config), **self._facts(), "rates": rates, "split": split}

    # --- what runs

    def _facts(self) -> dict[str, Any]:
        state, on_gpu = self._state, self._device.type == "cuda"
        return {
            "device": torch.cuda.get_device_name(self._device) if on_gpu else "cpu",
            "threads": self._cpu and self._cpu.threads,
            "onednn": self._cpu and self._cpu.onednn,
            "cuda_graphs": self._graphs,
            "opponents": self._mix,
            "turns": state.learner.turns,
            "updates": state.learner.updates,
            "transitions_per_batch": TEAM * state.learner.batch_turns,
            "learning_teams": state.rollout.assignment.teams,
            "buffer_bytes": state.buffer.bytes,
            "buffer_on": str(state.buffer.storage),
        }

    def _warm_up(self) -> None:
        warm_up(self._trainer, self._mix)

    # --- what is measured

    def _rates(self) -> dict[str, float]:
        """Of whole cycles, in the best window."""

        def cycles(count: int) -> None:
            for _ in range(count):
                self._trainer.cycle()
            self._wait()

        rate = best_rate(cycles, 1, self._seconds)
        learner, teams = self._state.learner, self._state.rollout.assignment.teams
        return {
            "env_steps_per_second": rate * learner.turns * self._config.matches,
            "snake_transitions_per_second": rate * learner.turns * TEAM * teams,
            "updates_per_second": rate * learner.updates,
            "transitions_trained_per_second": rate * learner.updates * TEAM * learner.batch_turns,
            "seconds_per_cycle": 1 / rate,
        }

    def _split(self, count: int) -> dict[str, Any]:
        """Where the time of `count` cycles goes, in the fastest of several windows."""
        watch = _Events(self._device, self._graphs) if self._device.type == "cuda" else _Clock()
        self._instrument(watch)
        for _ in range(WARM_UPS + 2):
            self._trainer.cycle()
        spent = min((watch.measure(self._trainer.cycle, count) for _ in range(WINDOWS)), key=lambda s: sum(s.values()))
        total, learner = sum(spent.values()), self._state.learner
        parts = {}
        for name in PARTS:
            cycle = sum(seconds for (part, _), seconds in spent.items() if part == name)
            turn, update = (spent.get((name, per), 0.0) for per in (TURN, UPDATE))
            parts[name] = {
                "share": cycle / total,
                "us_per_cycle": 1e6 * cycle / count,
                "us_per_turn": 1e6 * turn / count / learner.turns,
                "us_per_update": 1e6 * update / count / learner.updates,
            }
        return {"how": watch.how, "seconds_per_cycle": total / count, "parts": parts}

    def _instrument(self, watch: "_Clock | _Events") -> None:
        """Put every part of a cycle behind the watch, for good."""

        def wrap(part: str, function: Callable[..., Any]) -> Callable[..., Any]:
            part, per = PART_OF.get(part, (part, TURN))
            return watch.part((part, per), function)

        self._trainer.instrument(wrap)

    def _wait(self) -> None:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)


def warm_up(trainer: Trainer, mix: Mix) -> None:
    """To where a long run is: matches at all turns, in all of them an opponent of the mix, and a full buffer."""
    state, rollout, buffer = trainer.state, trainer.state.rollout, trainer.state.buffer
    state.scheduler.mix = lambda episode, fraction_done=0.0: mix
    rollout.start()
    numbers = torch.tensor([rollout.opponents.index(name) for name in mix], dtype=torch.uint8)
    mixed = numbers[torch.arange(rollout.matches) // 2 % len(numbers)].to(state.device)  # // 2: as red and as blue
    preset = rollout.preset_opponent
    rollout.opponent_id.copy_(torch.where(preset == NONE, mixed, preset.to(torch.uint8)))
    trainer.fill_buffer()
    written = min(state.progress.turns, buffer.turns)
    if written:
        for tensor in (buffer.obs, *buffer.turn_rows[1:]):
            for begin in range(written, buffer.turns, written):  # the same turns again: nobody looks at the order
                tensor[begin : begin + written] = tensor[: min(written, buffer.turns - begin)]
        buffer.counts[0] = buffer.turns
    for _ in range(WARM_UPS + 2):  # until graphs are recorded, and once more
        trainer.cycle()


def equal_mix(against: Sequence[str], known: Sequence[str]) -> Mix:
    """Equal shares of the opponents, all of which the schedule must know: the trainer is built for those."""
    for name in against:
        if name not in known:
            raise UserError(f"--against {name}: this schedule never meets it; it knows: {', '.join(known)}")
    return dict.fromkeys(against, 1 / len(against))


Key = tuple[str, str]  # a part, and whether it belongs to a turn or to an update
REST = ("rest", "")


class _Clock:
    """On the CPU: the clock is read before and after every call of a part."""

    how = "clock read around every part's calls in the real loop"

    def __init__(self) -> None:
        self._spent: dict[Key, float] = defaultdict(float)
        self._inside = False

    def part(self, key: Key, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*arguments: Any, **options: Any) -> Any:
            if self._inside:  # a part of a part
                return function(*arguments, **options)
            self._inside = True
            begin = time.perf_counter()
            result = function(*arguments, **options)
            self._spent[key] += time.perf_counter() - begin
            self._inside = False
            return result

        return timed

    def measure(self, cycle: Callable[[], None], count: int) -> dict[Key, float]:
        """Seconds of each part in `count` cycles, and of what is no part."""
        self._spent.clear()
        begin = time.perf_counter()
        for _ in range(count):
            cycle()
        taken = time.perf_counter() - begin
        return {**self._spent, REST: taken - sum(self._spent.values())}


class _Events:
    """On a GPU: events before and after every part, each part a graph of its own, in the order of the real loop.

    A part must be called with the same tensors every time, and gives back the same ones. Before each cycle the GPU is
    kept busy until all of the cycle is asked for: what lies between two events is then work and not waiting for Python.
    """

    def __init__(self, device: torch.device, graphs: bool) -> None:
        self._device, self._graphs, self._inside = device, graphs, False
        self._marks: list[tuple[Key, torch.cuda.Event, torch.cuda.Event]] = []
        kind = "as a CUDA graph of its own" if graphs else "without CUDA graphs"
        self.how = f"CUDA events around every part, each {kind}, in the order of the real loop"

    def part(self, key: Key, function: Callable[..., Any]) -> Callable[..., Any]:
        work: Captured | None = None
        results = [None]

        def timed(*arguments: Any, **options: Any) -> Any:
            nonlocal work
            if self._inside:  # a part of a part
                return function(*arguments, **options)
            if work is None:

                def call() -> None:
                    results[0] = function(*arguments, **options)

                work = Captured(call, self._device, self._graphs)
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            self._inside = True
            begin.record()
            work()
            end.record()
            self._inside = False
            self._marks.append((key, begin, end))
            return results[0]

        return timed

    def measure(self, cycle: Callable[[], None], count: int) -> dict[Key, float]:
        """Seconds of each part in `count` cycles, and of what is no part."""
        torch.cuda.synchronize(self._device)
        asked = time.perf_counter()
        cycle()
        asking = time.perf_counter() - asked  # all that Python does for one cycle
        torch.cuda.synchronize(self._device)
        self._marks.clear()
        cycles = []
        for _ in range(count):
            if self._graphs:
                torch.cuda._sleep(int(1.5 * asking * FASTEST_CLOCK))
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            cycle()
            end.record()
            cycles.append((begin, end))
        torch.cuda.synchronize(self._device)
        spent: dict[Key, float] = defaultdict(float)
        for key, begin, end in self._marks:
            spent[key] += begin.elapsed_time(end) / 1e3
        taken = sum(begin.elapsed_time(end) for begin, end in cycles) / 1e3
        return {**spent, REST: taken - sum(spent.values())}


def table(report: dict[str, Any]) -> str:
    """The report as a user reads it."""
    config, rates, split = report["config"], report["rates"], report["split"]
    network = config["network"]
    threads = "" if report["threads"] is None else f", {report['threads']} threads"
    onednn = "" if report["onednn"] is None else f", oneDNN {'on' if report['onednn'] else 'off'}"
    graphs = ", CUDA graphs" if report["cuda_graphs"] else ""
    shares = [name if share == 1 else f"{name} {share:.0%}" for name, share in report["opponents"].items()]
    lines = [
        f"on {report['device']}{threads}{onednn}, {config['precision']}{graphs}",
        f"cycle: {report['turns']} turns of {config['matches']:,} matches against {', '.join(shares)}, "
        f"{report['learning_teams']:,} teams learn; "
        f"{count(report['updates'], 'update')} with {report['transitions_per_batch']:,} snake-transitions",
        f"network: {' -> '.join(map(str, (network['encoder'], *network['body'])))}; buffer: full, "
        f"{report['buffer_bytes'] / 2**20:,.0f} MiB on {report['buffer_on']}",
        "",
        f"{'env steps/s (match-turns)':34} {rates['env_steps_per_second']:14,.0f}",
        f"{'snake-transitions/s collected':34} {rates['snake_transitions_per_second']:14,.0f}",
        f"{'updates/s':34} {rates['updates_per_second']:14,.1f}",
        f"{'snake-transitions/s trained on':34} {rates['transitions_trained_per_second']:14,.0f}",
        f"{'seconds per cycle':34} {rates['seconds_per_cycle']:14.6f}",
        "",
        f"{'part':9}  {'of the time':>11} {'us per turn':>12} {'us per update':>13} {'us per cycle':>12}",
    ]
    for name, part in split["parts"].items():
        turn, update = (f"{part[key]:,.1f}" if part[key] else "-" for key in ("us_per_turn", "us_per_update"))
        lines.append(
            f"{name:9}  {part['share']:11.1%} {turn:>12} {update:>13} {part['us_per_cycle']:12,.1f}  {PARTS[name]}"
        )
    lines += ["", f"split: {split['how']}; {split['seconds_per_cycle']:.6f} seconds per cycle"]
    return "\n".join(lines)
