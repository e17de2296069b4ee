"""Metrics of a run: TensorBoard events, the same numbers as JSON lines, and W&B if the user asks for it.

The only importer of pynvml. Everything is on the disk when a call returns: a full disk or a removed folder is an error
of that call, in one line.
"""

import json
import math
import os
import re
import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from arena.files import write_atomically
from marl.errors import UserError
from marl.metrics.event_file import EventFile, append, is_of_machine, shown_scalars, thinned
from marl.metrics.run_texts import BY_ENV_STEPS, layout, main_curves
from marl.metrics.wandb_run import WandbRun
from marl.storage.run_folder import read_regular

LINES = "metrics.jsonl"
OLD_EVENTS = "tensorboard"  # folder of the event files in runs of earlier versions
OLD_ENV_STEPS = (
    "by_env_steps"  # folder of curves by env steps in runs of earlier versions: TensorBoard listed it as a run
)
PLAIN = re.compile(rb'\{"step": (\d+), "time": [^\n]*\}\n')  # a line as log() writes it
TAIL = 1 << 16  # bytes at the end of the file that hold the last line, also with many opponents
CHECKED = 100  # lines at the end that are read as JSON when a run is resumed, 10 us each: a long run has many


class Metrics:
    """Writes the metrics of a run. Rank 0 has one, all other ranks have Silent. A step is an episode.

    Event files are in the run folder itself, so that TensorBoard names the run by its folder.
    """

    def __init__(
        self,
        folder: Path,
        resume_at: int | None = None,
        wandb_project: str | None = None,
        config: Mapping[str, Any] | None = None,
        resume_env_steps: int = 0,
    ):
        """Open for a new run, or for one resumed after episode resume_at: metrics of later episodes are dropped.

        config: options by path, for TensorBoard's HPARAMS and for W&B. resume_env_steps: those of resume_at.
        """
        self._folder = Path(folder)
        self._wandb = None
        if wandb_project:
            self._wandb = WandbRun(self._folder, wandb_project, resume_at is not None, config or {})
        first = 0 if resume_at is None else resume_at + 1
        self._reporting_errors(
            lambda: self._open(first, 0 if resume_at is None else resume_env_steps + 1, config or {})
        )

    def describe(self, texts: Mapping[str, str], opponents: Iterable[str]) -> None:
        """Write texts about the start, and TensorBoard's charts with several curves. opponents: of evaluations."""
        self._reporting_errors(lambda: self._events.add_texts(self._first, texts))
        self._reporting_errors(lambda: self._events.add(0, [layout(opponents)]))

    def log(self, step: int, values: Mapping[str, float], env_steps: int | None = None) -> None:
        """Write all values of a step. With env_steps, the main curves are written by env steps as well.

        A resumed run may repeat the evaluation of its checkpoint's episode; the same values are not written twice,
        also where a kill came between two of the files.
        """
        assert not values.keys() & {"step", "time"}, "step and time are fields of every line"
        numbers = {tag: float(value) for tag, value in values.items()}
        finite = {tag: number if math.isfinite(number) else None for tag, number in numbers.items()}
        line = json.dumps({"step": int(step), "time": round(time.time(), 3)} | finite, allow_nan=False) + "\n"
        if step < self._first and of_run(json.loads(line)) in self._last_kept:
            return
        self._reporting_errors(lambda: self._events.add_scalars(step, numbers))
        if env_steps is not None:
            self._reporting_errors(lambda: self._log_by_env_steps(env_steps, main_curves(numbers)))
        self._reporting_errors(lambda: append(self._folder / LINES, line.encode()))
        if self._wandb:
            self._wandb.log(step, numbers)

    def animation(self, tag: str, gif: bytes, step: int = 0) -> None:
        """Write a GIF file; TensorBoard plays it among its images."""
        self._reporting_errors(lambda: self._events.add_gif(step, tag, gif))
        if self._wandb:
            self._wandb.animation(step, tag, gif)

    def summarise(self, values: Mapping[str, Any]) -> None:
        """Set the results of the whole run, for W&B's table of runs."""
        if self._wandb:
            self._wandb.summarise(values)

    def close(self) -> None:
        """End the W&B run, if there is one. Everything else is on the disk already."""
        if self._wandb:
            self._wandb.finish()
            self._wandb = None

    def _open(self, first: int, first_env_step: int, config: Mapping[str, Any]) -> None:
        old = self._folder / OLD_EVENTS
        folder, by_env_steps = old if old.exists() else self._folder, self._folder / OLD_ENV_STEPS
        self._first = first
        # TensorBoard drops all events from step `first` on, an episode: also curves whose steps are env steps.
        kept = shown_scalars(folder, BY_ENV_STEPS, first, first_env_step)
        again = {at: value for at, value in kept.items() if at[0] >= first}
        again |= shown_scalars(by_env_steps, BY_ENV_STEPS, first, first_env_step)
        self._kept_by_env_steps = {at for at in (*kept, *again) if at[0] == first_env_step - 1}
        self._events = EventFile(folder, first, thinned(again))
        shutil.rmtree(by_env_steps, ignore_errors=True)
        if config:
            self._events.add_hparams(config)
        lines = _keep_lines(self._folder / LINES, first)
        self._last_kept = [of_run(line) for line in map(_parse, lines[-CHECKED:]) if line.get("step") == first - 1]

    def _log_by_env_steps(self, env_steps: int, values: Mapping[str, float]) -> None:
        new = {tag: value for tag, value in values.items() if (env_steps, tag) not in self._kept_by_env_steps}
        if new:
            self._events.add_scalars(env_steps, new)

    def _reporting_errors(self, write: Callable[[], None]) -> None:
        try:
            write()
        except OSError as error:
            where = error.filename or self._folder
            advice = "check the disk, then resume with --resume"
            raise UserError(f"cannot write metrics: {where}: {error.strerror or error}; {advice}") from None


