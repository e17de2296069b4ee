"""Sections of the configuration: network, reward, evaluation, ranks. Those of the learners: learner_configs.py."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from marl.config.values import Choices, at_least, between, check_ranges
from marl.errors import UserError
from marl.registry import NETWORKS
from marl.rewards import PRESETS, RewardWeights, weights_of

MODEL_SIZES = {"tiny": (64, 64), "small": (128, 128), "medium": (256, 128), "large": (512, 256), "huge": (1024, 512)}
WIDTH_MAX = 65_536  # two such layers have 16 GiB of weights; beyond it a width is a mistake

# For the help text.
ABOUT_SIZES = tuple((name, ",".join(map(str, sizes))) for name, sizes in MODEL_SIZES.items())
ABOUT_ENCODERS = (
    ("features", "a vector of 80 numbers about the snake's surroundings"),
    ("canonical", "the same, rotated and mirrored: the snake looks up"),
    ("planes", "the whole board, centred on the snake's head"),
    ("egocentric", "13 x 13 cells around the head, and canonical"),
    ("tactical", "canonical, and what searches find behind each action"),
    ("tactical_board", "egocentric, and the same numbers of each action"),
)
ABOUT_NETWORKS = (
    ("mlp", "a dense layer"),
    ("cnn", "convolutions that wrap around the edges of the board (only with encoder planes)"),
)


def _encoders() -> Mapping[str, Any]:
    from arena.encoders import ENCODERS

    return ENCODERS


@dataclass(frozen=True)
class NetworkConfig:
    """The networks of the team; its three snakes share them."""

    encoder: Annotated[str, Choices(_encoders), ABOUT_ENCODERS] | None = None
    """What a snake observes (auto: tactical on a CPU, tactical_board on a GPU)."""
    kind: Annotated[str, Choices(NETWORKS), ABOUT_NETWORKS] = "mlp"
    """First layer of the network."""
    channels: tuple[int, ...] = (32, 32)
    """Output channels of the convolutions (only with kind cnn)."""
    model_size: Annotated[str, Choices(MODEL_SIZES), ABOUT_SIZES] | None = None
    """Hidden layer sizes by name (auto: those of body)."""
    body: tuple[int, ...] | None = None
    """Hidden layer sizes (auto: 128,128 on a CPU, 512,256 on a GPU)."""
    messages: bool = False
    """Communication: after the first layer, the actor of each snake also receives the features of its two mates."""
    lstm_size: int = 128
    """Hidden size of the LSTM after the body (only with algo ppo_lstm)."""

    def __post_init__(self) -> None:
        for name in ("body", "channels"):
            widths = getattr(self, name)
            if widths is not None and not (widths and 1 <= min(widths) <= max(widths) <= WIDTH_MAX):
                given = ",".join(map(str, widths))
                raise UserError(f"network.{name} is {given}; allowed: widths from 1 to {WIDTH_MAX}, like 128,128")
        if self.body is not None and self.model_size is not None and self.body != MODEL_SIZES[self.model_size]:
            raise UserError("network.body and network.model_size both say how wide the network is; give one of them")
        if self.kind == "cnn" and self.encoder not in (None, "planes"):
            raise UserError("network.kind is cnn, which reads a board; allowed with it: network.encoder planes")
        check_ranges("network", self, lstm_size=between(1, WIDTH_MAX))


WEIGHTS = ("own", "mates", "foes", "eat", "die", "lead", "win")
WEIGHT_MAX = 100_000  # the largest of the presets is 10; half floats end at 65,504

# For the help text.
ABOUT_PRESETS = (
    ("score", "only the snake's own length, the plain reward of the game"),
    ("team", "also the lengths of mates and foes"),
    ("win", "only the result of the match"),
    ("shaped", "team, and also eating, dying, leading and winning"),
)


@dataclass(frozen=True)
class RewardConfig:
    """The reward of a snake at each turn. A length changes by +1 for a bean and falls back at a death."""

    preset: Annotated[str, Choices(PRESETS), ABOUT_PRESETS] = "team"
    """Reward weights by name; single weights (own, mates, foes, eat, die, lead, win) override it."""
    own: float | None = None
    """Weight of the change of the snake's own length (score, team, shaped: 1; win: 0)."""
    mates: float | None = None
    """Weight of the summed change of the two mates' lengths (team, shaped: 0.15; others: 0)."""
    foes: float | None = None
    """Weight of the summed change of the three foes' lengths, which is subtracted (team, shaped: 0.15; others: 0)."""
    eat: float | None = None
    """Bonus for eating a bean (shaped: 0.2; others: 0)."""
    die: float | None = None
    """Penalty for dying (shaped: 0.5; others: 0)."""
    lead: float | None = None
    """Bonus at each turn at which the team leads; the same as a penalty if it trails (shaped: 0.01; others: 0)."""
    win: float | None = None
    """Bonus at the end of a match for winning; the same as a penalty for losing (win: 10; shaped: 3; others: 0)."""
    zero_sum: bool = False
    """Subtract the mean reward of the three foes, so that the rewards of both teams add up to 0."""

    def __post_init__(self) -> None:
        check_ranges("reward", self, **dict.fromkeys(WEIGHTS, between(-WEIGHT_MAX, WEIGHT_MAX)))

    def weights(self) -> list[float]:
        """In the order of RewardWeights."""
        given, preset = (getattr(self, name) for name in RewardWeights._fields), weights_of(self.preset)
        return [float(default if own is None else own) for own, default in zip(given, preset, strict=True)]


