"""Saves a run's checkpoints while it goes on.

Training waits only until everything is copied to rank 0's memory; the disk's work is done beside it. One checkpoint is
written at a time. What went wrong with one is told at the next, or at the end.
"""

from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch

from marl.storage import checkpoint


class Saver:
    """Rank 0's writer."""

    def __init__(self, keep_last: int, milestones: int) -> None:
        self._keep_last, self._milestones = keep_last, milestones
        self._threads = ThreadPoolExecutor(1, "checkpoint")
        self._writing: Future[None] | None = None
        self.saved = 0

    def save(
        self,
        folder: Path,
        episode: int,
        weights: dict[str, torch.Tensor],
        parts: dict[str, dict[str, Any]],
        about: dict[str, Any],
        best: bool,
    ) -> None:
        """Begin to write; the tensors belong to the writer from here on."""
        self.finish()

        def write() -> None:
            saved = checkpoint.save(folder, episode, weights, parts, about)
            if best:
                checkpoint.mark_best(folder, saved)
            checkpoint.prune(folder, self._keep_last, self._milestones)

        self._writing = self._threads.submit(write)
        self.saved += 1

    def close(self) -> None:
        """Let what is being written come to its end, whatever that is."""
        self._threads.shutdown()

    def finish(self) -> None:
        """Wait for what is being written; raises what went wrong with it."""
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.result()


def on_host(value: Any) -> Any:
    """A copy of dictionaries, lists and tensors in them, with all tensors in the host's memory."""
    if isinstance(value, torch.Tensor):
        return value.detach().to("cpu", copy=True)
    if isinstance(value, dict):
        return {key: on_host(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(on_host(each) for each in value)
    return value
