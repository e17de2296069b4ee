"""Saves a run's checkpoints beside training: every rank writes its part in a background thread.

Training waits only until the tensors of each rank are copied in its own memory. A rank writes its part into the draft
of the checkpoint, in the run folder that all ranks share. Rank 0 completes the checkpoint when all parts are there,
without a collective. Checkpoints are written one after another. An error is found by the next save, or at the end.
"""

import math
import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch

from marl.errors import UserError
from marl.storage import checkpoint_writer
from marl.storage.checkpoint import FOLDER

GRACE = 3.0  # seconds without progress after which rank 0 gives up waiting for parts, when the run has failed


class Saver:
    """Writes the checkpoints of a run, or a rank's part of them."""

    def __init__(self, keep_last: int, after_prune: Callable[[Path, int], None], rank: int = 0, world: int = 1) -> None:
        """after_prune is called with the run and the newest episode whenever old checkpoints have been removed."""
        self._keep_last, self._after_prune = keep_last, after_prune
        self._name = f"rank{rank}"
        self._others = [f"rank{other}" for other in range(1, world)]
        self._threads = ThreadPoolExecutor(1, "checkpoint")
        self._writing: list[Future[None]] = []
        self._failed: Future[None] | None = None
        self._closing, self._abandoned = threading.Event(), threading.Event()
        self.start: str | None = None  # a name of this start of the run, from `prepare`
        self.saved = 0  # checkpoints begun
        self.left_out = 0  # checkpoints that were due while another one was being written

    def prepare(self, run: Path) -> str:
        """Clear up what an earlier start has left; returns a name of this start. On rank 0, before the first save."""
        checkpoint_writer.prepare(run)
        return uuid.uuid4().hex[:8]

    def sees(self, run: Path, seconds: float = 10.0) -> bool:
        """Whether the folder that rank 0 has prepared is there for this rank; a network drive may show it late."""
        deadline = time.monotonic() + seconds
        while not (there := (run / FOLDER).is_dir()) and time.monotonic() < deadline:
            time.sleep(0.1)
        return there

    def save(
        self,
        run: Path,
        episode: int,
        weights: dict[str, torch.Tensor],
        parts: dict[str, dict[str, Any]],
        about: dict[str, Any],
        best: bool,
    ) -> None:
        """Start writing a checkpoint, on rank 0; the caller must not change the tensors afterwards."""
        token = self._token()

        def write() -> None:
            saved = checkpoint_writer.save_with_others(
                run, episode, token, weights, parts, about, self._others, self._patience
            )
            if best:
                checkpoint_writer.mark_best(run, saved)
            if checkpoint_writer.prune(run, self._keep_last):
                self._after_prune(run, episode)
            checkpoint_writer.drop_rank_parts(run, saved)

        self._submit(write)

    def save_part(self, run: Path, episode: int, part: dict[str, Any] | None) -> None:
        """Start writing this rank's part, on any other rank."""
        token = self._token()
        self._submit(lambda: checkpoint_writer.write_part(run, episode, token, self._name, part))

    @property
    def unfinished(self) -> int:
        """Checkpoints, or parts of them, that are being written or wait for it."""
        self._tidy()
        return len(self._writing)

    @property
    def has_failed(self) -> bool:
        """Whether a checkpoint could not be written."""
        self._tidy()
        return self._failed is not None

    def problem(self) -> str | None:
        """The message of the first error; an error that is no UserError is raised."""
        self._tidy()
        error = self._failed.exception() if self._failed is not None else None
        if error is not None and not isinstance(error, UserError):
            raise error
        return None if error is None else str(error)

    def wait(self, left: int = 0) -> None:
        """Wait until at most `left` checkpoints are unfinished."""
        for writing in self._writing[: max(0, len(self._writing) - left)]:
            writing.exception()

    def abandon(self) -> None:
        """Wait no longer for the parts of other ranks: one of them cannot write."""
        self._abandoned.set()

    def close(self) -> None:
        """Wait for the checkpoints that are being written, and ignore their errors."""
        self._closing.set()
        self._threads.shutdown()

    def finish(self) -> None:
        """Wait for the checkpoints that are being written, and raise the first error."""
        self.wait()
        self._tidy()
        if self._failed is not None:
            self._failed.result()

    def _token(self) -> str:
        """The same on all ranks, and another one for each save: two saves of one episode may overlap."""
        return f"{self.start}-{self.saved}"

    def _submit(self, write: Callable[[], None]) -> None:
        self._writing.append(self._threads.submit(write))
        self.saved += 1

    def _tidy(self) -> None:
        done = [writing for writing in self._writing if writing.done()]
        self._writing = [writing for writing in self._writing if writing not in done]
        self._failed = self._failed or next((writing for writing in done if writing.exception() is not None), None)

    def _patience(self) -> float:
        """Seconds to wait for parts of other ranks while there is no progress."""
        if self._abandoned.is_set():
            return 0.0
        return GRACE if self._closing.is_set() else math.inf


def on_host(value: Any) -> Any:
    """Copy nested dictionaries, lists and tensors, with all tensors in the host's memory."""
    if isinstance(value, torch.Tensor):
        return value.detach().to("cpu", copy=True)
    if isinstance(value, dict):
        return {key: on_host(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(on_host(each) for each in value)
    return value
