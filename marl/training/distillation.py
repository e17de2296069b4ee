"""Distillation: a policy learns the decisions of its planner, so that a part of their strength costs one forward pass.

Every turn of B matches against a mix of opponents

    1. the planner plans the actions of the own team in all matches; observations and plans go into a ring buffer;
    2. the student plays its own actions in most matches, and the planned ones in the others (teacher_share). So it is
       taught in positions that it reaches itself, its mistakes included (DAgger);
    3. some minibatches of the buffer are learned: cross entropy with the planned actions, and the value head keeps
       what the teacher's says, since planners of the student will ask it.

The board of an encoder with reflections is reflected at random: the game has these symmetries.
"""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch.nn import functional as F

from arena import BatchArena
from arena.backends.cuda_graphs import Captured
from arena.rules import ACTIONS, SNAKES, TEAM
from marl.compute.precision import Precision
from marl.networks.policy import PolicyPlayer, mask_reversal, to_board_logits
from marl.planning.planner import Budget, Planner
from opponents.players import Player

MAX_GRAD_NORM = 1.0
GOLDEN = 0.618034  # spreads the matches of the teacher evenly over all opponents and both sides


@dataclass(frozen=True)
class DistillConfig:
    """Sizes and rates."""

    matches: int  # played at a time
    batch_size: int  # snakes in a minibatch
    lr: float = 1e-3  # annealed to 0
    updates_per_turn: int = 16
    buffer_turns: int = 256
    teacher_share: float = 0.25  # of the matches, in which the planned actions are played
    value_weight: float = 0.05  # of the value head's error in the loss


class Losses(NamedTuple):
    """Means over the minibatches since the last reading."""

    policy: float  # cross entropy with the planned actions
    value: float  # mean squared error against the teacher's value head
    agreement: float  # share of the planned actions that are the student's likeliest ones


