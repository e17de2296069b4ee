"""Faults that a training runs into at a certain cycle, in the process that plants them.

RANK:term:N     the rank gets TERM before its cycle N (from 1, those that fill the buffer included)
RANK:kill:N     it is killed there
RANK:STAGE:N    it is killed in this stage of its save N: begin, middle, rename, point
RANK:late:N     its clock is a week ahead from there on
RANK:nan:N-M    the batches N to M that it draws hold a number that is none
RANK:patience:S it waits S seconds for the others to answer a roll call
0:elastic:S     a launcher waits S seconds for more nodes, and three times that for a sign of life of another one
"""

import os
import signal
from functools import partial
from pathlib import Path
from typing import Any

# Stages of a save: which function of marl.storage.checkpoint_writer begins it, and with which file.
STAGES = {
    "begin": ("_write_folder", ".saving-*"),
    "middle": ("_write_file", "state.pt"),
    "rename": ("_replace_folder", ".saving-*"),
    "point": ("write_atomically", "last"),
}


def plant(fault: str) -> None:
    """For this process, if the fault is for its rank."""
    rank, what, when = fault.split(":")
    if rank != os.environ.get("RANK", "0"):
        return
    if what in STAGES:
        _in_save(what, int(when))
    elif what == "nan":
        _spoil(*map(int, when.split("-")))
    elif what == "patience":
        _hurry(float(when))
    elif what == "elastic":
        _meet_quickly(int(when))
    else:
        _before_cycle(int(when), what)


def _before_cycle(number: int, what: str) -> None:
    from marl.training.trainer import Trainer

    cycle, cycles = Trainer._cycle, []

    def counted(self: Trainer, learn: bool = True) -> None:
        cycles.append(learn)
        if len(cycles) == number:
            if what == "late":
                self._stopwatch._zero -= 7 * 24 * 3600
            else:
                os.kill(os.getpid(), {"term": signal.SIGTERM, "kill": signal.SIGKILL}[what])
        cycle(self, learn)

    Trainer._cycle = counted


def _in_save(stage: str, number: int) -> None:
    from marl.storage import checkpoint_writer

    name, file = STAGES[stage]
    function, calls = getattr(checkpoint_writer, name), []

    def counted(path: Path, *others: Any) -> Any:
        calls.extend([path] * path.match(file))
        if len(calls) == number and path.match(file):
            os.kill(os.getpid(), signal.SIGKILL)
        return function(path, *others)

    setattr(checkpoint_writer, name, counted)


def _spoil(first: int, last: int) -> None:
    from marl.learners.replay_buffer import Batch, Sampler

    draw, draws = Sampler.draw, []

    def spoilt(self: Sampler) -> Batch:
        batch = draw(self)
        draws.append(batch)
        if first <= len(draws) <= last:
            batch.rows.returns[0, 0] = float("nan")
        return batch

    Sampler.draw = spoilt


def _hurry(seconds: float) -> None:
    from marl.ranks import roll_call

    roll_call.PATIENCE = seconds


def _meet_quickly(seconds: int) -> None:
    from marl.ranks import rendezvous

    handler = rendezvous._Handler
    rendezvous.LAST_CALL = seconds
    handler.from_backend = partial(handler.from_backend, keep_alive_interval=seconds)
