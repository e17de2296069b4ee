"""The program that `bench start` starts: `python -m marl train`, with a clock around imports, compiling and the rest.

The run is a real one, but ends after its first updates. python -m marl.bench.start_probe REPORT BEGAN WORD...: the
file to write, the time at which the process was started, and the words of the command.
"""

import atexit
import builtins
import importlib
import json
import runpy
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

FIRST_LINE, TRAINING, END = STAGES = ("first line", "training", "end")
IMPORT, COMPILE, LOAD = "import", "compile", "load compiled code"
Part = tuple[str, str]
REST = ("rest", "")
TRAIN = "marl.commands.train"


class Clock:
    """Wall seconds of parts, each without the parts within it, by stage. A part is (kind, item), like import, torch."""

    def __init__(self, began: float) -> None:
        self.began, self.stage = began, FIRST_LINE
        self.spent: dict[str, dict[Part, float]] = {stage: defaultdict(float) for stage in STAGES}
        self.ends: dict[str, float] = {}  # of stages, seconds after `began`
        self._open: list[Part] = [REST]
        self._read_at = began

    def _read(self) -> None:
        """The time since the last call belongs to the innermost part."""
        now = time.time()
        self.spent[self.stage][self._open[-1]] += now - self._read_at
        self._read_at = now

    def measured(self, kind: str, function: Callable, item: Callable[..., str] = lambda *_, **__: "") -> Callable:
        """The function as a part; `item` gets its arguments. A compile within a compile belongs to the outer one."""

        def call(*arguments: Any, **options: Any) -> Any:
            inside = kind == COMPILE and any(part[0] == COMPILE for part in self._open)
            if inside or threading.current_thread() is not threading.main_thread():
                return function(*arguments, **options)
            self._read()
            self._open.append((kind, item(*arguments, **options)))
            try:
                return function(*arguments, **options)
            finally:
                self._read()
                self._open.pop()

        return call

    def measure(self, owner: Any, name: str, kind: str, item: Callable[..., str] = lambda *_, **__: "") -> None:
        """Put a function of a module or class behind the clock."""
        setattr(owner, name, self.measured(kind, getattr(owner, name), item))

    def end_stage(self, stage: str) -> None:
        """The stage and those before it are over, unless they were already. A run may end before its first line."""
        self._read()
        while STAGES.index(self.stage) <= STAGES.index(stage):
            self.ends[self.stage] = self._read_at - self.began
            self.stage = STAGES[STAGES.index(self.stage) + 1]

    def report(self) -> dict[str, Any]:
        self._read()
        parts = {stage: [[*part, seconds] for part, seconds in found.items()] for stage, found in self.spent.items()}
        return {"ends": self.ends | {END: self._read_at - self.began}, "parts": parts}


def main(report: str, began: str, *words: str) -> None:
    clock = Clock(float(began))
    _measure_imports(clock)
    _when_imported(TRAIN, lambda: _measure_train(clock))
    sys.argv = ["marl", *words]
    atexit.register(lambda: Path(report).write_text(json.dumps(clock.report())))  # the program ends the process itself
    runpy.run_module("marl", run_name="__main__", alter_sys=True)


def _measure_imports(clock: Clock) -> None:
    """By package; a package that another one imports counts for itself."""
    builtins.__import__ = clock.measured(IMPORT, builtins.__import__, lambda name, *_, **__: name.partition(".")[0])
    clock.measure(importlib, "import_module", IMPORT, lambda name, *_, **__: name.partition(".")[0])


def _when_imported(module: str, call: Callable[[], object]) -> None:
    """Call the function as soon as the command line has imported this module: not before it has prepared the start."""
    import_module = importlib.import_module

    def import_and_call(name: str, package: str | None = None) -> Any:
        found = import_module(name, package)
        if name == module:
            importlib.import_module = import_module
            call()
        return found

    importlib.import_module = import_and_call


def _measure_train(clock: Clock) -> None:
    _measure_compiling(clock)
    _measure_run(clock)


def _measure_compiling(clock: Clock) -> None:
    from numba.core.caching import Cache
    from numba.core.dispatcher import _FunctionCompiler  # type: ignore[attr-defined]

    clock.measure(_FunctionCompiler, "compile", COMPILE, lambda compiler, *_, **__: compiler.py_func.__qualname__)
    clock.measure(Cache, "_load_overload", LOAD)
    import torch

    if torch.cuda.is_available():
        from arena.backends.numba_cuda import cuda

        kernel = cuda.dispatcher.CUDADispatcher
        clock.measure(
            kernel, "compile", COMPILE, lambda dispatcher, *_, **__: f"{dispatcher.py_func.__qualname__} (CUDA)"
        )


def _measure_run(clock: Clock) -> None:
    from arena.backends.cuda_graphs import Captured
    from marl.pictures import learning_curve
    from marl.rollout.rollout import Rollout
    from marl.training import checkpointing, cpu_setup, outputs, report
    from marl.training.console import Console
    from marl.training.evaluation import Evaluation
    from marl.training.trainer import Trainer
    from marl.training.training_state import TrainingState

    clock.measure(cpu_setup, "set_up_cpu", "choose threads and oneDNN")
    clock.measure(checkpointing, "build_state", "build networks and buffer")
    clock.measure(outputs, "open_outputs", "open the run folder")
    clock.measure(Rollout, "start", "play matches to different turns")
    clock.measure(Trainer, "_play_evaluation", "evaluation")
    clock.measure(Trainer, "cycle", "turns and updates")
    clock.measure(Evaluation, "best_gif", "pictures", lambda *_: "animation of the best match")
    clock.measure(learning_curve, "draw", "pictures", lambda *_: "learning curve")
    clock.measure(Trainer, "_save", "checkpoint")
    clock.measure(Trainer, "_finish_saving", "checkpoint")
    clock.measure(report, "summarise", "summary")

    call, capture = Captured.__call__, clock.measured("record CUDA graphs", Captured.__call__)

    def call_captured(work: Captured) -> None:
        records = work._enabled and work._graph is None and work._calls >= work._warm_ups
        (capture if records else call)(work)

    Captured.__call__ = call_captured  # type: ignore[method-assign,assignment]
    for name in ("line", "note"):
        setattr(Console, name, _ending(clock, FIRST_LINE, getattr(Console, name)))
    limit_reached = TrainingState.limit_reached

    def end_after_an_update(state: TrainingState) -> str:
        if state.progress.updates == 0:
            return limit_reached(state)
        clock.end_stage(TRAINING)
        return limit_reached(state) or "max_minutes"

    TrainingState.limit_reached = end_after_an_update  # type: ignore[method-assign,assignment]


def _ending(clock: Clock, stage: str, function: Callable) -> Callable:
    """The function, after which the stage is over."""

    def call(*arguments: Any, **options: Any) -> Any:
        result = function(*arguments, **options)
        clock.end_stage(stage)
        return result

    return call


if __name__ == "__main__":
    main(*sys.argv[1:])
