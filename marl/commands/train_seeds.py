"""train --seeds: the same training with several seeds, each in its own process and run folder.

The runs are named NAME_seed1, NAME_seed2, ... A second start with the same --run_name skips the seeds that are done and
resumes those that were cut off. A seed that fails does not stop the others.
"""

import sys
import time
from dataclasses import replace
from pathlib import Path

from marl.cli.arguments import flag_names, refuse_flags
from marl.cli.invocation import command
from marl.cli.wording import count
from marl.commands import launch_flags
from marl.commands.train_argv import SEEDS, TrainArgv, list_seeds
from marl.commands.training_jobs import DONE, TrainingJob, find_room, run_jobs
from marl.config.train_config import TrainConfig, read_config
from marl.errors import UserError
from marl.ranks import environment
from marl.storage.run_folder import GROUP, make_group
from marl.storage.run_names import RUNS_DIR
from marl.training.resume_plan import plan_resume


def first_seed(argv: TrainArgv) -> TrainArgv:
    """The training of the first seed, for --dry_run and --print_config."""
    return _of_seed(argv, _check(argv).run_name or "NAME", argv.seeds[0])


def train_seeds(argv: TrainArgv) -> int:
    """Train all seeds; returns 0 if all are done, 1 if one failed, 128 + signal if the user stopped it."""
    config = _check(argv)
    name = config.run_name or name_now(config)
    argv = argv if config.run_name else argv.with_flags("--run-name", name)
    group = Path(config.runs_dir) / GROUP
    seeds: dict[int, TrainingJob] = {}
    for seed in argv.seeds:
        one = _of_seed(argv, name, seed)
        plan = plan_resume(one.training)
        seeds[seed] = TrainingJob(f"seed {seed}", one.flags, group / seed_run_name(name, seed), plan.config)
    for job in seeds.values():
        if job.is_done():
            job.check_same_settings()
            print(f"{job.name}: done already, {job.result()}", flush=True)
    left, stopped = [job for job in seeds.values() if job.state != DONE], 0
    if left:
        make_group(config.runs_dir)
        room = find_room(argv.launch, plan, argv.side_by_side)
        about = f"runs {group / name}_seed*; {room.describe(len(left))}"
        print(f"seeds {list_seeds(argv.seeds)}: {about}", flush=True)
        stopped = run_jobs(left, room, "seeds")
    not_done = {seed: job for seed, job in seeds.items() if job.state != DONE}
    if not not_done:
        place = [] if config.runs_dir == RUNS_DIR else ["--runs-dir", config.runs_dir]
        print(f"all {count(len(seeds), 'seed')} done; compare them: {command('report', name, *place)}")
        return 0
    if stopped:
        print(f"stopped: {list_seeds(list(not_done))} not done; resume: {argv.command()}")
        return 128 + stopped
    failed = "; ".join(f"{job.name}: {job.problem}" for job in not_done.values())
    failed = f"{len(not_done)} of {count(len(seeds), 'seed')} failed: {failed}"
    print(f"snakes: {failed}; again: {argv.command()}", file=sys.stderr)
    return 1


def name_now(config: TrainConfig) -> str:
    """A name for the runs of seeds that are started now."""
    return f"{config.algo}_{time.strftime('%Y%m%d_%H%M%S')}"


def seed_run_name(name: str, seed: int) -> str:
    """The name of the run of one seed."""
    return f"{name}_seed{seed}"


def _check(argv: TrainArgv) -> TrainConfig:
    """The configuration without seeds; a UserError for what does not go with --seeds."""
    if environment.is_rank():
        raise UserError("--seeds starts processes of its own; start it without torchrun (with --distributed for ranks)")
    if launch_flags.asks_for_nodes(argv.launch):
        raise UserError("--seeds trains on one machine; on several, start one training per seed (--seed)")
    refuse_flags(argv.training, ("--resume", "--load-model"), SEEDS, "the same --run_name resumes its seeds")
    if "--seed" in flag_names(argv.training):
        raise UserError("--seed and --seeds both say the seed; leave one out")
    return read_config(argv.training)


def _of_seed(argv: TrainArgv, name: str, seed: int) -> TrainArgv:
    """The command line of the training of one seed."""
    alone = replace(argv, seeds=(), side_by_side=None)
    return alone.with_flags("--seed", str(seed), "--run-name", seed_run_name(name, seed))
