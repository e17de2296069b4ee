"""A second turn of the own team: what a position is worth if the team may choose once more.

P = positions, each after a turn of a plan. The foes play the policy's likeliest actions. The own team has D joint
actions, the deviations from the policy's best ones; the position is worth the best of

    growth + DISCOUNT * values + PRIOR * log-probabilities of the actions
"""

import torch

from arena import BatchArena
from arena.rules import SNAKES, TEAM
from marl.planning.judge import DISCOUNT, PRIOR, Judge

DEVIATIONS = 1 + 2 * TEAM


def deviations(ranked: torch.Tensor) -> torch.Tensor:
    """Joint actions [b, D, 3] from ranked [b, 3, 3]: all snakes' best; then each one's second and third."""
    found = ranked[:, None, :, 0].expand(-1, DEVIATIONS, -1).clone()
    for snake in range(TEAM):
        found[:, 1 + 2 * snake : 3 + 2 * snake, snake] = ranked[:, snake, 1:]
    return found


def joined(own: torch.Tensor, foes: torch.Tensor, side: torch.Tensor) -> torch.Tensor:
    """Actions [..., 6] of all snakes from those of the own team and of the foes [..., 3]; side [...]."""
    is_red = (side == 0)[..., None]
    return torch.cat((torch.where(is_red, own, foes), torch.where(is_red, foes, own)), -1)


class SecondTurn:
    """Positions of a fixed number of simulated matches, and their copies."""

    def __init__(self, judge: Judge, positions: int, device: torch.device) -> None:
        self._judge = judge
        self.positions = BatchArena(positions, device)
        self._copies = BatchArena(positions * DEVIATIONS, device)
        self._actions = torch.zeros(positions * DEVIATIONS, SNAKES, dtype=torch.int8, device=device)

    def worth(self, side: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
        """The worth [P] of the positions that count [P] for the team of this side [P]; of others it means nothing."""
        log_probs = self._judge.log_probs(self.positions, counts)  # [P, 2, 3, 4]
        rows = torch.arange(len(side), device=side.device)
        prior, foes = PRIOR * log_probs[rows, side], log_probs[rows, 1 - side].argmax(-1)
        own = deviations(prior.sort(dim=-1, descending=True, stable=True).indices[..., :3])  # [P, D, 3]
        self._copies.state.copy_(self.positions.state.repeat_interleave(DEVIATIONS, 0))
        self._copies.keys.copy_(self.positions.keys.repeat_interleave(DEVIATIONS))
        side, counts = side.repeat_interleave(DEVIATIONS), counts.repeat_interleave(DEVIATIONS)
        self._actions.copy_(joined(own.flatten(0, 1), foes.repeat_interleave(DEVIATIONS, 0), side))
        events = self._copies.play_turn(self._actions)
        worth = self._judge.growth(self._copies, side)
        worth = worth + DISCOUNT * self._judge.values(self._copies, side, counts & ~events.over)
        return (worth.view(-1, DEVIATIONS) + prior.gather(2, own.mT).sum(1)).amax(1)
