"""Players that plan: `plan:NAME` wraps the policy of any run, checkpoint, snapshot or champion.

plan:champion          4 rollouts of 4 turns for every candidate
plan=8x6:champion      8 rollouts of 6 turns
"""

import re

import torch

from arena import BatchArena
from marl.errors import UserError
from marl.networks.policy import PolicyPlayer
from marl.planning.planner import Budget, Planner
from marl.storage import saved_player
from opponents.players import PLAN, Player, find

_BUDGET = re.compile(r"=(\d{1,3})x(\d{1,3})")
MOST_ROLLOUTS, MOST_TURNS = 64, 32
DEFAULT = Budget()


class PlannedPlayer:
    """A policy that looks ahead before it moves; see opponents.players.Player."""

    def __init__(self, policy: PolicyPlayer, budget: Budget = DEFAULT, name: str | None = None) -> None:
        if policy.actor.spec.lstm_size:
            raise UserError(f"{policy.name} has an LSTM; planning needs a policy without hidden state")
        self.policy, self.budget = policy, budget
        self.name = name or f"plan={budget.rollouts}x{budget.turns}:{policy.name}"
        self._planner: Planner | None = None

    def begin(self, arena: BatchArena, seats: torch.Tensor) -> None:
        """Prepare the simulated matches."""
        self.policy.begin(arena, seats)
        self._planner = Planner(self.policy.actor, self.policy.encoder, arena, seats, self.budget)

    def act(self, arena: BatchArena, seats: torch.Tensor, moves: torch.Tensor) -> None:
        """Write the planned actions of the seats into moves [B, 6]."""
        moves.view(-1)[seats.long()] = self._planner.plan()[0].flatten().to(moves.dtype)

    def thoughts(self, arena: BatchArena, seats: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Preferences [N, 4] (a softmax of the planned values, in cells of length) and the best planned values [N]."""
        values = self._planner.plan()[1].flatten(0, 1)
        return values.softmax(-1), values.amax(-1)

    def close(self) -> None:
        """Free the simulated matches."""
        self._planner = None
        self.policy.close()


def load_player(name: str) -> Player:
    """The player of a path or of a champion's name, with planning if the name begins with `plan`."""
    if not name.startswith(PLAN):
        return saved_player.load_player(name)
    budget, inner = split_planned(name)
    policy = find(inner, saved_player.load_player)
    if not isinstance(policy, PolicyPlayer):
        policy.close()
        raise UserError(f"player {name!r}: {inner} is no trained policy; give a run, checkpoint, snapshot or champion")
    return PlannedPlayer(policy, budget, name)


def split_planned(name: str) -> tuple[Budget, str]:
    """The budget, and the name of the policy, in the name of a player that plans."""
    head, _, inner = name.partition(":")
    found = _BUDGET.fullmatch(head.removeprefix("plan"))
    if not inner or (head != "plan" and found is None):
        raise UserError(
            f"player {name!r}: planning is written plan:NAME or plan=ROLLOUTSxTURNS:NAME, like plan=8x6:champion"
        )
    budget = Budget(int(found[1]), int(found[2])) if found else DEFAULT
    if not (1 <= budget.rollouts <= MOST_ROLLOUTS and 1 <= budget.turns <= MOST_TURNS):
        raise UserError(f"player {name!r}: allowed are 1 to {MOST_ROLLOUTS} rollouts of 1 to {MOST_TURNS} turns")
    return budget, inner