class Distillation:
    """A student, its teacher, and the matches in which it is taught."""

    def __init__(
        self,
        policy: PolicyPlayer,
        budget: Budget,
        opponents: Mapping[Player | None, float],
        config: DistillConfig,
        device: str | torch.device,
        seed: int,
    ) -> None:
        """policy: where the student begins, and the policy of the planner. It needs a value head, and no hidden state.

        opponents: players and their shares of the matches, which add up to 1; None is the student itself.
        """
        torch.manual_seed(seed)
        self._arena = BatchArena(config.matches, device, seed)
        self._arena.start()
        self.config, self._encoder = config, policy.encoder
        self._device = device = self._arena.device
        self._teacher = policy.actor.to(device)
        self.student = deepcopy(self._teacher).requires_grad_(True)
        bf16 = device.type == "cuda" and torch.cuda.is_bf16_supported()
        self._precision = Precision("bf16" if bf16 else "fp32", device)
        self._optimizer = self._precision.optimizer(self.student.parameters(), config.lr)
        matches = torch.arange(config.matches, device=device)
        side = matches % 2
        self._seats = _team_seats(matches, side)
        self._planner = Planner(self._teacher, policy.encoder, self._arena, self._seats, budget)
        self._follows_teacher = matches * GOLDEN % 1 < config.teacher_share
        self._opponents: list[tuple[Player, torch.Tensor]] = []
        begin = 0.0
        for player, share in opponents.items():
            mine = slice(round(begin * config.matches), round((begin + share) * config.matches))
            begin += share
            seats = _team_seats(matches[mine], 1 - side[mine])
            player = player or PolicyPlayer(self.student, policy.encoder, "self")
            player.begin(self._arena, seats)
            self._opponents.append((player, seats))
        self._moves = torch.zeros(config.matches, SNAKES, dtype=torch.int8, device=device)
        # The ring buffer: rows are snakes of a turn.
        size = config.buffer_turns * len(self._seats)
        obs = self._arena.observe(policy.encoder.name, self._seats)
        self._obs = torch.zeros(size, policy.encoder.width, dtype=obs.dtype, device=device)
        self._planned = torch.zeros(size, dtype=torch.int64, device=device)
        self._values = torch.zeros(size, device=device)
        self._filled = torch.zeros((), device=device)  # rows
        self.turns = 0  # played
        self._sums = torch.zeros(4, device=device)  # of the losses, and their number
        self._reflections: list[torch.Tensor] = []  # columns [K, W] and actions [K, 4]
        if policy.encoder.reflections is not None:
            self._reflections = [torch.from_numpy(table).to(device) for table in policy.encoder.reflections]
        self._update = Captured(self._learn_minibatch, device, enabled=True)

    def play_turn(self) -> None:
        """Plan, store and play one turn of all matches."""
        planned = self._planner.plan()[0].long()
        begin = self.turns % self.config.buffer_turns * len(self._seats)
        rows = slice(begin, begin + len(self._seats))
        obs = self._arena.observe(self._encoder.name, self._seats, out=self._obs[rows])
        self._planned[rows] = planned.flatten()
        self._values[rows] = self._precision.act(self._teacher, obs, None, None)[0][:, ACTIONS].float()
        outputs, _ = self._precision.act(self.student, obs, None, None)
        actions = self._board_logits(outputs, obs).argmax(-1).view(-1, TEAM)
        actions = torch.where(self._follows_teacher[:, None], planned, actions)
        self._moves.view(-1)[self._seats.long()] = actions.flatten().to(torch.int8)
        for player, seats in self._opponents:
            player.act(self._arena, seats, self._moves)
        events = self._arena.play_turn(self._moves)
        self._arena.start(events.over)
        self.turns += 1
        self._filled.fill_(min(self.turns, self.config.buffer_turns) * len(self._seats))

    def learn(self, share_done: float) -> None:
        """Learn some minibatches of the buffer. share_done: of the whole distillation, anneals the learning rate."""
        self._precision.set_lr(self._optimizer, self.config.lr * (1 - share_done))
        for _ in range(self.config.updates_per_turn):
            self._update()

    def read_losses(self) -> Losses:
        """The losses since the last call; waits for the device."""
        policy, value, agreement, count = self._sums.tolist()
        self._sums.zero_()
        return Losses(policy / count, value / count, agreement / count)

    def _learn_minibatch(self) -> None:
        idx = (torch.rand(self.config.batch_size, device=self._device) * self._filled).long()
        obs, planned = self._precision.gather(self._obs, idx), self._planned[idx]
        if self._reflections:
            columns, actions = self._reflections
            k = torch.randint(len(columns), (1,), device=self._device)
            obs = obs.index_select(1, columns[k].flatten())
            planned = actions[k].flatten()[planned]
        with self._precision.autocast():
            outputs = self.student(obs)
        log_probs = self._board_logits(outputs, obs).log_softmax(-1)
        policy_loss = F.nll_loss(log_probs, planned)
        value_loss = F.mse_loss(outputs[:, ACTIONS].float(), self._values[idx])
        self._precision.backward(self._optimizer, policy_loss + self.config.value_weight * value_loss)
        self._precision.optimizer_step(self._optimizer, MAX_GRAD_NORM)
        agreement = (log_probs.argmax(-1) == planned).float().mean()
        self._sums += torch.stack((policy_loss, value_loss, agreement, torch.ones_like(agreement))).detach()

    def _board_logits(self, outputs: torch.Tensor, obs: torch.Tensor) -> torch.Tensor:
        return to_board_logits(mask_reversal(outputs[:, :ACTIONS], obs, self._encoder), obs, self._encoder)


def _team_seats(matches: torch.Tensor, side: torch.Tensor) -> torch.Tensor:
    """The seats [3 N] of the teams on these sides of these matches."""
    first = matches * SNAKES + side * TEAM
    return (first[:, None] + torch.arange(TEAM, device=first.device)).flatten().to(torch.int32)
