"""What has added up on the devices of all ranks since the last log line, and how it reads."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from arena.rules import TEAM
from marl.rollout.rollout import Results


@dataclass(frozen=True)
class Account:
    """Matches by opponent, rewards by snake, losses by name."""

    matches: dict[str, tuple[int, int, int]]  # opponent -> wins, draws, losses; those who were met
    rewards: tuple[float, ...]  # of each snake, the mean of the finished matches
    losses: dict[str, float]  # means over batches
    skipped: float  # steps that were left out since the last line, over all ranks
    in_a_row: float  # steps left out just before it

    def values(self) -> dict[str, float]:
        """For the log."""
        rates = {f"win_rate/{name}": wins / (wins + draws + lost) for name, (wins, draws, lost) in self.matches.items()}
        rewards = {f"reward/snake{k}": reward for k, reward in enumerate(self.rewards)}
        return {**self.losses, **rates, **rewards, "reward/total": sum(self.rewards)}

    def told(self) -> dict[str, str]:
        """For the console."""
        rates = (f"{name} {wins / (wins + draws + lost):.0%}" for name, (wins, draws, lost) in self.matches.items())
        each = ", ".join(f"{reward:.1f}" for reward in self.rewards)
        return {"reward": f"{sum(self.rewards):.1f} ({each})", "won": " ".join(rates)}


def packed(results: Results, logged: torch.Tensor) -> torch.Tensor:
    """One tensor of all that is to be added up over ranks; `logged` is a learner's."""
    return torch.cat((results.tally.flatten().double(), results.rewards.double(), logged.double()))


def unpacked(sums: torch.Tensor, opponents: Sequence[str], names: Sequence[str], world: int) -> Account:
    """The account of `packed` tensors of so many ranks: of the first columns' opponents, and of a learner's names."""
    *numbers, in_a_row = sums.tolist()
    batches, *losses = numbers[-1 - len(names) :]
    rewards = numbers[-1 - len(names) - TEAM : -1 - len(names)]
    tally = [round(number) for number in numbers[: -1 - len(names) - TEAM]]
    finished = sum(tally) or 1
    matches: dict[str, list[int]] = {}
    for i, name in enumerate(opponents):  # a past self may play in several places
        before = matches.get(name, [0, 0, 0])
        matches[name] = [a + b for a, b in zip(before, tally[3 * i : 3 * i + 3], strict=True)]
    return Account(
        {name: tuple(result) for name, result in matches.items() if sum(result)},
        tuple(reward / finished for reward in rewards),
        {name: loss / max(1, batches) for name, loss in zip(names, losses, strict=True)},
        losses[-1] / world,
        in_a_row / world,
    )
