"""Everything a training run can be told, with its defaults. reader.py fills it from YAML files and flags.

A value of None is shown as `auto`: autoscale.py chooses it for the device the run is on.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from arena.rules import TURNS
from marl.config import reader
from marl.errors import UserError
from opponents.scheduler import ScheduleConfig

CONFIG_VERSION = 1
MAX_SEED = 10**18  # torch and the arena count in 64 bits
# What a run that goes on does not take over from the one before.
WHERE_FROM = (
    "device", "runs_dir", "run_name", "resume", "load_model", "load_model_run", "load_model_run_episode",
)  # fmt: skip
MODEL_SIZES = {"tiny": (64, 64), "small": (128, 128), "medium": (256, 128), "large": (512, 256), "huge": (1024, 512)}
# Names of the command line that are not the field's own.
ALIASES: Mapping[str, str] = {"opponent_difficulty_strategy": "schedule.strategy"}


@dataclass(frozen=True)
class NetworkConfig:
    """The networks of the team; its three snakes share them."""

    encoder: Literal["features", "canonical", "planes"] | None = None
    """What a snake sees: features, a compact vector; turned, the same with the board held so that the snake looks up
    and its nearest bean is not on the left (auto on a CPU); planes, the whole board around its head (auto on a GPU)."""
    kind: Literal["mlp", "cnn"] = "mlp"
    """What reads it: a dense layer, or convolutions over the board, which go across its edges (planes only)."""
    channels: tuple[int, ...] = (32, 32)
    """Of the convolutions of kind cnn."""
    model_size: Literal["tiny", "small", "medium", "large", "huge"] | None = None
    """Widths of the body by name: 64,64, 128,128, 256,128, 512,256 or 1024,512."""
    body: tuple[int, ...] | None = None
    """Widths of the dense layers (auto: 128,128 on a CPU, 512,256 on a GPU)."""
    messages: bool = False
    """The three snakes tell each other what they see, behind the first layer of the actor's body."""
    lstm_size: int = 128
    """Width of the LSTM behind the body (ppo_lstm only)."""

    def __post_init__(self) -> None:
        for name in ("body", "channels"):
            widths = getattr(self, name)
            if widths is not None and (not widths or min(widths) < 1):
                raise UserError(f"network.{name} is {','.join(map(str, widths))}; allowed: widths from 1, like 128,128")
        if self.body is not None and self.model_size is not None and self.body != MODEL_SIZES[self.model_size]:
            raise UserError("network.body and network.model_size both say how wide the network is; give one of them")
        if self.kind == "cnn" and self.encoder in ("features", "canonical"):
            raise UserError("network.kind is cnn, which reads a board; allowed with it: network.encoder planes")
        _check("network", self, ("lstm_size", _from(1)))


@dataclass(frozen=True)
class RewardConfig:
    """What a snake is rewarded for each turn. Lengths change by +1 for a bean and fall back at a death."""

    preset: Literal["score", "team", "win", "shaped"] = "team"
    """Weights that are left to it: score is the own length alone, the game's plain reward; team adds mates and foes;
    win is the result alone; shaped rewards eating, leading and winning and punishes dying, too."""
    own: float | None = None
    """Weight of the change of the own length (score, team, shaped: 1)."""
    mates: float | None = None
    """Weight of the change of the two mates' lengths (team, shaped: 0.15)."""
    foes: float | None = None
    """Weight of the change of the three foes' lengths; counts against the snake (team, shaped: 0.15)."""
    eat: float | None = None
    """Extra for eating a bean (shaped: 0.2)."""
    die: float | None = None
    """Extra cost of dying (shaped: 0.5)."""
    lead: float | None = None
    """Each turn: for leading; as much against the snake for trailing (shaped: 0.01)."""
    win: float | None = None
    """At the end: for winning; as much against the snake for losing (win: 10, shaped: 3)."""
    zero_sum: bool = False
    """Subtract the mean reward of the three foes: what one team gains the other loses."""

    def weights(self) -> list[float]:
        """In the order of the columns in turn_loops.py."""
        names = ("own", "mates", "foes", "eat", "die", "lead", "win")
        given = (getattr(self, name) for name in names)
        chosen = [preset if own is None else own for own, preset in zip(given, REWARDS[self.preset], strict=True)]
        return [*chosen, float(self.zero_sum)]


# Preset -> own, mates, foes, eat, die, lead, win.
REWARDS = {
    "score": (1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0),
    "team": (1.0, 0.15, 0.15, 0.0, 0.0, 0.0, 0.0),
    "win": (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 10.0),
    "shaped": (1.0, 0.15, 0.15, 0.2, 0.5, 0.01, 3.0),
}


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
    uniform_kl: float | None = None
    """Weight of what holds the actor to an even choice among the legal moves, as with PPO, but to the end (auto: 0.02
    with an encoder that holds the board in a frame, else 0)."""
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
            ("uniform_kl", _from(0)),
            ("max_grad_norm", _from(0)),
        )


