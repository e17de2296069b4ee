"""Options of the evaluation during training."""

from dataclasses import dataclass

from marl.config.values import at_least, check_ranges
from marl.errors import UserError


@dataclass(frozen=True)
class EvalConfig:
    """Full matches with the most probable moves, played during training."""

    eval_interval: int | None = None
    """Episodes between two evaluations; 0: only one, at the end (auto: one before the first update and
    ten over the whole run, by its episodes or its minutes; fewer in a short run, as --dry_run says)."""
    eval_matches: int | None = None
    """Matches against each opponent, half of them on each side (auto: 200; down to 50 in a short run)."""
    eval_opponents: tuple[str, ...] = ("level0", "level1", "level2", "level3")
    """Opponents; the checkpoint with the highest mean share of the points is `best`."""
    uncaged: bool = False
    """Run opponents that are a submission.py with your rights, not in a sandbox (see SECURITY.md)."""
    eval_gif: bool = True
    """Write the best match of the last evaluation to TensorBoard as an animation; takes about a second."""

    def __post_init__(self) -> None:
        check_ranges("evaluation", self, eval_interval=at_least(0), eval_matches=at_least(1))
        if not self.eval_opponents:
            raise UserError("evaluation.eval_opponents is empty; allowed: names of players, like level1,level2")
