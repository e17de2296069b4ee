"""Everything a training run can be told, with its defaults. config_reader.py fills it from YAML files and flags.

A value of None is shown as `auto`: autoscale.py chooses it for the device the run is on.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from arena.rules import TURNS
from marl import config_reader
from marl.errors import UserError
from opponents.scheduler import ScheduleConfig

CONFIG_VERSION = 1
MAX_SEED = 10**18  # torch and the arena count in 64 bits
# What a run that goes on does not take over from the one before.
WHERE_FROM = (
    "device", "runs_dir", "run_name", "resume", "load_model", "load_model_run", "load_model_run_episode",
)  # fmt: skip
# Names of the command line that are not the field's own.
ALIASES: Mapping[str, str] = {"opponent_difficulty_strategy": "schedule.strategy"}


@dataclass(frozen=True)
class NetworkConfig:
    """The networks of the team; its three snakes share them."""

    encoder: Literal["features", "planes"] | None = None
    """What a snake sees: a compact vector (auto on a CPU) or the whole board around its head (auto on a GPU)."""
    body: tuple[int, ...] | None = None
    """Widths of the dense layers (auto: 128,128 on a CPU, 512,256 on a GPU)."""

    def __post_init__(self) -> None:
        if self.body is not None and (not self.body or min(self.body) < 1):
            raise UserError(f"network.body is {','.join(map(str, self.body))}; allowed: widths from 1, like 128,128")


@dataclass(frozen=True)
class RewardConfig:
    """What a snake is rewarded for each turn. Lengths change by +1 for a bean and fall back at a death."""

    own: float = 1.0
    """Weight of the change of the own length: alone, this is the game's plain reward."""
    mates: float = 0.15
    """Weight of the change of the two mates' lengths."""
    foes: float = 0.15
    """Weight of the change of the three foes' lengths; counts against the snake."""
    eat: float = 0.0
    """Extra for eating a bean."""
    die: float = 0.0
    """Extra cost of dying."""
    lead: float = 0.0
    """Each turn: for leading; as much against the snake for trailing."""
    win: float = 0.0
    """At the end: for winning; as much against the snake for losing."""

    def weights(self) -> list[float]:
        """In the order of the columns in turn_loops.py."""
        return [self.own, self.mates, self.foes, self.eat, self.die, self.lead, self.win]


@dataclass(frozen=True)
class DdpgConfig:
    """DDPG for discrete moves."""

    batch_size: int | None = None
    """Snake transitions in a batch, per rank; rounded up to whole turns of three snakes (auto: 1024, GPU 8192)."""
    buffer_size: int | None = None
    """Snake transitions kept, per rank (auto: 1 million, GPU 2 million, less where memory is short)."""
    turns: int | None = None
    """Turns played between updates (auto: 4)."""
    updates: int | None = None
    """Updates after these turns (auto: 3, GPU 10)."""
    warmup_turns: int = 100
    """Turns in the buffer before the first update."""
    gamma: float = 0.97
    """Discount of a turn."""
    n_step: int = 3
    """Turns of real rewards in a target before the critic is asked."""
    tau: float = 0.01
    """Share of the networks that goes into the target networks at each update."""
    a_lr: float = 1e-3
    """Learning rate of the actor."""
    c_lr: float = 1e-3
    """Learning rate of the critic."""
    lr_end: float = 1.0
    """Share of the learning rates that is left at the end of the run; they fall in a straight line."""
    epsilon: float = 0.5
    """Share of random moves at the start, on top of drawing moves from the actor's softmax."""
    epsilon_speed: float = 0.9995
    """Epsilon is multiplied by this at every episode."""
    epsilon_min: float = 0.02
    """Epsilon falls no lower."""
    entropy: float = 0.01
    """Weight of the actor's entropy: keeps it from settling too early."""
    critic: Literal["snake", "team"] = "snake"
    """What the critic sees: one snake's observation, or the whole team's and the mates' moves."""
    critic_form: Literal["heads", "joined"] = "heads"
    """heads: one value per move, so that the actor's loss is the expectation over its moves; joined: the classic critic
    that reads the move probabilities behind its first layer."""
    twin: bool = False
    """Two critics, the lower one as target."""
    max_grad_norm: float = 10.0
    """Gradients are scaled down to this norm; 0 leaves them alone."""

    def __post_init__(self) -> None:
        _check(
            "ddpg",
            self,
            ("batch_size", _from(1)),
            ("buffer_size", _from(1)),
            ("turns", _from(1)),
            ("updates", _from(1)),
            ("warmup_turns", _from(1)),
            ("n_step", _from(1)),
            ("gamma", _between(0, 1)),
            ("tau", _between(0, 1)),
            ("a_lr", _from(0)),
            ("c_lr", _from(0)),
            ("lr_end", _between(0, 1)),
            ("epsilon", _between(0, 1)),
            ("epsilon_speed", _between(0, 1)),
            ("epsilon_min", _between(0, 1)),
            ("entropy", _from(0)),
            ("max_grad_norm", _from(0)),
        )


