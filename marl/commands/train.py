"""snakes train: train a team, in this process or in many ranks."""

import signal
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from arena.errors import ArenaError
from marl import garbage
from marl.commands import launch_flags
from marl.commands.dry_run import check_opponents, dry_run
from marl.commands.run_in_group import run_in_group
from marl.commands.train_help import asks_for_help, train_help
from marl.commands.train_league import LEAGUE, first_step_words, split_league_flag, train_league
from marl.commands.train_seeds import first_seed_words, split_seed_flags, train_seeds
from marl.config.reader import to_yaml
from marl.errors import UserError
from marl.ranks import environment
from marl.ranks.orphans import end_with_launcher
from marl.storage.run_owner import RunOwner, check_free
from marl.training.resume_plan import ResumePlan, plan_resume

if TYPE_CHECKING:
    from marl.ranks.process_group import Ranks, Solo
    from marl.storage.checkpoint import Checkpoint
    from marl.training.compile_kernels import KernelCompilers
    from marl.training.cpu_setup import CpuSetup

# Flags of this command that are no options of a training. Flags are spelled with dashes: see marl/cli.py.
PRINT_CONFIG, DRY_RUN = "--print-config", "--dry-run"


def run_words(words: Sequence[str]) -> int:
    """Train as the words of the command line say; returns the exit code."""
    if asks_for_help(words):
        print(train_help(words))
        return 0
    asked = [word for word in words if word in (PRINT_CONFIG, DRY_RUN)]
    seeds, words = split_seed_flags([word for word in words if word not in asked])
    rounds, words = split_league_flag(words)
    if seeds is not None and rounds is not None:
        raise UserError("--league does not go with --seeds; train one league for each --seed, with its own --run_name")
    if rounds is not None and not asked:
        return train_league(rounds, words, lambda plan: train_here(plan)[0])
    league = [] if rounds is None else [LEAGUE, str(rounds)]
    if rounds is not None:
        words = first_step_words(rounds, words)
    if seeds is not None and not asked:
        return train_seeds(seeds, words)
    if seeds is not None:
        words = first_seed_words(seeds, words)
    end_with_launcher()
    try:
        flags, others = launch_flags.split_launch_flags(words)
        plan = plan_resume(others)
        if DRY_RUN in asked:
            return dry_run([*words, *league], flags, plan, PRINT_CONFIG in asked)
        if asked:
            print(to_yaml(plan.config), end="")
            return 0
        if not environment.is_rank() and not launch_flags.asks_for_nodes(flags):
            _check_free(plan)
        if flags and not environment.is_rank():
            code = launch_flags.launch_ranks(flags, plan)
            if code is not None:
                return code
        return train_here(plan)[0]
    except (UserError, ArenaError):
        if not environment.is_first_on_node():  # every rank of a node finds the same mistake; one reports it
            return 2
        raise


def train_here(plan: ResumePlan) -> tuple[int, Path | None]:
    """Train in this process, alone or as a rank; returns the exit code, and the run folder if there is one."""
    from marl.compute.process_state import process_state_restored
    from marl.ranks.placement import set_nccl_defaults
    from marl.training.compile_kernels import compiling_kernels

    folders = [] if plan.source is None else [plan.source]
    with process_state_restored(), compiling_kernels(plan.config) as compilers:
        nccl_settings = set_nccl_defaults()  # before CUDA starts
        code = run_in_group(plan.config, lambda group: _train_in_group(plan, group, nccl_settings, folders, compilers))
    return code, folders[-1] if folders else None


def _check_free(plan: ResumePlan) -> None:
    """Tell a second start beside a living one at once, before torch is loaded; rank 0 checks again.

    Not for several nodes: one may join a run that the others train already.
    """
    folder = plan.existing_folder()
    if folder is not None:
        check_free(folder)


def _train_in_group(
    plan: ResumePlan,
    group: "Solo | Ranks",
    nccl_settings: dict[str, str],
    folders: list[Path],
    compilers: "KernelCompilers",
) -> int:
    """One rank's training from the plan to the summary, as the owner of the run's folder; returns the exit code.

    The run folder is added to `folders`.
    """
    plan = plan.with_relaunch(group).with_resolved_config(group)
    compilers.begin(plan.config, group.device)
    check_opponents(plan, group.is_main)
    with RunOwner() as owner:
        plan.take_folder(owner, group)
        return _train_as_owner(plan, group, nccl_settings, folders, owner)


def _train_as_owner(
    plan: ResumePlan, group: "Solo | Ranks", nccl_settings: dict[str, str], folders: list[Path], owner: RunOwner
) -> int:
    """The same once nobody else can write to the folder of a resumed run; a new one is taken when it is made."""
    from marl.training.checkpointing import build_state
    from marl.training.compile_ahead import compiling_ahead
    from marl.training.outputs import open_outputs
    from marl.training.report import banner, summarise
    from marl.training.signals import stop_on_signals
    from marl.training.trainer import Trainer

    garbage.keep_what_is_loaded()
    checkpoint = plan.load_checkpoint(group)
    plan, cpu = _set_up_cpu(plan, group, checkpoint)
    with (
        compiling_ahead(plan.config, cpu.threads, cpu.halves) if cpu is not None and group.world == 1 else nullcontext()
    ):
        state = build_state(plan.config, group, checkpoint)
        state.until = plan.until
        message = plan.check_unfinished(checkpoint, state) if checkpoint else ""
        if message:
            if group.is_main:
                print(message)
            return 0
        # Nothing is written up to here: if anything does not fit, the run to resume stays as it is.
        outputs = open_outputs(plan, state, cpu, owner)
        folders.append(outputs.folder)
        trainer = Trainer(state, outputs)
        with outputs.console:
            outputs.console.banner(banner(trainer, checkpoint, cpu, nccl_settings))
            for line in state.named.warnings([len(slots) for slots in state.rollout.assignment.named]):
                outputs.console.note(f"opponents: {line}", warning=True)
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
