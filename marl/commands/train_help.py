"""The help of `train`: the flags that matter most, or with `--help all` every flag."""

import textwrap

from marl.cli.invocation import command
from marl.commands.train_argv import ROUNDS
from marl.config.help import WIDTH, help_text, short_help_text
from marl.config.named_configs import about_configs
from marl.config.options import Schema
from marl.config.train_config import ALIASES, MAIN_OPTIONS, PREFER, TrainConfig
from marl.errors import UserError
from marl.registry import LEARNERS

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