@dataclass(frozen=True)
class EvalConfig:
    """Real matches with the best moves, played during training."""

    eval_interval: int = 5_000
    """Episodes between two evaluations; 0 for none but the last."""
    eval_matches: int = 200
    """Matches against each opponent, sides swapped halfway."""
    eval_opponents: tuple[str, ...] = ("level0", "level1", "level2", "level3")
    """Whom to play; the mean share of the points chooses `best`."""

    def __post_init__(self) -> None:
        _check("evaluation", self, ("eval_interval", _from(0)), ("eval_matches", _from(1)))
        if not self.eval_opponents:
            raise UserError("evaluation.eval_opponents is empty; allowed: names of players, like level1,level2")


@dataclass(frozen=True)
class DistributedConfig:
    """Many ranks that train one team."""

    backend: Literal["nccl", "gloo"] | None = None
    """How ranks talk (auto: nccl with GPUs on Linux, else gloo)."""
    timeout: float = 300.0
    """Seconds after which a rank that does not answer ends the run."""
    sync_freq: int = 1
    """Batches whose gradients are added up before ranks exchange them and step."""
    lr_scaling: Literal["none", "linear", "sqrt"] = "none"
    """How learning rates grow with the number of ranks."""
    lr_warmup: int = 0
    """Updates over which learning rates rise to their full value."""
    check_sync: int = field(default=0, metadata={"bare": 100})
    """Compare all parameters over the ranks every so many updates (alone: 100; 0: never)."""

    def __post_init__(self) -> None:
        _check(
            "ddp",
            self,
            ("timeout", _from(1)),
            ("sync_freq", _from(1)),
            ("lr_warmup", _from(0)),
            ("check_sync", _from(0)),
        )


