"""train --dry_run: everything that a training checks before it starts, and what it would do. Writes nothing."""

import importlib.util
import os
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from arena.rules import TEAM
from marl import plugins
from marl.cli.wording import count
from marl.commands import launch_flags
from marl.commands.train_argv import TrainArgv
from marl.config.evaluation_plan import describe_plan, plan_evaluations
from marl.config.options import Schema
from marl.config.reader import to_yaml
from marl.config.train_config import SAVE_EPISODES, SAVE_SECONDS, TrainConfig, read_config, value_at
from marl.config.values import as_written
from marl.errors import UserError
from marl.ranks import environment
from marl.storage.run_folder import CONFIG
from marl.training.resume_plan import ResumePlan
from marl.training.summary import device_notes, mix_text, schedule_notes

if TYPE_CHECKING:
    from marl.ranks.nodes import Nodes
    from marl.ranks.process_group import Solo
    from marl.storage.checkpoint import Checkpoint
    from marl.training.training_state import TrainingState

MEASURED = ("threads", "onednn")  # at the start of a training on a CPU


class CheckedPlan(NamedTuple):
    """What a training would do."""

    config: TrainConfig  # with a value for every auto but those that are measured at the start
    lines: list[str]  # about it


def dry_run(argv: TrainArgv, plan: ResumePlan) -> int:
    """Check the plan and print it, or its configuration with all chosen values; returns the exit code."""
    checked = check_plan(argv, plan)
    if checked is not None:
        config = plugins.as_yaml() + to_yaml(checked.config)
        print(config if argv.print_config else "\n".join([*checked.lines, ""]), end="")
    return 0


def check_plan(argv: TrainArgv, plan: ResumePlan) -> CheckedPlan | None:
    """Check all that a training checks before it starts; None on ranks but the first."""
    import torch

    from marl.ranks.nodes import ONE_NODE
    from marl.ranks.placement import place
    from marl.ranks.process_group import Solo

    found = environment.read_rank_environment()
    if found is not None:  # under torchrun; one rank reports
        if found.rank:
            return None
        local, world, nodes = found.local_world, found.world, ONE_NODE
    else:
        local, nodes, _ = launch_flags.choose_launch(argv.launch, plan) if argv.launch else (1, ONE_NODE, 0)
        world = local * nodes.most
    backend, device = place(plan.config.ddp.backend, plan.config.device, 0, local, torch.cuda.device_count())
    shares_memory = nodes.most == 1 and plan.config.ddp.backend is None and device.type == "cpu"
    group = Solo(device)
    group.world = world  # for the sizes of one rank of this world
    asked = plan
    plan = plan.with_resolved_config(group)
    about, state = _check(plan, group)
    folder = plan.name_folder()
    rows = _rows(plan, folder, about, state, _ranks(local, nodes, backend, shares_memory))
    chosen = _chosen(asked.config, plan.config)
    lines = [f"{name:15} {value}" for name, value in rows]
    lines += ["chosen for auto:" if chosen else "nothing is auto"]
    lines += [f"  {path:25} {value}" for path, value in chosen.items()]
    lines += ["", f"dry run: nothing was started or written; start it: {argv.command()}"]
    return CheckedPlan(plan.config, lines)


def _check(plan: ResumePlan, group: "Solo") -> tuple[str, "TrainingState"]:
    """Check opponents, checkpoint, networks, memory and folder.

    Returns what would be resumed, if anything, and the state that training would start from.
    """
    from marl.training.checkpointing import build_state

    config = plan.config
    check_opponents(plan)
    _check_wandb(config)
    checkpoint = plan.load_checkpoint(group)
    check_limit(plan, checkpoint)
    state = build_state(config, group, checkpoint)
    message = plan.check_unfinished(checkpoint, state) if checkpoint else ""
    folder = Path(config.runs_dir)
    parent = next(each for each in (folder, *folder.absolute().parents) if each.exists())
    if not parent.is_dir() or not os.access(parent, os.W_OK):
        raise UserError(f"--runs_dir {config.runs_dir}: {parent} cannot be written; choose another")
    if checkpoint is None:
        return "", state
    how = "bit-exactly" if state.is_exact else "with new matches and a new buffer"
    return message or f"{checkpoint.path} (episode {checkpoint.episode:,}), {how}", state


