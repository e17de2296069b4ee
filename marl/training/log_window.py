"""The statistics of one log window: everything counted on all ranks between two log lines."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from arena.rules import TEAM
from marl.rollout.rollout import RolloutResults


@dataclass(frozen=True)
class LogWindow:
    """Matches by opponent, rewards by snake, losses by name, and updates that were skipped."""

    matches: dict[str, tuple[int, int, int]]  # opponent -> wins, draws, losses; only opponents with finished matches
    rewards: tuple[float, ...]  # by snake, mean over the finished matches
    losses: dict[str, float]  # mean over the batches
    skipped: float  # updates skipped in this window: their gradients were not finite
    skipped_in_a_row: float  # updates skipped without a break up to the end of the window

    def metrics(self) -> dict[str, float]:
        """Values for TensorBoard, by tag."""
        rates = {f"win_rate/{name}": wins / (wins + draws + lost) for name, (wins, draws, lost) in self.matches.items()}
        rewards = {f"reward/snake{k}": reward for k, reward in enumerate(self.rewards)}
        return {**self.losses, **rates, **rewards, "reward/total": sum(self.rewards)}

    def console_fields(self) -> dict[str, str]:
        """Texts for the console's line: `reward` and `won`."""
        rates = (f"{name} {wins / (wins + draws + lost):.0%}" for name, (wins, draws, lost) in self.matches.items())
        each = ", ".join(f"{reward:.1f}" for reward in self.rewards)
        return {"reward": f"{sum(self.rewards):.1f} ({each})", "won": " ".join(rates)}


def pack(results: RolloutResults, logged: torch.Tensor) -> torch.Tensor:
    """One rank's statistics in one tensor, to be summed over the ranks; `logged` comes from the learner."""
    return torch.cat((results.tally.flatten().double(), results.rewards.double(), logged.double()))


def unpack(sums: torch.Tensor, opponents: Sequence[str], names: Sequence[str], world: int) -> LogWindow:
    """Read the sum of `pack` tensors over `world` ranks.

    `opponents` name the first rows of the tally, `names` the losses of the learner.
    """
    *numbers, skipped_in_a_row = sums.tolist()
    batches, *losses = numbers[-1 - len(names) :]
    rewards = numbers[-1 - len(names) - TEAM : -1 - len(names)]
    tally = [round(number) for number in numbers[: -1 - len(names) - TEAM]]
    finished = sum(tally) or 1
    matches: dict[str, tuple[int, int, int]] = {}
    for i, name in enumerate(opponents):  # one past self may play in several places
        before = matches.get(name, (0, 0, 0))
        wins, draws, lost = (a + b for a, b in zip(before, tally[3 * i : 3 * i + 3], strict=True))
        matches[name] = (wins, draws, lost)
    return LogWindow(
        matches={name: result for name, result in matches.items() if sum(result)},
        rewards=tuple(reward / finished for reward in rewards),
        losses={name: loss / max(1, batches) for name, loss in zip(names, losses, strict=True)},
        skipped=losses[-1] / world,  # every rank skips the same updates
        skipped_in_a_row=skipped_in_a_row / world,
    )
