"""Options of the evaluation during training."""

from dataclasses import dataclass

from marl.config.ranges import at_least, check_ranges
from marl.errors import UserError

EVALUATIONS = 10  # with eval_interval auto: evenly over the run, the last one at its end


@dataclass(frozen=True)
class EvalConfig:
    """Full matches with the most probable moves, played during training."""

    eval_interval: int | None = None
    """Episodes between two evaluations; 0: only one, at the end (auto: ten over the whole run, by its episodes or its
    minutes, and one before the first update)."""
    eval_matches: int = 200
    """Matches against each opponent, half of them on each side."""
    eval_opponents: tuple[str, ...] = ("level0", "level1", "level2", "level3")
    """Opponents; the checkpoint with the highest mean share of the points is `best`."""
    uncaged: bool = False
    """Run opponents that are a submission.py with your rights, not in a cage (see SECURITY.md)."""
    eval_gif: bool = True
    """Write the best match of the last evaluation to TensorBoard as an animation; takes seconds."""

    def __post_init__(self) -> None:
        check_ranges("evaluation", self, eval_interval=at_least(0), eval_matches=at_least(1))
        if not self.eval_opponents:
            raise UserError("evaluation.eval_opponents is empty; allowed: names of players, like level1,level2")
