"""Faults of a training at a given cycle, planted in this process.

RANK:term:N     the rank gets TERM before its cycle N (from 1; cycles that fill the buffer count too)
RANK:kill:N     the rank is killed before its cycle N
RANK:STAGE:N    the rank is killed in this stage of its save N: begin, middle, rename, point; or part, stamp
RANK:evaluation:N   the rank is killed in its evaluation N
RANK:restore:N  the rank is killed when it reads its checkpoint for the Nth time
RANK:saves:0    the rank goes on when a checkpoint is written, not while it is being written
RANK:late:N     the rank's clock is a week ahead from cycle N on
RANK:nan:N-M    the batches N to M of the rank contain a NaN
RANK:slow:S     every evaluation of the rank takes S seconds longer
RANK:disk:S     every file of a checkpoint takes the rank S seconds longer
RANK:patience:S the rank waits S seconds for the other ranks to answer a roll call
0:elastic:S     a launcher waits S seconds for more nodes, and three times S for a sign of life of another node

With :launcher at the end, as in 0:kill:3:launcher, the launcher of the rank is killed instead of the rank. With :once
the kill happens in the first process of the rank that comes to it, and no more after that; MARKS names a folder to
remember this in.
"""

import os
import signal
import time
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

# Stages of a save: the function of marl.storage.checkpoint_writer that begins the stage, and its file.
STAGES = {
    "begin": ("_write_folder", ".saving-*"),
    "middle": ("_write_file", "state.pt"),
    "rename": ("_replace_folder", ".saving-*"),
    "point": ("write_atomically", "last"),
}
# Stages of a rank that is not rank 0.
STAGES_OF_A_PART = {
    "part": ("_write_file", "rank1.pt"),
    "stamp": ("_write_file", "rank1.stamp"),
}


def plant(fault: str) -> None:
    """Plant the fault in this process, if it is meant for this rank."""
    rank, what, when, *whom = fault.split(":")
    if rank != os.environ.get("RANK", "0"):
        return
    if whom == ["once"]:
        whom = [str(Path(os.environ["MARKS"]) / fault.replace(":", "-"))]
    if what in STAGES | STAGES_OF_A_PART:
        _kill_in_save(what, int(when), whom)
    elif what == "evaluation":
        _kill_in_evaluation(int(when), whom)
    elif what == "restore":
        _kill_in_restore(int(when), whom)
    elif what == "saves":
        _wait_for_saves()
    elif what == "nan":
        _spoil_batches(*map(int, when.split("-")))
    elif what == "slow":
        _slow_evaluation(float(when))
    elif what == "disk":
        _slow_disk(float(when))
    elif what == "patience":
        _shorten_patience(float(when))
    elif what == "elastic":
        _shorten_rendezvous(int(when))
    else:
        _before_cycle(int(when), what, whom)


def _kill(whom: list[str]) -> None:
    if whom and whom != ["launcher"]:
        try:
            Path(whom[0]).touch(exist_ok=False)
        except FileExistsError:
            return
    os.kill(os.getppid() if whom == ["launcher"] else os.getpid(), signal.SIGKILL)


def _before_cycle(number: int, what: str, whom: list[str]) -> None:
    from marl.training.trainer import Trainer

    cycle, cycles = Trainer.cycle, []

    def counted(self: Trainer, learn: bool = True) -> None:
        cycles.append(learn)
        if len(cycles) == number:
            if what == "late":
                self._stopwatch._zero -= 7 * 24 * 3600
            elif what == "term":
                os.kill(os.getpid(), signal.SIGTERM)
            else:
                assert what == "kill", what
                if self.state.group.is_main:
                    self.saver.wait()  # checkpoints that were begun count; STAGES kill while they are written
                else:
                    _wait_for_checkpoint(self)
                _kill(whom)
        cycle(self, learn)

    _replace(Trainer, "cycle", counted)


def _wait_for_checkpoint(trainer: Any) -> None:
    """Wait until rank 0 has put the first checkpoint of all ranks in place, if one was due; 30 s at most."""
    last = trainer.outputs.folder / "checkpoints" / "last"
    due = trainer.state.progress.episodes >= trainer.state.config.save_interval  # given by all who plant
    deadline = time.monotonic() + 30
    while due and not last.exists() and time.monotonic() < deadline:
        time.sleep(0.01)


def _kill_in_save(stage: str, number: int, whom: list[str]) -> None:
    from marl.storage import checkpoint_writer

    name, file = (STAGES | STAGES_OF_A_PART)[stage]
    function, calls = getattr(checkpoint_writer, name), []

    def counted(path: Path, *others: Any) -> Any:
        calls.extend([path] * path.match(file))
        if len(calls) == number and path.match(file):
            _kill(whom)
        return function(path, *others)

    _replace(checkpoint_writer, name, counted)


def _spoil_batches(first: int, last: int) -> None:
    from marl.learners.replay_buffer import BatchRows, Sampler

    draw, draws = Sampler.draw, []

    def spoilt(self: Sampler) -> BatchRows:
        batch = draw(self)
        draws.append(batch)
        if first <= len(draws) <= last:
            batch.returns[0, 0] = float("nan")
        return batch

    _replace(Sampler, "draw", spoilt)


def _kill_in_evaluation(number: int, whom: list[str]) -> None:
    from marl.training import evaluation

    play, calls = evaluation._play_own_matches, []

    def counted(*arguments: Any) -> Any:
        calls.append(number)
        if len(calls) == number:
            _kill(whom)
        return play(*arguments)

    _replace(evaluation, "_play_own_matches", counted)


def _kill_in_restore(number: int, whom: list[str]) -> None:
    from marl.training import checkpointing

    restore, calls = checkpointing.restore_matches, []

    def counted(*arguments: Any) -> Any:
        calls.append(number)
        if len(calls) == number:
            _kill(whom)
        return restore(*arguments)

    _replace(checkpointing, "restore_matches", counted)


def _wait_for_saves() -> None:
    from marl.training.trainer import Trainer

    cycle = Trainer.cycle

    def after_saves(self: Trainer, learn: bool = True) -> None:
        self.saver.wait()
        cycle(self, learn)

    _replace(Trainer, "cycle", after_saves)


def _slow_evaluation(seconds: float) -> None:
    from marl.training import evaluation

    play = evaluation._play_own_matches

    def slow(*arguments: Any) -> Any:
        time.sleep(seconds)
        return play(*arguments)

    _replace(evaluation, "_play_own_matches", slow)


def _slow_disk(seconds: float) -> None:
    from marl.storage import checkpoint_writer

    write = checkpoint_writer._write_file

    def slow(path: Path, *others: Any) -> Any:
        time.sleep(seconds)
        return write(path, *others)

    _replace(checkpoint_writer, "_write_file", slow)


def _shorten_patience(seconds: float) -> None:
    from marl.ranks import roll_call

    _replace(roll_call, "PATIENCE", seconds)


def _shorten_rendezvous(seconds: int) -> None:
    from marl.ranks import torch_elastic

    handler = torch_elastic.Handler
    _replace(torch_elastic, "LAST_CALL", seconds)
    _replace(handler, "from_backend", partial(handler.from_backend, keep_alive_interval=seconds))


def _replace(owner: Any, name: str, value: Any) -> None:
    """For the rest of this process; fails if the owner has no such name."""
    mock.patch.object(owner, name, value).start()
