"""snakes train: train a team, in this process or in many ranks; several seeds; a league. And its help."""

import textwrap
from collections.abc import Sequence

from arena.errors import ArenaError
from marl import plugins
from marl.cli.invocation import command
from marl.commands import launch_flags
from marl.commands.dry_run import dry_run
from marl.commands.train_argv import ROUNDS, TrainArgv, parse_train
from marl.commands.train_here import train_here
from marl.commands.train_league import first_step, train_league
from marl.commands.train_seeds import first_seed, train_seeds
from marl.config.help import WIDTH, help_text, short_help_text
from marl.config.named_configs import about_configs
from marl.config.options import Schema
from marl.config.reader import to_yaml
from marl.config.train_config import ALIASES, MAIN_OPTIONS, PREFER, TrainConfig
from marl.errors import UserError
from marl.ranks import environment, rank_log
from marl.ranks.exits import end_with_launcher, wait_for_first_report
from marl.registry import LEARNERS
from marl.storage.run_owner import check_free
from marl.training.resume_plan import ResumePlan, plan_resume

USAGE = """usage: {train} [--config NAME] [flags]

Train a team of three snakes. Without flags: good defaults for this machine.

{configs}
  --import MODULE             import own code first, a module or a .py file; again for several: docs/extend.md
  --print_config              print the configuration as YAML and quit; with --dry_run also the values chosen for auto
  --dry_run                   check everything and print what would be done; start and write nothing
  --seeds 1-10                several seeds, each in a run of its own; the command `report` compares runs
  --league 4                  in rounds against frozen copies of itself and of exploiters: docs/opponents.md
  --help all                  every flag; --help SECTION those of one section:
                              {sections}
"""
SHORT_RANKS_HELP = """Ranks (or by torchrun -m marl train ..., which needs none of these):
  --distributed               start one rank per GPU; without a GPU one per core, up to 16 (below 4 cores one process);
                              NPROC=N fixes the number
  --num_gpus N                start N ranks on N GPUs
"""
RANKS_HELP = f"""{SHORT_RANKS_HELP.rstrip()}
  --nnodes N --node_rank K    several machines, or 1:4 if they may come and go; also NNODES and NODE_RANK
  --master_addr A             address of machine 0; also MASTER_ADDR
  --master_port P             a port that is free there; also MASTER_PORT
  --max_restarts N            start all ranks again from the last checkpoint if one fails, this often
  --rank_logs DIR             write DIR/rank_0.log, DIR/rank_1.log, ...: what each rank does and measures, how it ends
"""
SEEDS_HELP = """Several seeds:
  --seeds 1-10                train each of these seeds (also 1,2,5), in runs NAME_seed1, ... with --run_name NAME; a
                              second start skips the seeds that are done and resumes the others; see report --help
  --side_by_side N            of them at a time (default: cores / (ranks x threads), on GPUs one per GPU)
"""
LEAGUE_HELP = f"""League training:
  --league [ROUNDS]           train the team in rounds (default: {ROUNDS}) against itself, the schedule and a league of
                              frozen copies of itself and of exploiters; with --run_name NAME the same command goes on
"""
ALL = "all"


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
            wait_for_first_report()
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


def train_help(topic: str) -> str:
    """The help text about a section, about all flags, or without a topic the short one."""
    sections = [section for section in Schema(TrainConfig).sections if section]
    usage = USAGE.format(train=command("train"), configs=_configs(), sections=", ".join(sections))
    if topic == ALL:
        starts = f"{RANKS_HELP}\n{SEEDS_HELP}\n{LEAGUE_HELP}"
        return f"{usage}\n{starts}\n{help_text(TrainConfig, ALIASES, PREFER)}"
    if topic in sections:
        return help_text(TrainConfig, ALIASES, PREFER, [topic])
    if topic:
        raise UserError(f"--help {topic}: unknown; known: {ALL}, {', '.join(sections)}")
    main = short_help_text(TrainConfig, MAIN_OPTIONS, ALIASES, PREFER)
    end = "Every option is a flag or a line of a YAML file; flags override files, later files override earlier ones."
    return f"{usage}\n{main}\n\n{SHORT_RANKS_HELP}\n{end}"


def _configs() -> str:
    about = {name: text for name, text in about_configs().items() if name not in LEARNERS}  # those are told by --algo
    width = max(map(len, about), default=0)
    rows = ["  --config NAME               read a configuration: a YAML file, or one of these by name:"]
    for name, text in about.items():
        first, *others = textwrap.wrap(text, WIDTH - width - 8, break_on_hyphens=False) or [""]
        rows += [f"{'':6}{name:{width}}  {first}", *(" " * (width + 8) + line for line in others)]
    return "\n".join(rows)
