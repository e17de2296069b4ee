"""All options of a training run with their defaults, and their values from YAML files and flags.

A value of None is shown as `auto`: autoscale.py chooses it for the device of the run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, Literal

from arena.rules import TURNS
from marl import plugins
from marl.config import reader
from marl.config.learner_configs import DdpgConfig, PpoConfig, QLearningConfig
from marl.config.named_configs import config_names, defaults_of, find_config
from marl.config.options import OldNames, section_of
from marl.config.sections import DistributedConfig, EvalConfig, NetworkConfig, RewardConfig
from marl.config.values import Choices, at_least, between, check_ranges
from marl.config.yaml_file import Layer, read_yaml
from marl.errors import UserError
from marl.registry import LEARNERS
from opponents.scheduler import ScheduleConfig

CONFIG_VERSION = 1
# For the help text.
ABOUT_LEARNERS = (
    ("ddpg", "DDPG for discrete moves: off-policy, with a replay buffer"),
    ("maddpg", "MADDPG: DDPG with a team critic"),
    ("matd3", "MATD3: two team critics, smoothed targets, delayed actor"),
    ("ppo", "PPO: on-policy, stronger; on a GPU also faster"),
    ("ppo_lstm", "PPO with an LSTM in the network"),
    ("mappo", "MAPPO: PPO with a central critic"),
    ("vdn", "VDN: Q-learning, the snakes' Q-values add up to the team's"),
    ("qmix", "QMIX: Q-learning, a monotonic network mixes Q-values"),
)
# The options that matter most, by subject, for the short help text.
MAIN_OPTIONS: Mapping[str, Sequence[str]] = {
    "Length": ("schedule.max_episodes", "max_minutes"),
    "Opponents": ("schedule.strategy", "schedule.opponents", "schedule.self_play"),
    "Team and reward": ("network.encoder", "network.model_size", "reward.preset"),
    "Learner": ("algo", "ppo.lr", "ddpg.a_lr", "ddpg.c_lr", "qlearning.q_lr"),
    "Machine": ("device", "matches", "threads", "seed"),
    "Run": ("run_name", "runs_dir", "resume", "save_interval"),
    "Evaluation": ("evaluation.eval_opponents", "evaluation.eval_interval"),
}
MAX_SEED = 10**18  # torch and the arena count in 64 bits
# Options that a resumed run does not take over from its saved configuration.
NOT_RESUMED = (
    "device", "runs_dir", "run_name", "resume", "load_model", "load_model_run", "load_model_run_episode",
    "init_from", "profile",
)  # fmt: skip
# Further plain names of the command line.
ALIASES: Mapping[str, str] = {
    "opponent_difficulty_strategy": "schedule.strategy",
    "algorithm": "algo",
    "trust": "evaluation.uncaged",  # as in eval, export and league
}
# The option whose value chooses the section of a plain name that several sections have.
PREFER = "algo"
# Option -> options of other learners with the same purpose, for the message about a flag that is not read.
COUNTERPARTS: Mapping[str, Sequence[str]] = {
    "ppo.lr": ("ddpg.a_lr", "ddpg.c_lr", "qlearning.q_lr"),
    "ddpg.a_lr": ("ppo.lr", "qlearning.q_lr"),
    "ddpg.c_lr": ("ppo.lr", "qlearning.q_lr"),
    "qlearning.q_lr": ("ppo.lr", "ddpg.a_lr", "ddpg.c_lr"),
    "ppo.update_interval": ("ddpg.turns", "qlearning.turns"),
    "ddpg.turns": ("ppo.update_interval",),
    "ppo.epochs": ("ddpg.updates", "qlearning.updates"),
    "ddpg.updates": ("ppo.epochs",),
    "ppo.gae_lambda": ("ddpg.n_step", "qlearning.n_step"),
    "ddpg.n_step": ("ppo.gae_lambda",),
    "ddpg.epsilon": ("ppo.entropy",),
    "ddpg.epsilon_min": ("ppo.entropy_end",),
}
# Between two checkpoints with save_interval auto. 16 ranks play 1,000 episodes in half a second, and writing takes
# their cores.
SAVE_EPISODES, SAVE_SECONDS = 1_000, 5.0
# Old configurations and command lines still work.
OLD_NAMES = OldNames(
    paths={"network.memory": "network.lstm_size", "ddpg.even": "ddpg.uniform_kl", "ppo.even": "ppo.uniform_kl"},
    values={"network.encoder": {"turned": "canonical"}},
    retired={
        "episode_length": (TURNS, "the game's own length"),
        "fused": (True, "the option is gone: edits in marl/learners count; --compile off runs them as they stand"),
        "packed": (True, "the option is gone: observations are kept as the encoder writes them"),
        "ddp.exact_ranks": (
            False,
            "the option is gone: weights on other numbers of ranks differ by rounding; leave it out, and add "
            "--exact_ranks false to resume a run that had it",
        ),
        "fault_tolerant": (
            False,
            "the option is gone: use --max_restarts N, which starts all ranks again from the last checkpoint",
        ),
    },
)


@dataclass(frozen=True)
class TrainConfig:
    """A training run."""

    config_version: int = CONFIG_VERSION
    """Version of the option names; a file of another version is refused."""
    algo: Annotated[str, Choices(LEARNERS), ABOUT_LEARNERS] = "ddpg"
    """The learner."""
    seed: int = 1
    """Seed of everything random."""
    device: str = "auto"
    """cpu, cuda, cuda:1, ... (auto: a GPU if there is one)."""
    precision: Literal["fp32", "bf16", "fp16"] | None = None
    """Number format of the matrix products (auto: bf16 on a GPU that supports it, else fp32)."""
    matches: int | None = None
    """Matches played in parallel, per rank; half as red, half as blue (auto: 256 for the whole run, split over the
    ranks; with ppo 512; GPU 4096, with ppo 8192)."""
    mask_reversal: bool = True
    """Never choose the reversal of the snake's direction, which the game replaces by a random move."""
    max_minutes: float = 0.0
    """Stop after this many minutes of training; 0: no time limit."""
    max_utilization: bool = False
    """`auto` chooses the largest sizes that the device can hold, not those that learn best per second.
    These sizes are per rank."""
    compile: Literal["auto", "on", "off"] = "auto"
    """How the text of the learner (marl/learners) runs. auto: on a CPU, for dense networks of ppo and ddpg, by compiled
    passes that are compared with the text at every start; on a GPU, compiled by torch in a run of at least 20,000
    updates. on: on a GPU always compiled. off: as it stands."""
    graphs: bool = True
    """On a GPU, run turns and updates as CUDA graphs."""
    threads: int | None = None
    """Busy threads of a rank on a CPU, at most (auto: OMP_NUM_THREADS if set, else the fastest number in a
    measurement of about a second, which is kept per machine and configuration in ~/.cache/snakes_3v3)."""
    onednn: bool | None = None
    """Matrix products by oneDNN on a CPU; it rounds differently (auto: on; on ARM only if clearly faster in a
    measurement, which is kept like that of `threads`)."""
    log_interval: int = 1_000
    """Episodes between two log lines."""
    save_interval: int | None = None
    """Episodes between two checkpoints (auto: 1000 and at least 5 s)."""
    keep_last: int = 3
    """Checkpoints to keep in addition to `best`; 0: all."""
    milestones: int = 0
    """Episodes between two checkpoints that are always kept; 0: none."""
    save_buffer: int = 256
    """Limit in MiB, per rank: up to this size the newest checkpoint also holds the matches and the replay buffer, and a
    resumed run continues bit by bit; older ones do only if that takes at most 8 MiB in all. Without them, a resumed run
    starts new matches and fills its buffer again."""
    profile: bool = False
    """Record a few cycles of this start with torch's profiler, on every rank: RUN/profile/rank0.json.gz, a trace for
    Perfetto."""
    runs_dir: str = "runs"
    """Parent folder of the run folders."""
    run_name: str | None = None
    """Name of the run folder (auto: run<N>_<time>)."""
    resume: str = "auto"
    """auto: resume the run named run_name if it exists. never: start a new run. last: resume the run started last. Or
    the folder, name or number (run7) of a run, or the folder of a checkpoint."""
    init_from: str | None = None
    """Start a new run from the weights of this player's policy (a champion, run, checkpoint or snapshot), which must be
    of the same encoder and network; with ppo and ppo_lstm (auto: new weights)."""
    load_model: bool = False
    """Start a new run from a checkpoint: that of the run and episode in the next two options."""
    load_model_run: int | None = None
    """Number N of run<N> for load_model (auto: the newest)."""
    load_model_run_episode: int | None = None
    """Episode of the checkpoint for load_model (auto: the last)."""
    wandb: bool = False
    """Log to Weights & Biases as well."""
    schedule: ScheduleConfig = field(default_factory=ScheduleConfig)
    network: NetworkConfig = field(default_factory=NetworkConfig)
    reward: RewardConfig = field(default_factory=RewardConfig)
    ddpg: DdpgConfig = field(default_factory=DdpgConfig)
    ppo: PpoConfig = field(default_factory=PpoConfig)
    qlearning: QLearningConfig = field(default_factory=QLearningConfig)
    evaluation: EvalConfig = field(default_factory=EvalConfig)
    ddp: DistributedConfig = field(default_factory=DistributedConfig)

    def __post_init__(self) -> None:
        check_ranges(
            "",
            self,
            seed=between(0, MAX_SEED),
            max_minutes=at_least(0),
            threads=at_least(1),
            log_interval=at_least(1),
            save_interval=at_least(1),
            keep_last=at_least(0),
            milestones=at_least(0),
            save_buffer=at_least(0),
        )
        if self.config_version != CONFIG_VERSION:
            raise UserError(f"config_version is {self.config_version}; this program reads version {CONFIG_VERSION}")
        if self.matches is not None and (self.matches < 2 or self.matches % 2):
            raise UserError(f"matches is {self.matches}; allowed: an even number from 2, half red and half blue")
        if not self.load_model and (self.load_model_run, self.load_model_run_episode) != (None, None):
            raise UserError("load_model_run and load_model_run_episode say what to load; add --load_model")
        if not hasattr(self, self.learner_section):
            raise UserError(
                f"algo {self.algo} has no section of options; its file says which it reads: "
                f'marl.registry.SECTIONS["{self.algo}"] = "ppo", "ddpg" or "qlearning"'
            )
        if self.init_from is not None and (self.load_model or self.learner_section != "ppo"):
            with_it = "load_model" if self.load_model else f"algo {self.algo}"
            raise UserError(f"init_from is {self.init_from}; not allowed with {with_it}")
        if self.load_model and self.resume not in ("auto", "never"):
            raise UserError(f"load_model and resume {self.resume} both name a run to start from; give one of them")

    @property
    def learner_section(self) -> str:
        """The section with the options of the learner, like ddpg or ppo."""
        return section_of(self.algo, {field.name for field in fields(self)})