@dataclass(frozen=True)
class EvalConfig:
    """Full matches with the most probable moves, played during training."""

    eval_interval: int | None = None
    """Episodes between two evaluations; 0: only one, at the end (auto: one before the first update and
    ten over the whole run, by its episodes or its minutes; fewer in a short run, as --dry_run says)."""
    eval_matches: int | None = None
    """Matches against each opponent, half of them on each side (auto: 200; down to 50 in a short run)."""
    eval_opponents: tuple[str, ...] = ("level0", "level1", "level2", "level3")
    """Opponents; `best` is the newest checkpoint whose mean share of the points is not clearly less than the most."""
    uncaged: bool = False
    """Run opponents that are a submission.py with your rights, not in a sandbox (see SECURITY.md)."""
    eval_gif: bool = True
    """Write the best match of the last evaluation to TensorBoard as an animation; takes about a second."""

    def __post_init__(self) -> None:
        check_ranges("evaluation", self, eval_interval=at_least(0), eval_matches=at_least(1))
        if not self.eval_opponents:
            raise UserError("evaluation.eval_opponents is empty; allowed: names of players, like level1,level2")


@dataclass(frozen=True)
class DistributedConfig:
    """Several ranks that train one team."""

    backend: Literal["nccl", "gloo"] | None = None
    """Backend of torch.distributed (auto: nccl with GPUs on Linux, else gloo; CPU ranks on one machine then sum their
    gradients through shared memory, several times faster)."""
    scaling: Literal["strong", "weak"] = "strong"
    """Meaning of automatic sizes (matches, batch_size, buffer_size) with several ranks. strong: for the whole run,
    split over the ranks; every number of ranks trains the same team. weak: per rank; the batch grows with the ranks and
    the updates per episode fall, which pays only with a higher learning rate (lr_scaling) and more episodes."""
    timeout: float = 300.0
    """Seconds without an answer from a rank after which the run ends."""
    sync_freq: int = 1
    """Gradient accumulation: minibatches per optimizer step and exchange of gradients between ranks."""
    lr_scaling: Literal["none", "linear", "sqrt"] = "none"
    """Growth of the learning rates with the number of ranks."""
    lr_warmup: int = 0
    """Updates over which the learning rates rise linearly to their full value."""
    check_sync: int = field(default=0, metadata={"bare": 100})
    """Updates between two comparisons of all parameters over the ranks; 0: never."""

    def __post_init__(self) -> None:
        check_ranges(
            "ddp",
            self,
            timeout=at_least(1),
            sync_freq=at_least(1),
            lr_warmup=at_least(0),
            check_sync=at_least(0),
        )
