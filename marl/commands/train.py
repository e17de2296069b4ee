"""snakes train: train a team, in this process or in many ranks; several seeds; a league."""

from collections.abc import Sequence

from arena.errors import ArenaError
from marl import plugins
from marl.commands import launch_flags
from marl.commands.dry_run import dry_run
from marl.commands.train_argv import TrainArgv, parse_train
from marl.commands.train_help import train_help
from marl.commands.train_here import train_here
from marl.commands.train_league import first_step, train_league
from marl.commands.train_seeds import first_seed, train_seeds
from marl.config.reader import to_yaml
from marl.errors import UserError
from marl.ranks import environment, rank_log
from marl.ranks.orphans import end_with_launcher
from marl.storage.run_owner import check_free
from marl.training.resume_plan import ResumePlan, plan_resume


def run_argv(arguments: Sequence[str]) -> int:
    """Train as the arguments of the command line say; returns the exit code."""
    argv = parse_train(arguments)
    if argv.help is not None:
        print(train_help(argv.help))
        return 0
    if argv.dry_run or argv.print_config:
        argv = first_step(argv) if argv.rounds else first_seed(argv) if argv.seeds else argv
    elif argv.rounds:
        return train_league(argv)
    elif argv.seeds:
        return train_seeds(argv)
    end_with_launcher()
    try:
        return _train(argv, plan_resume(argv.training))
    except (UserError, ArenaError):
        if not environment.is_first_on_node():  # every rank of a node finds the same mistake; one reports it
            return 2
        raise


def _train(argv: TrainArgv, plan: ResumePlan) -> int:
    """One training, or what is asked about it."""
    if argv.dry_run:
        return dry_run(argv, plan)
    if argv.print_config:
        print(plugins.as_yaml() + to_yaml(plan.config), end="")
        return 0
    if not environment.is_rank():
        folder = None if launch_flags.asks_for_nodes(argv.launch) else plan.existing_folder()
        if folder is not None:
            # A second start beside a living one is told at once, before torch is loaded; rank 0 checks again. Not for
            # several nodes: one may join a run that the others train already.
            check_free(folder)
        code = launch_flags.launch_ranks(argv.launch, plan) if argv.launch else None
        if code is not None:
            return code
    with rank_log.recording(argv.launch.get("rank_logs")):
        return train_here(plan).code
