"""Compiles what a training needs in a second process, beside the first start of it.

The first start on a machine, or after an update, compiles for half a minute, on one core: Numba compiles one function
at a time. When the training begins to compile, it starts this program, which makes an evaluation, an update and some
turns of the same training with an encoder that writes nothing. So the training compiles the encoder, a third of all,
and finds most of the rest in the cache. A function that both compile at the same time is compiled twice.
"""

import contextlib
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import torch

from arena import jit, system
from arena.encoder_check import trust_encoder
from arena.encoders import ENCODERS
from arena.encoders.encoder import measure_nothing, write_nothing
from marl import plugins
from marl.compute import machine, onednn
from marl.compute.thread_variables import user_fixes_threads
from marl.compute.threads import use_threads
from marl.config.train_config import TrainConfig
from marl.ranks.process_group import Solo
from marl.training.evaluation import evaluate
from marl.training.training_state import TrainingState
from opponents.processes import end_with_parent

NICE = 5  # below the training, which computes between its compiles


@contextlib.contextmanager
def compiling_ahead(config: TrainConfig, threads: int, overlaps: bool) -> Iterator[None]:
    """Within it, the second process is started by the first compile. For a CPU, with the training's threads.

    Not if the user has limited the threads (OMP_NUM_THREADS): other cores are for others.
    """
    processes: list[subprocess.Popen[bytes]] = []
    own_code = [plugin.request for plugin in plugins.imported()]

    def start() -> None:
        argv = [sys.executable, "-c", f"import {__name__} as program; program.main()"]
        path = os.pathsep.join([str(jit.ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        process = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": path},
        )
        processes.append(process)
        assert process.stdin is not None
        with contextlib.suppress(OSError), process.stdin as pipe:
            pipe.write(pickle.dumps((replace(config, threads=threads), overlaps, own_code)))

    if machine.usable_cores() > 1 and not user_fixes_threads():
        jit.at_first_compile(start)
    try:
        yield
    finally:
        jit.at_first_compile(None)
        for process in processes:
            process.kill()
            process.wait()


def compile_training(config: TrainConfig, overlaps: bool) -> None:
    """Call what a training of this configuration calls, all but the encoder. overlaps: as in Solo."""
    name = config.network.encoder
    ENCODERS[name] = ENCODERS[name]._replace(encode=write_nothing, measure=measure_nothing)
    trust_encoder(ENCODERS[name])
    group = Solo(torch.device("cpu"), overlaps)
    state = TrainingState(config, group)
    evaluation = config.evaluation
    # The training begins with the first opponent.
    few = replace(evaluation, eval_matches=2 * (config.threads or 1), eval_opponents=evaluation.eval_opponents[::-1])
    evaluate(state.learner.actor, state.encoder, few, group, config.seed)
    state.buffer.counts[0] = state.buffer.turns  # as if it were full
    state.learner.anneal(1.0, 0.0)
    state.learner.learn()
    state.buffer.counts[0] = 0
    state.rollout.set_mix(state.scheduler.mix(0))
    state.rollout.start(state.learner.act)
    state.learner.begin_round()
    state.rollout.play_turns(state.learner.turns, state.learner.act)


def main() -> None:
    """The second process. Its input is the configuration."""
    end_with_parent()
    system.be_nice(NICE)
    config, overlaps, own_code = pickle.load(sys.stdin.buffer)
    plugins.import_plugins(own_code)
    use_threads(config.threads, overlaps)
    onednn.mkldnn.enabled = config.onednn
    compile_training(config, overlaps)
