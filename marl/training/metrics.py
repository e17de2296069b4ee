"""Metrics of a run: TensorBoard events, the same numbers as JSON lines, and W&B if the user asks for it.

The only importer of tensorboard, pynvml and wandb. Events are written by the call itself, not by SummaryWriter's
thread: a full disk or a removed folder is an error of that call, in one line, and no event is ever left in a queue.
"""

import io
import json
import math
import secrets
import socket
import time
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from arena.extras import install_hint
from arena.files import write_atomically
from marl.errors import UserError

EVENTS, LINES, WANDB_ID = "tensorboard", "metrics.jsonl", "wandb_id"


class Metrics:
    """Writes the metrics of a run. Rank 0 has one, all other ranks have Silent. A step is an episode."""

    def __init__(self, folder: Path, resume_at: int | None = None, wandb_project: str | None = None):
        """Open for a new run, or for one resumed after episode resume_at: metrics of later episodes are dropped."""
        self._folder = Path(folder)
        self._wandb = _start_wandb(self._folder, wandb_project, resume_at) if wandb_project else None
        # Imported late: it takes about a second, which other ranks than 0 need not spend.
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.summary.writer.record_writer import RecordWriter

        self._Event, self._Summary, self._RecordWriter = Event, Summary, RecordWriter
        first = 0 if resume_at is None else resume_at + 1
        self._reporting_errors(lambda: self._open(first, SessionLog(status=SessionLog.START)))

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Write all values of a step."""
        assert not values.keys() & {"step", "time"}, "step and time are fields of every line"
        numbers = {tag: float(value) for tag, value in values.items()}
        scalars = [self._Summary.Value(tag=tag, simple_value=number) for tag, number in numbers.items()]
        finite = {tag: number if math.isfinite(number) else None for tag, number in numbers.items()}
        line = json.dumps({"step": int(step), "time": round(time.time(), 3)} | finite, allow_nan=False) + "\n"
        self._add(step, self._Summary(value=scalars))
        self._reporting_errors(lambda: _append(self._folder / LINES, line.encode()))
        if self._wandb:
            self._wandb.log({"episode": int(step)} | numbers)

    def animation(self, tag: str, gif: bytes, step: int = 0) -> None:
        """Write a GIF file; TensorBoard plays it among its images."""
        width, height = (int.from_bytes(gif[at : at + 2], "little") for at in (6, 8))
        image = self._Summary.Image(width=width, height=height, colorspace=3, encoded_image_string=gif)
        self._add(step, self._Summary(value=[self._Summary.Value(tag=tag, image=image)]))

    def close(self) -> None:
        """End the W&B run, if there is one. Everything else is on the disk already."""
        if self._wandb:
            self._wandb.finish()
            self._wandb = None

    def _open(self, first: int, start: Any) -> None:
        folder = self._folder / EVENTS
        folder.mkdir(parents=True, exist_ok=True)
        # TensorBoard reads the files in the order of their names. Numbers, not times: another node's clock may be slow.
        number = sum("tfevents" in file.name for file in folder.iterdir())
        self._events = folder / f"events.out.tfevents.{number:010d}.{socket.gethostname()}"
        self._add_events(self._Event(file_version="brain.Event:2", step=first))
        self._add_events(self._Event(session_log=start, step=first))  # TensorBoard drops later events
        _keep_lines(self._folder / LINES, first)

    def _add(self, step: int, summary: Any) -> None:
        self._reporting_errors(lambda: self._add_events(self._Event(summary=summary, step=int(step))))

    def _add_events(self, event: Any) -> None:
        event.wall_time = time.time()
        record = io.BytesIO()
        self._RecordWriter(record).write(event.SerializeToString())
        _append(self._events, record.getvalue())

    def _reporting_errors(self, write: Callable[[], None]) -> None:
        try:
            write()
        except OSError as error:
            where = error.filename or self._folder
            advice = "check the disk, then resume with --resume"
            raise UserError(f"cannot write metrics: {where}: {error.strerror or error}; {advice}") from None


class Silent:
    """Discards all metrics; for all ranks but 0."""

    def log(self, step: int, values: Mapping[str, float]) -> None: ...
    def animation(self, tag: str, gif: bytes, step: int = 0) -> None: ...
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


def _start_wandb(folder: Path, project: str, resume_at: int | None) -> Any:
    missing = f"--wandb needs the package wandb (or leave --wandb out); {install_hint('wandb')}"
    try:
        import wandb
    except ImportError:
        raise UserError(missing) from None
    if not hasattr(wandb, "init"):  # a folder ./wandb of an earlier run is imported as an empty package
        raise UserError(missing)
    # The id is kept in the run folder: a resumed run continues its curves, and two runs of one name stay separate.
    kept = folder / WANDB_ID
    run_id = kept.read_text().strip() if resume_at is not None and kept.is_file() else secrets.token_hex(8)
    try:
        run = wandb.init(project=project, dir=str(folder), name=folder.name, id=run_id, resume="allow")
        run.define_metric("*", step_metric="episode")  # W&B's own step can only rise; that of a resumed run falls
        write_atomically(kept, f"{run_id}\n".encode())
    except Exception as error:  # of any kind: the account, the network or the disk
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise UserError(f"--wandb: {reason}; try `wandb login`, set WANDB_MODE=offline or leave --wandb out") from None
    return run


def read_lines(folder: Path) -> list[dict[str, Any]]:
    """The metrics of a run, one dictionary per line."""
    return [json.loads(line) for line in (Path(folder) / LINES).read_text().splitlines()]


def _keep_lines(file: Path, first: int) -> None:
    """Drop the lines from step `first` on, and a line cut off by a kill."""
    if not file.exists():
        return
    kept = []
    for line in file.read_bytes().splitlines(keepends=True):
        try:
            if line.endswith(b"\n") and json.loads(line)["step"] < first:
                kept.append(line)
        except (ValueError, KeyError, TypeError):
            continue
    write_atomically(file, b"".join(kept))


def _append(file: Path, data: bytes) -> None:
    # Opened each time: a folder removed during the run is noticed, and nothing stays in Python's buffers.
    with open(file, "ab") as out:
        out.write(data)
