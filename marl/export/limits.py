"""What a competition allows a submission, and which teams keep to it."""

from dataclasses import dataclass
from pathlib import Path

from marl.errors import UserError
from marl.export.check import ComparedPolicy, Result, check_source
from marl.export.dense_layers import policy_layers
from marl.export.submission_file import ENCODERS, submission_source
from marl.planning.value_scale import value_scale
from marl.storage.policy_player import PolicyPlayer
from marl.storage.run_names import LAST_RUN
from marl.storage.saved_player import load_policy
from opponents.players import CHAMPIONS
from opponents.sandbox.process import why_not_sandboxed


@dataclass(frozen=True)
class Limits:
    """None: as much as it likes."""

    budget_ms: float | None = None  # of every move
    max_mb: float | None = None  # of the file, in millions of bytes

    def problem(self, size: int, longest_ms: float = 0.0) -> str | None:
        """What does not fit, if anything."""
        if self.max_mb is not None and size > 1e6 * self.max_mb:
            return f"it has {size / 1e6:.3g} MB, more than --max_size {self.max_mb:g}"
        if self.budget_ms is not None and longest_ms > self.budget_ms:
            return f"a move took {longest_ms:.1f} ms on this machine, more than --budget {self.budget_ms:g}"
        return None


def checked_submission(
    player: PolicyPlayer, name: str, path: Path, plan_ms: float | None, limits: Limits
) -> tuple[bytes, Result]:
    """The text of a player's submission, and what its check found. UserError: it is wrong, or does not fit."""
    if plan_ms is not None and limits.budget_ms is not None and plan_ms > limits.budget_ms:
        raise UserError(f"--plan {plan_ms:g} takes longer than --budget {limits.budget_ms:g}; plan for less")
    data, found, problem = _tried(player, name, path, plan_ms, limits)
    if problem is None and found is not None:
        return data, found
    others = _that_fit(player, path, plan_ms, limits)
    fits = f"these fit: {', '.join(others)}" if others else "no shipped team fits, nor does the last run"
    raise UserError(f"{path} is not written: {problem}; {fits}")


def _tried(
    player: PolicyPlayer, name: str, path: Path, plan_ms: float | None, limits: Limits
) -> tuple[bytes, Result | None, str | None]:
    """The text, what its check found, and what does not fit; a file that is too large is not run."""
    layers = policy_layers(player)
    data = submission_source(layers, player.encoder, name, plan_ms, value_scale(player.reward)).encode()
    if (problem := limits.problem(len(data))) is not None:
        return data, None, problem
    # The text is this program's own: where there is no sandbox, it is run without one.
    found = check_source(path, data, ComparedPolicy(layers, player.encoder, name), why_not_sandboxed() is not None)
    return data, found, limits.problem(len(data), found.longest_ms)


def _that_fit(player: PolicyPlayer, path: Path, plan_ms: float | None, limits: Limits) -> list[str]:
    """The shipped teams, and the last run, that fit."""
    names = []
    for name in (*sorted(file.stem for file in CHAMPIONS.glob("*.safetensors")), LAST_RUN):
        try:
            other = load_policy(name)
            if other.name == player.name or other.encoder.name not in ENCODERS:
                continue
            if _tried(other, name, path, plan_ms, limits)[2] is None:
                names.append(name)
        except ValueError:  # there is no run, or none that can be a submission
            continue
    return names
