"""Options of the reward."""

from dataclasses import dataclass
from typing import Annotated

from marl.config.values import Choices, between, check_ranges
from marl.rewards import PRESETS, RewardWeights

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
        given = (getattr(self, name) for name in RewardWeights._fields)
        return [float(preset if own is None else own) for own, preset in zip(given, PRESETS[self.preset], strict=True)]
