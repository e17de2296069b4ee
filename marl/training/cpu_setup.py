"""Threads and matrix products of a run on a CPU: fixed by the user, kept from an earlier start, or measured once."""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from typing import Any, NamedTuple

import torch

from arena.encoders import encoder_named
from marl import registry
from marl.cli.wording import count
from marl.compute import machine, onednn, threads
from marl.compute.choice_cache import remember
from marl.compute.thread_variables import user_fixes_threads
from marl.config.autoscale import PPO_TURNS
from marl.config.train_config import TrainConfig
from marl.fast.seam import may_pass
from marl.learners.precision import Precision
from marl.networks.actors import RecurrentActor, make_actor
from marl.networks.spec import spec_from_config
from marl.ranks import environment
from marl.ranks.process_group import Ranks, Solo, on_main

ROWS_MAX = 1024  # of a trial: 32,768 rows of champion_60s.yaml took 6.5 s a step on two Neoverse cores
CPU = torch.device("cpu")


class CpuSetup(NamedTuple):
    """How a run uses its CPU."""

    threads: int  # of this process, at most this many busy at a time
    source: str  # of the number of threads, for the user
    onednn: bool
    key: str  # machine and configuration that the choices belong to
    halves: bool  # whether the learner splits its work into two halves that run at once, each with half of the threads

    def __str__(self) -> str:
        return f"{count(self.threads, 'thread')} ({self.source}), oneDNN {'on' if self.onednn else 'off'}"


def set_up_cpu(
    config: TrainConfig,
    group: Solo | Ranks,
    saved_onednn: bool | None = None,
    earlier: Mapping[str, Any] | None = None,
) -> CpuSetup:
    """Set threads and oneDNN of this process, and group.overlaps. A collective: rank 0 measures, all ranks do the same.

    saved_onednn: of the checkpoint that is resumed; oneDNN rounds differently, so a run keeps it. earlier: fields of
    the CpuSetup of the start that is resumed; a run on the same machine keeps its threads, which may round differently.
    """
    overlaps = group.backend is None and may_pass(config)
    most = max(1, min(torch.get_num_threads(), machine.usable_cores() // environment.ranks_on_this_node()))
    key = _key(config, most, overlaps)

    def make_step(rows: int) -> Callable[[], None]:
        return training_step(config, rows)

    rows = min(ROWS_MAX, getattr(config, config.learner_section).batch_size)
    if config.threads is not None:
        number, source = config.threads, "--threads"
    elif user_fixes_threads():
        number, source = torch.get_num_threads(), "OMP_NUM_THREADS"
    else:
        is_rank = group.world > 1
        choose = partial(_choose_threads, make_step, rows, most, overlaps, is_rank, key, earlier or {})
        number, source = on_main(group, choose)
        number = min(number, most)  # rank 0 may be on a larger machine
    halves = overlaps and number > 1
    if isinstance(group, Solo):
        group.overlaps = halves
    threads.use_threads(number, halves)
    fixed = saved_onednn if config.onednn is None else config.onednn
    enabled = on_main(group, lambda: _choose_onednn(make_step, rows, f"{number} threads, {key}", fixed))
    onednn.mkldnn.enabled = enabled
    return CpuSetup(number, source, enabled, key, halves)


def training_step(config: TrainConfig, rows: int) -> Callable[[], None]:
    """A forward and backward pass of the configured actor with about this many rows."""
    learner, encoder = registry.load(registry.LEARNERS, config.algo), encoder_named(config.network.encoder)
    spec = spec_from_config(config.network, learner.outputs, learner.recurrent)
    with torch.random.fork_rng(devices=[]):
        actor = make_actor(encoder, spec)
    precision = Precision(config.precision, CPU)
    turns = PPO_TURNS if isinstance(actor, RecurrentActor) else 1
    snakes = max(3, rows // turns // 3 * 3)
    obs = torch.zeros(turns, snakes, encoder.width)
    rest = (torch.zeros(turns, snakes, dtype=torch.bool), actor.initial_state(snakes, CPU)) if spec.lstm_size else ()

    def step() -> None:
        with precision.autocast():
            outputs = actor(obs, *rest) if rest else actor(obs[0])
        outputs.sum().backward()

    return step


def _choose_threads(
    make_step: threads.MakeStep,
    rows: int,
    most: int,
    overlaps: bool,
    is_rank: bool,
    key: str,
    earlier: Mapping[str, Any],
) -> tuple[int, str]:
    """Threads, and where the number is from. A rank of several measures two, too: it has no two halves."""

    def is_allowed(number: Any) -> bool:
        return type(number) is int and 1 <= number <= most

    if most <= (1 if is_rank else threads.UNMEASURED):
        return most, "all cores" if most > 1 else "one core"
    if earlier.get("key") == key and is_allowed(earlier.get("threads")):
        return earlier["threads"], f"of {most}, as before"

    def measure() -> int:
        before = onednn.mkldnn.enabled
        # Where oneDNN is in doubt it mostly stays off.
        onednn.mkldnn.enabled = before and not onednn.needs_measurement()
        try:
            return threads.measure_threads(make_step, rows, most, overlaps)
        finally:
            onednn.mkldnn.enabled = before

    return remember(f"threads: {key}", measure, is_allowed), f"of {most}, measured"


def _choose_onednn(make_step: threads.MakeStep, rows: int, key: str, fixed: bool | None) -> bool:
    if fixed is not None:
        return fixed
    if not onednn.needs_measurement():
        return onednn.mkldnn.enabled
    return remember(f"oneDNN: {key}", lambda: onednn.measure_onednn(make_step(rows)), lambda on: type(on) is bool)


def _key(config: TrainConfig, most: int, overlaps: bool) -> str:
    """Everything that the speed of a training step depends on."""
    network = ", ".join(f"{name} {value}" for name, value in asdict(config.network).items())
    rows = getattr(config, config.learner_section).batch_size
    where = f"{machine.processor()['model']}, {most} cores, torch {torch.__version__}"
    how = "in halves" if overlaps else "whole"
    return f"{where}, {config.algo}, {config.precision}, {rows} rows, {how}, {network}"