class Silent:
    """Discards all metrics; for all ranks but 0."""

    def describe(self, texts: Mapping[str, str], opponents: Iterable[str]) -> None: ...
    def log(self, step: int, values: Mapping[str, float], env_steps: int | None = None) -> None: ...
    def animation(self, tag: str, gif: bytes, step: int = 0) -> None: ...
    def summarise(self, values: Mapping[str, Any]) -> None: ...
    def close(self) -> None: ...


def gpu_gauges() -> dict[str, float]:
    """Load, memory (GiB), temperature and power of every GPU of the machine, in NVML's order; {} without a driver."""
    gauges = {}
    nvml, handles = _nvml()
    for i, handle in enumerate(handles):
        for name, read in {
            "util_percent": lambda gpu: nvml.nvmlDeviceGetUtilizationRates(gpu).gpu,
            "memory_allocated_gb": lambda gpu: nvml.nvmlDeviceGetMemoryInfo(gpu).used / 2**30,
            "temperature_c": lambda gpu: nvml.nvmlDeviceGetTemperature(gpu, nvml.NVML_TEMPERATURE_GPU),
            "power_w": lambda gpu: nvml.nvmlDeviceGetPowerUsage(gpu) / 1000,
        }.items():
            try:
                gauges[f"system/gpu{i}_{name}"] = float(read(handle))
            except nvml.NVMLError:  # not every GPU has every sensor
                continue
    return gauges


@cache
def _nvml() -> tuple[Any, list[Any]]:
    try:
        import pynvml as nvml
    except ImportError:
        return None, []
    try:
        nvml.nvmlInit()
        return nvml, [nvml.nvmlDeviceGetHandleByIndex(i) for i in range(nvml.nvmlDeviceGetCount())]
    except nvml.NVMLError:
        return nvml, []


def read_lines(folder: Path) -> list[dict[str, Any]]:
    """The metrics of a run, one dictionary per line; without lines that are no metrics, such as one cut off by a kill.

    Empty if the file is missing or cannot be read.
    """
    try:
        lines = read_regular(Path(folder) / LINES).splitlines()
    except OSError:
        return []
    return [values for line in lines if (values := _parse(line))]


def lines_with(folder: Path, tag: str) -> list[dict[str, Any]]:
    """Of read_lines those that hold a tag, and the last one that does not: a long run has many others."""
    name = json.dumps(tag).encode()
    try:
        lines = read_regular(Path(folder) / LINES).splitlines()
    except OSError:
        return []
    others = (i for i in reversed(range(len(lines))) if name not in lines[i] and _parse(lines[i]))
    last = next(others, None)
    return [values for i, line in enumerate(lines) if (i == last or name in line) and (values := _parse(line))]


def last_line(folder: Path) -> dict[str, Any]:
    """The last of read_lines, read from the end of the file; empty if there is none."""
    path = Path(folder) / LINES
    try:
        if not path.is_file():  # opening a FIFO would wait for ever
            return {}
        with open(path, "rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL))
            lines = file.read().splitlines()
    except OSError:
        return {}
    return next((values for line in reversed(lines) if (values := _parse(line))), {})


def _keep_lines(file: Path, first: int) -> list[bytes]:
    """Drop the lines from step `first` on, and lines that are no metrics, such as one cut off by a kill.

    Returns the lines that are kept.
    """
    if not file.exists():
        return []
    lines = read_regular(file).splitlines(keepends=True)
    suspect = len(lines) - CHECKED
    kept = [line for i, line in enumerate(lines) if _step(line, i >= suspect) < first]
    if kept != lines[: len(kept)]:
        write_atomically(file, b"".join(kept))
    elif len(kept) < len(lines):  # a run of days has many lines: they are not written again
        os.truncate(file, sum(map(len, kept)))
    return kept


def of_run(line: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a line that a repetition of the run would have as well: no times, no gauges of the machine."""
    return {tag: value for tag, value in line.items() if not is_of_machine(tag)}


def _step(line: bytes, is_checked: bool) -> float:
    """The step of a line of metrics; infinite for any other line. is_checked: the whole line is read, not its start."""
    found = None if is_checked else PLAIN.fullmatch(line)
    if found:
        return int(found[1])
    values = _parse(line) if line.endswith(b"\n") else {}
    return values.get("step", math.inf)


def _parse(line: bytes) -> dict[str, Any]:
    """The values of a line of metrics, which has a step; empty for any other line."""
    try:
        values = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return values if isinstance(values, dict) and isinstance(values.get("step"), int) else {}
