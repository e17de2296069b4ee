"""Compiles what a training needs in other processes, beside the first start of it.

The first start on a machine, or after an update, compiles for half a minute, on one core: Numba compiles one function
at a time. When the training begins to compile, it starts this program, as often as that helps, and each process calls
some of what the training will call, with an encoder that writes nothing. So the training compiles the encoder, a third
of all, and finds most of the rest in the cache. A function that two compile at the same time is compiled twice.
"""

import contextlib
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

import torch

from arena import BatchArena, jit, system
from arena.encoder_check import trust_encoder
from arena.encoders import ENCODERS
from arena.encoders.encoder import measure_nothing, write_nothing
from arena.replay import Replay
from arena.rules import SNAKES, TEAM
from marl import plugins
from marl.compute import machine, onednn
from marl.compute.thread_variables import user_fixes_threads
from marl.compute.threads import use_threads
from marl.config.train_config import TrainConfig
from marl.ranks.process_group import Solo
from marl.training.evaluation import evaluate
from marl.training.training_state import TrainingState
from opponents.players import is_scripted, scripted
from opponents.processes import end_with_parent
from opponents.scheduler import Scheduler

if TYPE_CHECKING:
    from marl.training.cpu_setup import CpuSetup

NICE = 5  # below the training, which computes between its compiles
BUFFER_TURNS = 32  # of a replay buffer that is only compiled for, in addition to those of one target
# Device -> parts, methods of TrainingCalls, those that take longest first. On a CPU an evaluation is compiled calls of
# its own, on a GPU the kernels of the rules and of the opponents; a replay is always made on the CPU.
PARTS = {"cpu": ("evaluation", "updates", "turns"), "cuda": ("updates", "turns", "matches", "opponents", "replay")}


@contextlib.contextmanager
def compiling_ahead(config: TrainConfig, device: torch.device, cpu: "CpuSetup | None") -> Iterator[None]:
    """Within it, the other processes are started by the first compile, at most one for each core that is left.

    cpu: the threads of the training, on a CPU. Not if the user has limited the threads (OMP_NUM_THREADS): other cores
    are for others.
    """
    processes: list[subprocess.Popen[bytes]] = []
    own_code = [plugin.request for plugin in plugins.imported()]
    parts = PARTS[device.type]
    count = 0 if user_fixes_threads() else min(len(parts), machine.usable_cores() - 1)
    if cpu is not None:
        config = replace(config, threads=cpu.threads)

    def start() -> None:
        argv = [sys.executable, "-c", f"import {__name__} as program; program.main()"]
        path = os.pathsep.join([str(jit.ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        for number in range(count):
            process = subprocess.Popen(
                argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": path},
            )
            processes.append(process)
            assert process.stdin is not None
            calls = TrainingCalls(config, device, cpu is not None and cpu.halves)
            with contextlib.suppress(OSError), process.stdin as pipe:
                pipe.write(pickle.dumps((own_code, calls, parts[number::count])))

    if count > 0:
        jit.at_first_compile(start)
    try:
        yield
    finally:
        jit.at_first_compile(None)
        for process in processes:
            process.kill()
            process.wait()


class TrainingCalls:
    """What a training of a configuration without `auto` calls, all but the encoder. overlaps: as in Solo."""

    def __init__(self, config: TrainConfig, device: torch.device, overlaps: bool) -> None:
        self.config, self.device, self.overlaps = config, device, overlaps

    def make(self, parts: Sequence[str]) -> None:
        """Make the calls of some parts."""
        name = self.config.network.encoder
        nothing = {"encode": write_nothing, "measure": measure_nothing, "cell_words": None, "row_parts": None}
        ENCODERS[name] = ENCODERS[name]._replace(**nothing)
        trust_encoder(ENCODERS[name])
        if self.device.type == "cpu":
            use_threads(self.config.threads, self.overlaps)
            onednn.mkldnn.enabled = self.config.onednn
        for part in parts:
            getattr(self, part)()

    def evaluation(self) -> None:
        """Of the training, against one opponent after the other, from the last one on: the training begins with the
        first."""
        state, config = self._state, self.config.evaluation
        matches = 2 * (self.config.threads or 1)
        few = replace(config, eval_matches=matches, eval_opponents=config.eval_opponents[::-1])
        evaluate(state.learner.actor, state.encoder, few, state.group, self.config.seed)

    def updates(self) -> None:
        state = self._state
        state.buffer.counts[0] = state.buffer.turns  # as if it were full
        state.learner.anneal(1.0, 0.0)
        state.learner.learn()
        state.buffer.counts[0] = 0

    def turns(self) -> None:
        state = self._state
        state.rollout.set_mix(state.scheduler.mix(0))
        if self.device.type == "cpu":  # on a GPU these are kernels of the parts `matches` and `opponents`
            state.rollout.start(state.learner.act)
        state.learner.begin_round()
        state.rollout.play_turns(state.learner.turns, state.learner.act)

    def matches(self) -> None:
        """The rules."""
        arena = self._small_arena()
        arena.play_turn(torch.zeros(arena.matches, SNAKES, dtype=torch.int8, device=arena.device))

    def opponents(self) -> None:
        """Scripted opponents of evaluations, and of the schedule."""
        arena = self._small_arena()
        seats = torch.arange(arena.matches * SNAKES, dtype=torch.int32, device=arena.device)
        moves = torch.zeros(arena.matches, SNAKES, dtype=torch.int8, device=arena.device)
        names = (*self.config.evaluation.eval_opponents[::-1], *Scheduler(self.config.schedule).reachable())
        for name in dict.fromkeys(name for name in names if is_scripted(name)):
            scripted(name).act(arena, seats, moves)

    def replay(self) -> None:
        """One match on the CPU, as the recording of the best one is played."""
        Replay.from_actions(0, 0, None, [[0] * SNAKES])

    def _small_arena(self) -> BatchArena:
        arena = BatchArena(2, self.device)
        arena.start()
        return arena

    @cached_property
    def _state(self) -> TrainingState:
        """Without named opponents, and with a small replay buffer: the training needs the memory."""
        config = replace(self.config, schedule=replace(self.config.schedule, opponents=()))
        section = getattr(config, config.learner_section)
        if hasattr(section, "buffer_size"):
            most = (BUFFER_TURNS + section.n_step + 1) * 2 * config.matches * TEAM
            small = replace(section, buffer_size=min(section.buffer_size, most))
            config = replace(config, **{config.learner_section: small})
        return TrainingState(config, Solo(self.device, self.overlaps))


def main() -> None:
    """One of the other processes. Its input says what it calls."""
    end_with_parent()
    system.be_nice(NICE)
    own_code, calls, parts = pickle.load(sys.stdin.buffer)
    plugins.import_plugins(own_code)
    calls.make(parts)
