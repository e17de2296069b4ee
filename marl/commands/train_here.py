"""A training in this process, alone or as a rank: from its plan to its summary."""

import signal
import socket
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from arena.errors import ArenaError
from marl.commands.dry_run import check_limit, check_opponents
from marl.config.train_config import TrainConfig
from marl.errors import UserError
from marl.ranks import environment, rank_log
from marl.storage.run_owner import RunOwner
from marl.training.resume_plan import ResumePlan

if TYPE_CHECKING:
    from marl.ranks.process_group import Ranks, Solo
    from marl.storage.checkpoint import Checkpoint
    from marl.training.cpu_setup import CpuSetup


@dataclass
class TrainingEnd:
    """How a training in this process has ended."""

    code: int = 0  # exit code
    folder: Path | None = None  # of the run, if there is one
    signal: int = 0  # number of the signal that came, also if the training was complete by then


def train_here(plan: ResumePlan) -> TrainingEnd:
    """Train in this process, alone or as a rank."""
    from marl.compute.process_state import process_state_restored
    from marl.ranks.placement import set_nccl_defaults

    end = TrainingEnd(folder=plan.run)
    with process_state_restored():
        nccl_settings = set_nccl_defaults()  # before CUDA starts
        end.code = _run_in_group(plan.config, lambda group: _train_in_group(plan, group, nccl_settings, end))
    return end


def _run_in_group(config: TrainConfig, train: Callable[["Solo | Ranks"], int]) -> int:
    """Join the process group, call `train` with it and leave the group; returns the exit code of this process.

    A lost rank ends this process at once, because a group with a lost rank cannot be taken down in order.
    """
    from marl.ranks.exits import EXIT_LOST_RANK, EXIT_TOGETHER, LostRank, notify, wait_for_first_report
    from marl.ranks.lost_rank import explain, leave
    from marl.ranks.startup import start
    from marl.ranks.sync_check import OutOfSync
    from marl.training.training_state import NotFinite

    try:
        group = start(config.ddp.backend, config.ddp.timeout, config.device)
    except LostRank as error:
        notify(str(error))
        return EXIT_LOST_RANK
    try:
        code = train(group)
        group.close()
        return code
    except (UserError, ArenaError):  # raised on all ranks
        group.close()
        raise
    except (NotFinite, OutOfSync) as error:  # raised on all ranks
        if environment.is_first_on_node():
            print(f"snakes: {error}", file=sys.stderr)
        rank_log.write(str(error))
        group.close()
        wait_for_first_report()
        return 1 if group.backend is None else EXIT_TOGETHER
    except LostRank as error:
        leave(error, group)
    except RuntimeError as error:
        lost = explain(error, group)
        if lost is None:
            raise
        leave(lost, group)


def _train_in_group(plan: ResumePlan, group: "Solo | Ranks", nccl_settings: dict[str, str], end: TrainingEnd) -> int:
    """One rank's training from the plan to the summary, as the owner of the run's folder; returns the exit code.

    Folder and signal are written to `end`.
    """
    plan = plan.with_relaunch(group).with_resolved_config(group)
    check_opponents(plan, group.is_main)
    with RunOwner() as owner:
        plan.take_folder(owner, group)
        return _train_as_owner(plan, group, nccl_settings, end, owner)


def _train_as_owner(
    plan: ResumePlan, group: "Solo | Ranks", nccl_settings: dict[str, str], end: TrainingEnd, owner: RunOwner
) -> int:
    """The same once nobody else can write to the folder of a resumed run; a new one is taken when it is made."""
    from marl.training.checkpointing import build_state
    from marl.training.compile_ahead import compiling_ahead
    from marl.training.outputs import open_outputs
    from marl.training.signals import stop_on_signals
    from marl.training.summary import banner, summarise
    from marl.training.trainer import Trainer

    checkpoint = plan.load_checkpoint(group)
    check_limit(plan, checkpoint)
    plan, cpu = _set_up_cpu(plan, group, checkpoint)
    with compiling_ahead(plan.config, group.device, cpu) if group.world == 1 else nullcontext():
        state = build_state(plan.config, group, checkpoint)
        state.until = plan.until
        message = plan.check_unfinished(checkpoint, state) if checkpoint else ""
        if message:
            if group.is_main and not plan.quiet:
                print(message)
            return 0
        # Nothing is written up to here: if anything does not fit, the run to resume stays as it is.
        outputs = open_outputs(plan, state, cpu, owner)
        end.folder = outputs.folder
        trainer, node = Trainer(state, outputs), NodeLines(group)
        node.begin(outputs.folder)
        with outputs.console:
            outputs.console.banner(banner(trainer, checkpoint, cpu, nccl_settings))
            for line in state.named.warnings([len(slots) for slots in state.rollout.assignment.named]):
                outputs.console.note(f"opponents: {line}", warning=True)
            with stop_on_signals(trainer.request_stop):
                began, trained_before = time.perf_counter(), state.progress.seconds
                ended = trainer.run()
            end.signal = trainer.stop_signal
            node.end(ended, state.progress.episodes)
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


class NodeLines:
    """What a node prints whose ranks do not include rank 0: who its ranks are, how they end. Rank 0 prints the rest.

    Only the first rank of such a node prints; log files get all lines.
    """

    def __init__(self, group: "Solo | Ranks") -> None:
        """A collective."""
        found = environment.read_rank_environment()
        self._main_host = group.broadcast(socket.gethostname())
        self._world = group.world
        self._prints = not group.is_main and environment.is_first_on_node()
        first = group.rank - (found.local_rank if found else 0)
        last = first + (found.local_world if found else 1) - 1
        self._who = f"rank {first}" if first == last else f"ranks {first} to {last}"

    def begin(self, where: object) -> None:
        """where: the folder of the run."""
        self._tell(
            f"{self._who} of {self._world} on {socket.gethostname()}: training {where}; rank 0 on {self._main_host} "
            "prints the progress"
        )

    def end(self, why: str, episodes: int) -> None:
        """why: the reason for which a training has ended, as `Trainer.run` names it."""
        self._tell(f"{self._who} of {self._world} on {socket.gethostname()}: ended by {why} at episode {episodes:,}")

    def _tell(self, text: str) -> None:
        rank_log.write(text)
        if self._prints:
            print(f"snakes: {text}", file=sys.stderr, flush=True)
