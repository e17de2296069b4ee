"""The statistics of one log window: everything counted on all ranks between two log lines."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from arena.rules import TEAM, TURNS
from marl.rollout.rollout import RolloutResults

PAST_SELF = "past_"  # begins the names of past selves


@dataclass(frozen=True)
class LogWindow:
    """Matches by opponent, rewards by snake, losses by name, and updates that were skipped."""

    matches: dict[str, tuple[int, int, int]]  # opponent -> wins, draws, losses; only opponents with finished matches
    rewards: tuple[float, ...]  # by snake, mean over the finished matches
    deaths: tuple[float, float]  # in all turns: of the team and of its opponents
    lengths: tuple[float, float]  # of one snake at the end of a match: of the team and of its opponents
    losses: dict[str, float]  # mean over the batches
    measures: dict[str, float]  # of the learner at the end of the window
    skipped: float  # updates skipped in this window: their gradients were not finite
    skipped_in_a_row: float  # updates skipped without a break up to the end of the window

    def metrics(self, env_steps: int) -> dict[str, float]:
        """Values for TensorBoard, by tag. env_steps: match-turns of the window."""
        rates = {f"win_rate/{name}": wins / (wins + draws + lost) for name, (wins, draws, lost) in self.matches.items()}
        rewards = {f"reward/snake{k}": reward for k, reward in enumerate(self.rewards)}
        deaths, foe_deaths = (number * TURNS / max(1, env_steps) for number in self.deaths)
        values = {**self.losses, **self.measures, **rates, **rewards, "reward/total": sum(self.rewards)}
        values |= {"match/deaths": deaths, "match/opponent_deaths": foe_deaths}
        if self.matches:
            values["match/length"], values["match/opponent_length"] = self.lengths
        return values

    def reward_text(self) -> str:
        """The rewards of the three snakes."""
        return ", ".join(f"{reward:.1f}" for reward in self.rewards)

    def won(self, name: str) -> str:
        """The share of matches won against an opponent; `-` if none has finished."""
        return f"{_share(self.matches[name]):.0%}" if name in self.matches else "-"

    def won_by_opponent(self) -> str:
        """The shares of matches won against all opponents; past selves count as one."""
        joined: dict[str, tuple[int, int, int]] = {}
        for name, result in self.matches.items():
            name = "past selves" if name.startswith(PAST_SELF) else name
            wins, draws, lost = (a + b for a, b in zip(joined.get(name, (0, 0, 0)), result, strict=True))
            joined[name] = (wins, draws, lost)
        return ", ".join(f"{name} {_share(result):.0%}" for name, result in joined.items()) or "-"


def pack(results: RolloutResults, measures: torch.Tensor, logged: torch.Tensor) -> torch.Tensor:
    """One rank's statistics in one tensor, to be summed over the ranks; the last two come from the learner."""
    counted = (results.tally.flatten(), results.rewards, results.deaths, results.lengths)
    return torch.cat([part.double() for part in (*counted, measures, logged)])


def unpack(
    sums: torch.Tensor, opponents: Sequence[str], measured: Sequence[str], names: Sequence[str], world: int
) -> LogWindow:
    """Read the sum of `pack` tensors over `world` ranks.

    `opponents` name the first rows of the tally, `measured` the learner's measures, `names` its losses.
    """
    sizes = (TEAM, 2, 2, len(measured), 1, len(names), 1)
    numbers, parts, end = sums.tolist(), [], 0
    for size in (len(numbers) - sum(sizes), *sizes):
        parts.append(numbers[end : end + size])
        end += size
    counts, rewards, deaths, lengths, measures, (batches,), losses, (skipped_in_a_row,) = parts
    tally = [round(number) for number in counts]
    finished = sum(tally) or 1
    matches: dict[str, tuple[int, int, int]] = {}
    for i, name in enumerate(opponents):  # one past self may play in several places
        before = matches.get(name, (0, 0, 0))
        wins, draws, lost = (a + b for a, b in zip(before, tally[3 * i : 3 * i + 3], strict=True))
        matches[name] = (wins, draws, lost)
    own, foes = (length / finished / TEAM for length in lengths)
    return LogWindow(
        matches={name: result for name, result in matches.items() if sum(result)},
        rewards=tuple(reward / finished for reward in rewards),
        deaths=(deaths[0], deaths[1]),
        lengths=(own, foes),
        losses={name: loss / max(1, batches) for name, loss in zip(names, losses, strict=True)},
        measures={name: value / world for name, value in zip(measured, measures, strict=True)},
        skipped=losses[-1] / world,  # every rank skips the same updates
        skipped_in_a_row=skipped_in_a_row / world,
    )


def _share(result: tuple[int, int, int]) -> float:
    return result[0] / sum(result)