def check_limit(plan: ResumePlan, checkpoint: "Checkpoint | None") -> None:
    """UserError if --max_episodes was lowered to what an unfinished run has passed already: it would end at once."""
    if checkpoint is None or plan.run is None or plan.config.load_model:
        return
    limit = plan.config.schedule.max_episodes
    before = read_config((), plan.run / CONFIG).schedule.max_episodes if (plan.run / CONFIG).is_file() else limit
    if limit < before and limit <= checkpoint.episode:
        raise UserError(
            f"--max_episodes {limit}: {checkpoint.path} has {checkpoint.episode} episodes already; "
            f"resume with --max_episodes above {checkpoint.episode}"
        )


def check_opponents(plan: ResumePlan, is_main: bool = True) -> None:
    """An opponent that does not exist, or that cannot be sandboxed, is an error now, not at the first evaluation."""
    from marl.planning.planned_player import load_player
    from marl.training.named_opponents import check_named, copy_path
    from opponents.players import find
    from opponents.submission import SubmissionOptions

    config, run = plan.config, plan.run
    notify = partial(print, file=sys.stderr) if is_main else None
    submissions = SubmissionOptions(config.evaluation.uncaged, notify=notify)
    check_named(config)
    named = [name for name in config.schedule.shares if run is None or not copy_path(run, name).exists()]
    for name in dict.fromkeys((*config.evaluation.eval_opponents, *named)):
        find(name, load_player, submissions).close()


def _check_wandb(config: TrainConfig) -> None:
    if config.wandb and importlib.util.find_spec("wandb") is None:
        from arena.extras import install_hint

        raise UserError(f"--wandb needs the package wandb (or leave --wandb out); {install_hint('wandb')}")


def _rows(plan: ResumePlan, folder: Path, resumes: str, state: "TrainingState", ranks: str) -> list[tuple[str, str]]:
    config, device, world = plan.config, state.device, state.group.world
    limit = f"{config.schedule.max_episodes:,} episodes"
    if config.max_minutes:
        limit += f", at most {config.max_minutes:g} min"
    saves = f"every {config.save_interval or SAVE_EPISODES:,} episodes"
    if config.save_interval is None:
        saves += f", at least {SAVE_SECONDS:g} s apart"
    keeps = f"the last {config.keep_last} and the best are kept" if config.keep_last else "all are kept"
    rows = [
        ("run", str(folder)),
        ("device", f"{device}, {config.precision}"),
        ("ranks", ranks),
        ("learner", f"{config.algo}, batch {_per_rank(TEAM * state.learner.batch_turns, world)}"),
        ("network", f"{config.network.encoder} -> {' -> '.join(map(str, config.network.body))}"),
        ("matches", _per_rank(config.matches, world)),
        ("length", limit),
        ("opponents", mix_text(config.schedule)),
        ("evaluation", describe_plan(plan_evaluations(config, device.type), config)),
        ("checkpoints", f"{saves}; {keeps}"),
    ]
    rows += [("resumes", resumes)] if resumes else []
    return rows + [("note", note) for note in device_notes(config, device.type) + schedule_notes(config)]


def _per_rank(number: int, world: int) -> str:
    return f"{number:,}" if world == 1 else f"{number:,} per rank, {number * world:,} in all"


def _ranks(local: int, nodes: "Nodes", backend: str, shares_memory: bool) -> str:
    if local == 1 and nodes.most == 1:
        return "1, one process"
    machines = f" on each of {count(nodes.most, 'machine')}" if nodes.most > 1 else ""
    return f"{local}{machines}, over {'shared memory' if shares_memory else backend}"


def _chosen(asked: TrainConfig, config: TrainConfig) -> dict[str, str]:
    """Path -> value of the options that were auto, of this learner."""
    schema, values = Schema(TrainConfig), {}
    learners = schema.chosen_by(schema.options["algo"]).keys() - {config.learner_section}
    for path, option in schema.options.items():
        before, after = (value_at(each, path) for each in (asked, config))
        if option.section in learners or before is not None:
            continue
        if path in MEASURED or after is not None:
            values[path] = "measured at the start" if after is None else as_written(after)
    return values