@dataclass(frozen=True)
class TrainConfig:
    """A training run."""

    config_version: int = CONFIG_VERSION
    """Of the names in here; a file that was written for other ones is refused."""
    algo: Literal["ddpg"] = "ddpg"
    """Which learner."""
    seed: int = 1
    """Everything random follows from it."""
    device: str = "auto"
    """cpu, cuda, cuda:1, ... (auto: a GPU if there is one)."""
    precision: Literal["fp32", "bf16", "fp16"] | None = None
    """Of the matrix products (auto: bf16 on a GPU that has it, else fp32)."""
    matches: int | None = None
    """Matches played at once, per rank; half as red, half as blue (auto: 256, GPU 4096)."""
    episode_length: int = TURNS
    """Turns of a match: the game has 200."""
    max_minutes: float = 0.0
    """Stop after so many minutes of training; 0 for no such limit."""
    max_utilization: bool = False
    """Let `auto` choose the largest that the device holds, not what learns best per second."""
    graphs: bool = True
    """On a GPU, run turns and updates as CUDA graphs."""
    log_interval: int = 1_000
    """Episodes between two log lines."""
    save_interval: int = 1_000
    """Episodes between two checkpoints."""
    keep_last: int = 3
    """Checkpoints to keep beside `best`; 0 for all."""
    milestones: int = 0
    """Keep also one checkpoint of every so many episodes; 0 for none. Best a multiple of save_interval."""
    save_buffer: int = 512
    """MiB: matches and buffer of each rank are saved up to this size, and a resumed run goes on to the bit; beyond it,
    it starts new matches and fills its buffer again."""
    runs_dir: str = "runs"
    """Where run folders go."""
    run_name: str | None = None
    """Name of the run folder (auto: run<N>_<time>)."""
    resume: str = "auto"
    """auto: go on if a run of this run_name is there; never; or a run folder or checkpoint to go on from."""
    load_model: bool = False
    """Go on from the run and episode that the next two name."""
    load_model_run: int | None = None
    """Number N of run<N> for load_model (auto: the newest)."""
    load_model_run_episode: int | None = None
    """Episode of its checkpoint for load_model (auto: the last)."""
    wandb: bool = False
    """Log to Weights & Biases as well."""
    schedule: ScheduleConfig = field(default_factory=ScheduleConfig)
    network: NetworkConfig = field(default_factory=NetworkConfig)
    reward: RewardConfig = field(default_factory=RewardConfig)
    ddpg: DdpgConfig = field(default_factory=DdpgConfig)
    evaluation: EvalConfig = field(default_factory=EvalConfig)
    ddp: DistributedConfig = field(default_factory=DistributedConfig)

    def __post_init__(self) -> None:
        _check(
            "",
            self,
            ("seed", _between(0, MAX_SEED)),
            ("max_minutes", _from(0)),
            ("log_interval", _from(1)),
            ("save_interval", _from(1)),
            ("keep_last", _from(0)),
            ("milestones", _from(0)),
            ("save_buffer", _from(0)),
        )
        if self.config_version != CONFIG_VERSION:
            raise UserError(f"config_version is {self.config_version}; this program reads version {CONFIG_VERSION}")
        if self.episode_length != TURNS:
            raise UserError(f"episode_length is {self.episode_length}; allowed: {TURNS}, the game's own length")
        if self.matches is not None and (self.matches < 2 or self.matches % 2):
            raise UserError(f"matches is {self.matches}; allowed: an even number from 2, half red and half blue")
        if not self.load_model and (self.load_model_run, self.load_model_run_episode) != (None, None):
            raise UserError("load_model_run and load_model_run_episode say what to load; add --load_model")
        if self.load_model and self.resume not in ("auto", "never"):
            raise UserError(f"load_model and resume {self.resume} both say where to go on; give one of them")


def read_config(words: Sequence[str], saved: Path | None = None) -> TrainConfig:
    """The configuration that flags ask for, `--config FILE` among them, on top of a saved one's if that is given."""
    files, flags = _config_files(words)
    layers = [config_reader.read_yaml(path) for path in files]
    if saved is not None:
        layer = config_reader.read_yaml(saved)
        kept = {name: value for name, value in layer.values.items() if name not in WHERE_FROM}
        layers.insert(0, config_reader.Layer(layer.source, kept))
    return config_reader.read(TrainConfig, flags, ALIASES, "algo", layers)


def _config_files(words: Sequence[str]) -> tuple[list[str], list[str]]:
    files, flags, rest = [], [], list(words)
    while rest:
        word = rest.pop(0)
        if word == "--config":
            if not rest:
                raise UserError("--config needs a file, like configs/quick.yaml")
            files.append(rest.pop(0))
        elif word.startswith("--config="):
            files.append(word.partition("=")[2])
        else:
            flags.append(word)
    return files, flags


def _from(least: float):
    return (lambda value: value >= least), f"from {least:g}"


def _between(least: float, most: float):
    return (lambda value: least <= value <= most), f"from {least:g} to {most:g}"


def _check(section: str, config: object, *rules: tuple) -> None:
    for name, (fits, allowed) in rules:
        value = getattr(config, name)
        if value is not None and not fits(value):
            raise UserError(f"{section and section + '.'}{name} is {value}; allowed: {allowed}")