@dataclass(frozen=True)
class PpoConfig:
    """PPO: learns from what was just played, and forgets it."""

    update_interval: int | None = None
    """Env steps (turns of all matches of all ranks) between two rounds of updates (auto: 16 turns of each match)."""
    batch_size: int | None = None
    """Snake turns in a batch, per rank; what was played is dealt out in equal batches of about this size (auto: 3072,
    GPU 65536). ppo_lstm deals out whole teams with all their turns."""
    epochs: int = 1
    """How often each turn is learned from."""
    gamma: float = 0.97
    """Discount of a turn."""
    gae_lambda: float = 0.9
    """How far advantages look past the critic's word: 0 one turn, 1 to the end."""
    clip: float = 0.2
    """A move whose chance has changed by more than this share is not pushed further."""
    value_clip: float = 0.0
    """As far as a value may move from what was said when it was played; 0: anywhere."""
    value_weight: float = 0.5
    """Weight of the value's loss beside the policy's."""
    entropy: float = 0.005
    """Weight of the entropy at the start: keeps the policy from settling too early."""
    entropy_end: float = 0.0005
    """Weight of the entropy at the end; it changes in a straight line."""
    uniform_kl: float | None = None
    """Weight, at the start, of what holds the policy to an even choice among the legal moves (its cross entropy); it
    falls to 0 in a straight line. Unlike entropy's its pull does not fade for a move that is nearly given up: where the
    board is held in a frame one side is seldom good, and must not be forgotten for it (auto: 0.02 with such an encoder,
    else 0)."""
    lr: float | None = None
    """Learning rate (auto: 0.003, GPU 0.002)."""
    lr_end: float = 0.1
    """Share of the learning rate that is left at the end of the run; it falls in a straight line."""
    max_grad_norm: float = 0.5
    """Gradients are scaled down to this norm; 0 leaves them alone."""
    target_kl: float = 0.0
    """Once the policy has moved further than this from the one that played, the rest of the round is left out, on all
    ranks alike; 0: never."""

    def __post_init__(self) -> None:
        _check(
            "ppo",
            self,
            ("update_interval", _from(1)),
            ("batch_size", _from(1)),
            ("epochs", _from(1)),
            ("gamma", _between(0, 1)),
            ("gae_lambda", _between(0, 1)),
            ("clip", _from(0)),
            ("value_clip", _from(0)),
            ("value_weight", _from(0)),
            ("entropy", _from(0)),
            ("entropy_end", _from(0)),
            ("uniform_kl", _from(0)),
            ("lr", _from(0)),
            ("lr_end", _between(0, 1)),
            ("max_grad_norm", _from(0)),
            ("target_kl", _from(0)),
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
    eval_gif: bool = True
    """Put the best match of the last evaluation into TensorBoard as a moving picture; takes seconds."""

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
    algo: Literal["ddpg", "ppo", "ppo_lstm"] = "ddpg"
    """Which learner; ppo_lstm is ppo with a memory of the match so far."""
    seed: int = 1
    """Everything random follows from it."""
    device: str = "auto"
    """cpu, cuda, cuda:1, ... (auto: a GPU if there is one)."""
    precision: Literal["fp32", "bf16", "fp16"] | None = None
    """Of the matrix products (auto: bf16 on a GPU that has it, else fp32)."""
    matches: int | None = None
    """Matches played at once, per rank; half as red, half as blue (auto: 256, GPU 4096, with ppo 8192)."""
    mask_reversal: bool = True
    """Never choose the move that the game would replace by a random one."""
    episode_length: int = TURNS
    """Turns of a match: the game has 200."""
    max_minutes: float = 0.0
    """Stop after so many minutes of training; 0 for no such limit."""
    max_utilization: bool = False
    """Let `auto` choose the largest that the device holds, not what learns best per second."""
    fused: bool = True
    """Compiled loops for PPO's loss, advantages and n-step returns; off: the torch code of marl/learners, to edit."""
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
    ppo: PpoConfig = field(default_factory=PpoConfig)
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
    layers = [reader.read_yaml(path) for path in files]
    if saved is not None:
        layer = reader.read_yaml(saved)
        kept = {name: value for name, value in layer.values.items() if name not in WHERE_FROM}
        layers.insert(0, reader.Layer(layer.source, kept))
    return reader.read(TrainConfig, flags, ALIASES, "algo", layers)


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
