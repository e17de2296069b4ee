"""Saves a run's checkpoints in a background thread while training goes on.

Training waits only until all tensors are copied to rank 0's memory. One checkpoint is written at a time. An error while
writing is raised by the next save, or at the end.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch

from marl.storage import checkpoint_writer


class Saver:
    """Writes checkpoints; used on rank 0 only."""

    def __init__(self, keep_last: int, milestones: int, after_prune: Callable[[Path, int], None]) -> None:
        """after_prune is called with the run and the newest episode whenever old checkpoints have been removed."""
        self._keep_last, self._milestones, self._after_prune = keep_last, milestones, after_prune
        self._threads = ThreadPoolExecutor(1, "checkpoint")
        self._writing: Future[None] | None = None
        self.saved = 0  # checkpoints begun

    def save(
        self,
        folder: Path,
        episode: int,
        weights: dict[str, torch.Tensor],
        parts: dict[str, dict[str, Any]],
        about: dict[str, Any],
        best: bool,
    ) -> None:
        """Start writing a checkpoint; the caller must not change the tensors afterwards."""
        self.finish()

        def write() -> None:
            saved = checkpoint_writer.save(folder, episode, weights, parts, about)
            if best:
                checkpoint_writer.mark_best(folder, saved)
            if checkpoint_writer.prune(folder, self._keep_last, self._milestones):
                self._after_prune(folder, episode)

        self._writing = self._threads.submit(write)
        self.saved += 1

    def close(self) -> None:
        """Wait for the checkpoint that is being written, and ignore its errors."""
        self._threads.shutdown()

    def finish(self) -> None:
        """Wait for the checkpoint that is being written, and raise its error if it failed."""
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.result()


def on_host(value: Any) -> Any:
    """Copy nested dictionaries, lists and tensors, with all tensors in the host's memory."""
    if isinstance(value, torch.Tensor):
        return value.detach().to("cpu", copy=True)
    if isinstance(value, dict):
        return {key: on_host(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(on_host(each) for each in value)
    return value