def read_config(argv: Sequence[str], saved: Path | None = None, unread_flags: bool = False) -> TrainConfig:
    """The defaults, changed by those of the learner (configs/NAME.yaml), then by the saved configuration of a run if
    given, then by `--config FILE`, then by flags.

    A flag that the learner does not read is a UserError. With `unread_flags` it is not: the learner may still change.
    What the words and the files import is imported first; the saved configuration of a run imports nothing.
    """
    names, argv = plugins.split_imports(argv)
    plugins.import_plugins(names)
    files, flags = _config_files(argv)
    layers = [_after_imports(read_yaml(find_config(name))) for name in files]
    if saved is not None:
        layer = read_yaml(saved)
        kept = {name: value for name, value in layer.values.items() if name not in NOT_RESUMED}
        layers.insert(0, Layer(layer.source, kept))
    counterparts = None if unread_flags else COUNTERPARTS
    return reader.read(TrainConfig, flags, ALIASES, PREFER, layers, OLD_NAMES, counterparts, _learner_defaults)


def _after_imports(layer: Layer) -> Layer:
    """The settings of a file without `import`, after that."""
    if plugins.KEY not in layer.values:
        return layer
    plugins.import_plugins(plugins.as_names(layer.values[plugins.KEY], layer.source))
    return Layer(layer.source, {name: value for name, value in layer.values.items() if name != plugins.KEY})


def _learner_defaults(algo: str) -> Layer | None:
    """The configuration with the name of the learner, if there is one."""
    file = defaults_of(algo)
    return None if file is None else read_yaml(file)


def _config_files(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    """The files and names of `--config`, and all other arguments."""
    files, flags, rest = [], [], list(argv)
    while rest:
        word = rest.pop(0)
        if word == "--config":
            if not rest:
                raise UserError(f"--config needs a file or a name: {', '.join(config_names())}")
            files.append(rest.pop(0))
        elif word.startswith("--config="):
            files.append(word.partition("=")[2])
        else:
            flags.append(word)
    return files, flags


def value_at(config: TrainConfig, path: str) -> Any:
    """The value of an option by its path, like `ppo.lr`."""
    section, _, name = path.rpartition(".")
    return getattr(getattr(config, section) if section else config, name)
