"""TensorBoard's event files: scalars with descriptions, texts, hyperparameters, a layout of charts, and animations.

Records are TensorBoard's own, written by the call itself and not by SummaryWriter's thread: a full disk or a removed
folder is an error of that call, in one line where the thread prints a traceback, and no event is ever left in a queue.
With marl/metrics/run_texts.py the only importer of tensorboard.
"""

import io
import math
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from marl.metrics.run_texts import describe_tag, hparams, text

SHOWN = 1000  # points that TensorBoard draws of a curve


def load_tensorboard() -> tuple[Any, ...]:
    """The classes of an event file. Imported late: it takes time, which other ranks than 0 need not spend."""
    from tensorboard.compat.proto.event_pb2 import Event, SessionLog
    from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
    from tensorboard.summary.writer.record_writer import RecordWriter

    return Event, SessionLog, Summary, SummaryMetadata, RecordWriter


class EventFile:
    """A new event file in a folder. TensorBoard drops earlier events of the folder from step `first` on.

    A step before `first` was begun before the run was stopped: of that step only what is missing is written.
    """

    def __init__(self, folder: Path, first: int, again: Mapping[tuple[int, str], float] = {}) -> None:
        """`again`: earlier scalars, by step and tag, that TensorBoard would drop and that are to stay."""
        Event, SessionLog, self._Summary, self._Metadata, self._RecordWriter = load_tensorboard()
        self._Event = Event
        self._first = first
        self._described: set[str] = set()  # TensorBoard needs a description once per file
        folder.mkdir(parents=True, exist_ok=True)
        # TensorBoard reads the files in the order of their names. Numbers, not times: another node's clock may be slow.
        self._earlier = event_files(folder)
        self._file = folder / f"events.out.tfevents.{len(self._earlier):010d}.{socket.gethostname()}"
        self._add(
            Event(file_version="brain.Event:2", step=first),
            Event(session_log=SessionLog(status=SessionLog.START), step=first),
            *(self._event(step, [self._scalar(tag, value)]) for (step, tag), value in again.items()),
        )

    def add_scalars(self, step: int, values: Mapping[str, float]) -> None:
        """Write all values of a step, by tag, if an earlier file does not have them; times may differ."""
        if not self._has(step, lambda found: _equal({value.tag: value.simple_value for value in found}, values)):
            self.add(step, [self._scalar(tag, value) for tag, value in values.items()])

    def add_gif(self, step: int, tag: str, gif: bytes) -> None:
        """Write a GIF file, if an earlier event file does not have it; TensorBoard plays it among its images."""
        width, height = (int.from_bytes(gif[at : at + 2], "little") for at in (6, 8))
        image = self._Summary.Image(width=width, height=height, colorspace=3, encoded_image_string=gif)
        if not self._has(step, lambda found: any(value.image == image for value in found)):
            self.add(step, [self._Summary.Value(tag=tag, image=image)])

    def add_texts(self, step: int, texts: Mapping[str, str]) -> None:
        """Write texts in Markdown, by tag."""
        self.add(step, [text(tag, words) for tag, words in texts.items()])

    def add_hparams(self, config: Mapping[str, Any]) -> None:
        """Write the configuration as hyperparameters."""
        self.add(0, [hparams(config)])

    def add(self, step: int, values: Iterable[Any]) -> None:
        """Write values of a summary."""
        self._add(self._event(step, values))

    def _event(self, step: int, values: Iterable[Any]) -> Any:
        return self._Event(summary=self._Summary(value=values), step=int(step))

    def _has(self, step: int, is_it: Callable[[Iterable[Any]], bool]) -> bool:
        """Whether an earlier file has an event at a step that TensorBoard shows. is_it: told by the event's values."""
        if step >= self._first:
            return False
        for file in reversed(self._earlier):
            has, first = False, math.inf
            for event in read_events([file]):
                if event.HasField("session_log"):
                    first = event.step
                elif event.step == step:
                    has = has or is_it(event.summary.value)
            if has or first <= step:  # TensorBoard drops events of earlier files from `first` on
                return has
        return False

    def _scalar(self, tag: str, value: float) -> Any:
        if tag in self._described:
            return self._Summary.Value(tag=tag, simple_value=value)
        self._described.add(tag)
        plugin = self._Metadata.PluginData(plugin_name="scalars")
        metadata = self._Metadata(plugin_data=plugin, summary_description=describe_tag(tag))
        return self._Summary.Value(tag=tag, simple_value=value, metadata=metadata)

    def _add(self, *events: Any) -> None:
        records = io.BytesIO()
        writer = self._RecordWriter(records)
        for event in events:
            event.wall_time = time.time()
            writer.write(event.SerializeToString())
        append(self._file, records.getvalue())


def event_files(folder: Path) -> list[Path]:
    """The event files in a folder, in the order in which TensorBoard reads them."""
    return sorted(file for file in folder.iterdir() if "tfevents" in file.name) if folder.is_dir() else []


def read_events(files: Iterable[Path]) -> Iterator[Any]:
    """The events of these files, of each up to a record that is damaged or cut off."""
    for file in filter(Path.is_file, files):  # opening a FIFO would wait for ever
        from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader  # not by a new run

        yield from LegacyEventFileLoader(str(file)).Load()


def shown_scalars(folder: Path, prefix: str, first: int, before: int) -> dict[tuple[int, str], float]:
    """Scalars that TensorBoard shows of a folder, by step and tag: of tags with a prefix, before a step.

    A file holds those that an EventFile wrote again at its beginning. So it is enough to read the last one, unless the
    new file's `first` comes before that of the last file.
    """
    shown: dict[tuple[int, str], float] = {}
    files = event_files(folder)
    if files and _first_step(files[-1]) <= first:
        files = files[-1:]
    for event in read_events(files):
        if event.HasField("session_log"):
            shown = {at: value for at, value in shown.items() if at[0] < event.step}
        elif event.step < before:
            shown |= {(event.step, v.tag): v.simple_value for v in event.summary.value if v.tag.startswith(prefix)}
    return shown


def thinned(scalars: Mapping[tuple[int, str], float]) -> dict[tuple[int, str], float]:
    """As many scalars as TensorBoard shows of each curve, evenly over the steps, with the last; by step and tag."""
    width = max((step for step, _ in scalars), default=0) // SHOWN + 1
    last = {(step // width, tag): (step, tag) for step, tag in sorted(scalars)}
    return {at: scalars[at] for at in sorted(last.values())}


def _first_step(file: Path) -> float:
    """The step from which an event file replaces earlier ones; infinite if it does not say it."""
    for event in read_events([file]):
        if event.HasField("session_log"):
            return event.step
        if not event.HasField("file_version"):
            break
    return math.inf


def is_of_machine(tag: str) -> bool:
    """Whether a metric is a time, a speed or a gauge of a GPU or rank, which a repetition of the run would not have."""
    return tag.partition("/")[0] in ("time", "system", "ranks")


def _equal(found: Mapping[str, float], values: Mapping[str, float]) -> bool:
    """Whether values of an event file are these; it keeps 32 bits of a value."""
    tags = [tag for tag in values if not is_of_machine(tag)]
    return found.keys() == values.keys() and np.array_equal(
        np.array([found[tag] for tag in tags], np.float32),
        np.array([values[tag] for tag in tags], np.float32),
        equal_nan=True,
    )


def append(file: Path, data: bytes) -> None:
    """Add bytes to the end of a file."""
    # Opened each time: a folder removed during the run is noticed, and nothing stays in Python's buffers.
    with open(file, "ab") as out:
        out.write(data)
