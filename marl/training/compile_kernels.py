"""Compiles the kernels of a training on a GPU in several processes, beside its first start.

The first start on a machine, or after an update, compiles for half a minute, on one core: Numba compiles one function
at a time. If it finds no compiled kernels, processes are forked from it before it touches the GPU, with all that is
imported, and each compiles a part of what the training will call. The training itself begins with the rows that its
evaluations encode, and finds most of the rest in the cache. What two processes compile at the same time is compiled
twice.
"""

import contextlib
import os
import pickle
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import BinaryIO, NoReturn

import torch

from arena import BatchArena, jit, system
from arena.encoder_check import trust_encoder
from arena.encoders import ENCODERS, Encoder
from arena.encoders.encoder import measure_nothing, write_nothing
from arena.replay import Replay
from arena.rules import SNAKES, TEAM
from marl.compute import machine
from marl.compute.thread_variables import user_fixes_threads
from marl.config.train_config import TrainConfig
from marl.ranks import environment
from marl.ranks.process_group import Solo
from marl.training.compile_ahead import NICE
from marl.training.training_state import TrainingState
from opponents.players import is_scripted, scripted
from opponents.processes import end_with_parent
from opponents.scheduler import Scheduler

DRIVER = "/proc/driver/nvidia/version"  # is there where a GPU can be used
BUFFER_TURNS = 32  # of a replay buffer that is only compiled for, in addition to those of one target
Part = Callable[[TrainConfig], None]


class KernelCompilers:
    """The processes. They wait for the configuration, and end with it or with this process."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self._pipes: list[BinaryIO] = []
        self._processes: list[int] = []
        for part in parts:
            read, write = os.pipe()
            process = os.fork()
            if process == 0:
                _compile_part(part, read)
            os.close(read)
            self._processes.append(process)
            self._pipes.append(os.fdopen(write, "wb"))

    def begin(self, config: TrainConfig, device: torch.device) -> None:
        """Let them compile for this configuration, in which nothing is `auto`, if the training uses a GPU."""
        for pipe in self._pipes if device.type == "cuda" else ():
            with contextlib.suppress(OSError), pipe:
                pipe.write(pickle.dumps(config))

    def close(self) -> None:
        """End those that are left."""
        for pipe in self._pipes:
            pipe.close()
        for process in self._processes:
            with contextlib.suppress(OSError):
                os.kill(process, signal.SIGKILL)
                os.waitpid(process, 0)


@contextlib.contextmanager
def compiling_kernels(config: TrainConfig) -> Iterator[KernelCompilers]:
    """The processes, as many as help: none on a CPU, or if kernels have been compiled before.

    Must be entered before this process touches the GPU: no forked process could use it then. Not if the user has
    limited the threads (OMP_NUM_THREADS): other cores are for others.
    """
    cores = 1 if environment.is_rank() or user_fixes_threads() else machine.usable_cores()
    may_use_gpu = _may_use_gpu(config.device)
    parts = PARTS[: cores - 1] if may_use_gpu and threading.active_count() == 1 else ()
    compilers = KernelCompilers(parts if parts and not _are_compiled() else ())
    try:
        yield compilers
    finally:
        compilers.close()


def _may_use_gpu(device: str) -> bool:
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "all") not in ("", "-1")
    has_driver = system.FORKS_WHEN_LOADED and os.path.exists(DRIVER)
    return device != "cpu" and visible and has_driver and not torch.cuda.is_initialized()


def _are_compiled() -> bool:
    """Whether the kernels have been compiled at least once, as far as two of them tell."""
    from arena.backends.cuda import start_kernel
    from marl.rollout.turn_kernels import finish_turns

    return all(jit.has_code(kernel) for kernel in (start_kernel, finish_turns.cuda_kernel()))


def _compile_part(part: Part, read: int) -> NoReturn:
    """The life of a forked process: nothing is said, and no mistake matters; the training will find it itself."""
    try:
        end_with_parent()
        system.be_nice(NICE)
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in (sys.stdout, sys.stderr):
            os.dup2(nowhere, stream.fileno())
        with os.fdopen(read, "rb") as pipe:
            part(pickle.load(pipe))
    finally:
        os._exit(0)


# --- the parts, those that take longest first -------------------------------------------------------------------------


def compile_updates(config: TrainConfig) -> None:
    """Updates of a training."""
    state = _small_state(config)
    state.buffer.counts[0] = state.buffer.turns  # as if it were full
    state.learner.anneal(1.0, 0.0)
    state.learner.learn()


def compile_turns(config: TrainConfig) -> None:
    """Turns of a training, all but the encoder, whose kernels others compile."""
    state = _small_state(config)
    state.rollout.set_mix(state.scheduler.mix(0))
    state.learner.begin_round()
    state.rollout.play_turns(state.learner.turns, state.learner.act)


def compile_matches(config: TrainConfig) -> None:
    """The rules."""
    arena = _small_arena()
    arena.play_turn(torch.zeros(arena.matches, SNAKES, dtype=torch.int8, device=arena.device))


def compile_opponents(config: TrainConfig) -> None:
    """Scripted opponents of evaluations, and of the schedule."""
    arena = _small_arena()
    seats = torch.arange(arena.matches * SNAKES, dtype=torch.int32, device=arena.device)
    moves = torch.zeros(arena.matches, SNAKES, dtype=torch.int8, device=arena.device)
    names = (*config.evaluation.eval_opponents[::-1], *Scheduler(config.schedule).reachable())  # the training: as given
    for name in dict.fromkeys(name for name in names if is_scripted(name)):
        scripted(name).act(arena, seats, moves)


def compile_replay(config: TrainConfig) -> None:
    """One match on the CPU, as the recording of the best one is played."""
    Replay.from_actions(0, 0, None, [[0] * SNAKES])


PARTS: tuple[Part, ...] = (
    compile_updates,
    compile_turns,
    compile_matches,
    compile_opponents,
    compile_replay,
)


def _small_arena() -> BatchArena:
    arena = BatchArena(2, "cuda")
    arena.start()
    return arena


def _small_state(config: TrainConfig) -> TrainingState:
    """A training with an encoder that writes nothing, without named opponents, with a small replay buffer."""
    name = config.network.encoder
    ENCODERS[name] = _empty(ENCODERS[name])
    config = _with_small_buffer(replace(config, schedule=replace(config.schedule, opponents=())))
    return TrainingState(config, Solo(torch.device("cuda", torch.cuda.current_device())))


def _empty(encoder: Encoder) -> Encoder:
    """An encoder that writes nothing."""
    empty = encoder._replace(encode=write_nothing, measure=measure_nothing, cell_words=None)
    trust_encoder(empty)
    return empty


def _with_small_buffer(config: TrainConfig) -> TrainConfig:
    """With a replay buffer of some turns: the training needs the memory."""
    section = getattr(config, config.learner_section)
    if not hasattr(section, "buffer_size"):
        return config
    teams = 2 * config.matches
    size = min(section.buffer_size, (BUFFER_TURNS + section.n_step + 1) * teams * TEAM)
    return replace(config, **{config.learner_section: replace(section, buffer_size=size)})
