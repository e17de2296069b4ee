"""snakes train: train a team, in this process or in many ranks."""

import signal
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from arena.errors import ArenaError
from marl.commands import launch_flags
from marl.commands.dry_run import check_opponents, dry_run
from marl.commands.run_in_group import run_in_group
from marl.commands.train_help import asks_for_help, train_help
from marl.config.reader import to_yaml
from marl.errors import UserError
from marl.ranks import environment
from marl.training.resume_plan import ResumePlan, plan_resume

if TYPE_CHECKING:
    from marl.ranks.process_group import Ranks, Solo
    from marl.storage.checkpoint import Checkpoint
    from marl.training.cpu_setup import CpuSetup

# Flags of this command that are no options of a training. Flags are spelled with dashes: see marl/cli.py.
PRINT_CONFIG, DRY_RUN = "--print-config", "--dry-run"


def run_words(words: Sequence[str]) -> int:
    """Train as the words of the command line say; returns the exit code."""
    if asks_for_help(words):
        print(train_help(words))
        return 0
    asked = [word for word in words if word in (PRINT_CONFIG, DRY_RUN)]
    words = [word for word in words if word not in asked]
    try:
        flags, others = launch_flags.split_launch_flags(words)
        plan = plan_resume(others)
        if DRY_RUN in asked:
            return dry_run(words, flags, plan, PRINT_CONFIG in asked)
        if asked:
            print(to_yaml(plan.config), end="")
            return 0
        if flags and not environment.is_rank():
            code = launch_flags.launch_ranks(flags, plan)
            if code is not None:
                return code
        return _train(plan)
    except (UserError, ArenaError):
        if not environment.is_first_on_node():  # every rank of a node finds the same mistake; one reports it
            return 2
        raise


def _train(plan: ResumePlan) -> int:
    """Train in this process, alone or as a rank."""
    from marl.ranks.placement import set_nccl_defaults

    nccl_settings = set_nccl_defaults()  # before CUDA starts
    return run_in_group(plan.config, lambda group: _train_in_group(plan, group, nccl_settings))


def _train_in_group(plan: ResumePlan, group: "Solo | Ranks", nccl_settings: dict[str, str]) -> int:
    """One rank's training from the plan to the summary; returns the exit code."""
    from marl.training.checkpointing import build_state
    from marl.training.outputs import open_outputs
    from marl.training.report import banner, summarise
    from marl.training.signals import stop_on_signals
    from marl.training.trainer import Trainer

    plan = plan.with_relaunch(group).with_resolved_config(group)
    check_opponents(plan.config, group.is_main)
    checkpoint = plan.load_checkpoint(group)
    plan, cpu = _set_up_cpu(plan, group, checkpoint)
    state = build_state(plan.config, group, checkpoint)
    message = plan.check_unfinished(checkpoint, state) if checkpoint else ""
    if message:
        if group.is_main:
            print(message)
        return 0
    # Nothing is written up to here: if anything does not fit, the run to resume stays as it is.
    outputs = open_outputs(plan, state, cpu)
    trainer = Trainer(state, outputs)
    with outputs.console:
        outputs.console.banner(banner(trainer, checkpoint, cpu, nccl_settings))
        with stop_on_signals(trainer.request_stop):
            began, trained_before = time.perf_counter(), state.progress.seconds
            ended = trainer.run()
        if group.is_main:
            summarise(trainer, ended, time.perf_counter() - began, trained_before)
    outputs.metrics.close()
    return 128 + (trainer.stop_signal or signal.SIGTERM) if ended == "signal" else 0


def _set_up_cpu(
    plan: ResumePlan, group: "Solo | Ranks", checkpoint: "Checkpoint | None"
) -> tuple[ResumePlan, "CpuSetup | None"]:
    """Set threads and oneDNN; the plan with oneDNN's choice in its configuration. A collective; nothing on a GPU."""
    if group.device.type != "cpu":
        return plan, None
    from marl.training.cpu_setup import set_up_cpu

    saved = checkpoint.part("state").get("onednn") if checkpoint else None
    cpu = set_up_cpu(plan.config, group, saved, plan.saved_start().get("cpu"))
    return replace(plan, config=replace(plan.config, onednn=cpu.onednn)), cpu
