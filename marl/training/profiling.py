"""A profile of some cycles: what torch's profiler sees on one rank, as a trace that Perfetto opens."""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import torch

from marl.ranks.process_group import Ranks, Solo

FOLDER = "profile"  # in the run folder
VIEWER = "https://ui.perfetto.dev"
CYCLES = 5
# Cycles of this start before them: in these, kernels are compiled, and on a GPU graphs are recorded.
CPU_SKIPPED, GPU_SKIPPED = 3, 16


class CycleProfile:
    """Records CYCLES cycles in a row and writes them into a file; does nothing if it is off."""

    def __init__(
        self,
        is_on: bool,
        run: Path,
        group: Solo | Ranks,
        pause: Callable[[str], AbstractContextManager],
        notify: Callable[..., None],
    ) -> None:
        """pause: a block of time that is not training. notify: shows a line, with warning=True as a warning."""
        self.folder = run / FOLDER
        self.file = self.folder / f"rank{group.rank}.json.gz"
        self.is_written = False
        self._group, self._pause, self._notify = group, pause, notify
        self._first = GPU_SKIPPED if group.device.type == "cuda" else CPU_SKIPPED
        self._cycles = 0  # of this start
        self._profiler: torch.profiler.profile | None = None
        self._is_over = not is_on

    def named(self, name: str, function: Callable[[], None]) -> Callable[[], None]:
        """The function as a part with this name in the trace."""
        if self._is_over:
            return function

        def call() -> None:
            with torch.profiler.record_function(name):
                function()

        return call

    @contextmanager
    def cycles(self) -> Iterator[None]:
        """Around all cycles: a run that ends during the recording writes what there is, one that fails does not."""
        try:
            yield
            self._write()
        finally:
            if self._profiler is not None:
                self._profiler.stop()

    def cycle(self, play_and_learn: Callable[[], None]) -> None:
        """Run a cycle, the same on all ranks, recorded if it is one of those."""
        if not self._is_over and self._cycles == self._first:
            self._begin()
        play_and_learn()
        self._cycles += 1
        if self._cycles == self._first + CYCLES:
            self._write()

    def _begin(self) -> None:
        os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # else it writes lines of its own among those of the run
        activities = [torch.profiler.ProfilerActivity.CPU]
        if self._group.device.type == "cuda":
            torch.cuda.synchronize(self._group.device)  # earlier work is not part of it
            activities.append(torch.profiler.ProfilerActivity.CUDA)
        self._profiler = torch.profiler.profile(activities=activities)
        self._profiler.start()

    def _write(self) -> None:
        """Write what is recorded, if anything is. A disk that is full costs the profile alone."""
        if self._profiler is None:
            return
        with self._pause("writing a profile"), self._group.keep_alive():
            profiler, self._profiler, self._is_over = self._profiler, None, True
            profiler.stop()
            try:
                self.folder.mkdir(exist_ok=True)
                profiler.export_chrome_trace(str(self.file))
                self.is_written = True
            except (OSError, RuntimeError) as error:
                reason = getattr(error, "strerror", None) or str(error).partition("\n")[0]
                self._notify(f"cannot write the profile {self.file}: {reason}", warning=True)
        if self.is_written:
            self._notify(f"profile: {self.folder} (open a file of it at {VIEWER})")
