"""Players that plan: `plan:NAME` wraps the policy of any run, checkpoint, snapshot or champion.

plan:champion          the foes' 8 likeliest replies to every candidate, and 2 turns of the own team
plan=27x1:champion     all 27 replies, and 1 turn
plan=50ms:champion     2 turns, and as many replies as fit into 50 ms for a team's decision on this machine
"""

import re
import sys
import time

import torch

from arena import BatchArena
from arena.errors import printable
from arena.rules import TEAM
from marl.errors import UserError
from marl.planning.planner import MOST_REPLIES, MOST_TURNS, Budget, Planner
from marl.planning.value_scale import value_scale
from marl.storage import saved_player
from marl.storage.policy_player import PolicyPlayer
from opponents.plan_prefix import plans
from opponents.players import Player, find

_BUDGET = re.compile(r"=(?:(\d{1,3})x(\d{1,3})|(\d{1,5})ms)")
MEASURED = (1, 3)  # replies
DEFAULT = Budget()


class PlannedPlayer:
    """A policy that looks ahead before it moves; see opponents.players.Player.

    learns_foes: the models of the foes are weighted by the moves seen. Otherwise a plan depends on the position alone.
    """

    def __init__(
        self, policy: PolicyPlayer, budget: Budget = DEFAULT, name: str | None = None, learns_foes: bool = True
    ) -> None:
        if policy.actor.spec.lstm_size:
            raise UserError(f"{policy.name} has an LSTM; planning needs a policy without hidden state")
        self.policy, self.budget, self._learns_foes = policy, budget, learns_foes
        self.name = printable(name) if name else f"plan={budget.replies}x{budget.turns}:{policy.name}"
        self._planner: Planner | None = None

    def begin(self, arena: BatchArena, seats: torch.Tensor) -> None:
        """Prepare the simulated matches."""
        self.policy.begin(arena, seats)
        budget = self.budget
        if budget.milliseconds is not None:
            budget = self._fitting(arena, seats, budget.milliseconds)
            print(f"{self.name}: {budget.replies} replies fit", file=sys.stderr, flush=True)
        self._planner = self._make_planner(arena, seats, budget)

    def _make_planner(self, arena: BatchArena, seats: torch.Tensor, budget: Budget) -> Planner:
        policy, scale = self.policy, value_scale(self.policy.reward)
        return Planner(policy.actor, policy.encoder, arena, seats, budget, self._learns_foes, scale)

    def _fitting(self, arena: BatchArena, seats: torch.Tensor, milliseconds: float) -> Budget:
        """The budget that takes this time, measured by planning the matches as they are."""
        seconds = []
        for replies in MEASURED:
            planner = self._make_planner(arena, seats, Budget(replies))
            planner.judge.skips = False  # later positions may leave less out
            planner.plan()  # compiles
            begin = _clock(arena.device)
            planner.plan()
            seconds.append(_clock(arena.device) - begin)
        each = max(1e-9, (seconds[1] - seconds[0]) / (MEASURED[1] - MEASURED[0]))
        left = milliseconds / 1000 * len(seats) / TEAM - seconds[0]
        return Budget(min(MOST_REPLIES, max(1, MEASURED[0] + int(left / each))))

    def act(self, arena: BatchArena, seats: torch.Tensor, moves: torch.Tensor) -> None:
        """Write the planned actions of the seats into moves [B, 6]."""
        moves.view(-1)[seats.long()] = self._planner.plan()[0].flatten().to(moves.dtype)

    def policy_outputs(self, arena: BatchArena, seats: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Preferences [N, 4] (a softmax of the planned values, in cells of length) and the best planned values [N]."""
        values = self._planner.plan()[1].flatten(0, 1)
        return values.softmax(-1), values.amax(-1)

    def close(self) -> None:
        """Free the simulated matches."""
        self._planner = None
        self.policy.close()


def _clock(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def load_player(name: str) -> Player:
    """The player of a path or of a champion's name, with planning if the name begins with `plan`."""
    if not plans(name):
        return saved_player.load_policy(name)
    budget, inner = split_planned(name)
    policy = find(inner, saved_player.load_policy)
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
            f"player {name!r}: planning is written plan:NAME, plan=REPLIESxTURNS:NAME, like plan=8x1:champion, "
            "or plan=50ms:NAME"
        )
    if found and found[3]:
        if int(found[3]) == 0:
            raise UserError(f"player {name!r}: planning needs 1 ms or more")
        return Budget(milliseconds=float(found[3])), inner
    budget = Budget(int(found[1]), int(found[2])) if found else DEFAULT
    if not (1 <= budget.replies <= MOST_REPLIES and 1 <= budget.turns <= MOST_TURNS):
        raise UserError(f"player {name!r}: allowed are 1 to {MOST_REPLIES} replies, and 1 or {MOST_TURNS} turns")
    return budget, inner
