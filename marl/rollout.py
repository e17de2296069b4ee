"""The matches of one rank: the team that learns against the opponents of the schedule, one turn after another.

B = matches of this rank. Slot i of the whole world (all ranks' slots in order) plays the matches i, i + all slots, ...;
even slots play red, odd ones blue. So the world plays the same matches whatever the number of ranks. Nothing here waits
for the device: results add up in tensors until somebody asks.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch

from arena import BatchArena
from arena.rules import SNAKES, TEAM, TURNS
from marl import device_loops
from marl.replay_buffer import ReplayBuffer
from opponents import loops
from opponents.scheduler import Mix
from opponents.scripted import SCRIPTED

Policy = Callable[[torch.Tensor], torch.Tensor]  # what snakes see [N, W] to the logits of their moves [N, 4]


class Results(NamedTuple):
    """What finished since the last time it was asked for, on this rank; tensors on the device."""

    tally: torch.Tensor  # [opponents, 3] wins, draws, losses
    rewards: torch.Tensor  # [3] sums over the finished matches, by snake


class Rollout:
    """B matches, and what each of them is about."""

    def __init__(
        self,
        matches: int,
        opponents: Sequence[str],
        weights: Sequence[float],
        buffer: ReplayBuffer,
        seed: int,
        rank: int = 0,
        world: int = 1,
        first_match: int = 0,
    ) -> None:
        device = buffer.device
        self.opponents = tuple(opponents)
        self.matches, self.all_matches, self.buffer, self.encoder = matches, matches * world, buffer, buffer.encoder
        first_match += rank * matches
        self.arena = BatchArena(matches, device, seed, first_match, stride=self.all_matches)
        slots = torch.arange(rank * matches, (rank + 1) * matches)
        self._stagger_at = (slots * TURNS // self.all_matches).to(device)
        side = slots % 2
        here = (torch.arange(matches) * SNAKES)[:, None] + torch.arange(TEAM)
        self.seats = (here + TEAM * side[:, None]).flatten().int().to(device)
        away = (here + TEAM * (1 - side[:, None])).flatten().int().to(device)
        self.rows = torch.zeros(matches * TEAM, self.encoder.width, dtype=buffer.dtype, device=device)
        self.logits = torch.zeros(matches * TEAM, 4, device=device)
        self.moves = torch.zeros(matches, SNAKES, dtype=torch.int8, device=device)
        self.epsilon = torch.zeros(1, device=device)
        self.which = torch.zeros(matches, dtype=torch.uint8, device=device)  # number of the opponent
        self._edges = torch.ones(len(self.opponents), dtype=torch.float64, device=device)
        self._totals = torch.zeros(matches, 2, TEAM, device=device)
        self._tally = torch.zeros(matches, len(self.opponents), 3, dtype=torch.int64, device=device)
        self._bind(side.to(torch.uint8).to(device), away, torch.tensor(weights, device=device))
        self._turns = 0
        self._met = dict.fromkeys(range(len(self.opponents)), 0)  # opponent -> last turn at which it was in the mix

    def _bind(self, side: torch.Tensor, away: torch.Tensor, weights: torch.Tensor) -> None:
        arena, buffer, device = self.arena, self.buffer, self.arena.device
        state, keys, events = arena.state, arena.keys, arena.events
        self._meet = device_loops.bind("meet_all", self.matches, device, state, keys, self._edges, self.which)
        drawn = (state, keys, self.seats, self.logits, self.epsilon, self.moves)
        self._draw = device_loops.bind("draw_all_moves", len(self.seats), device, *drawn)
        turn = (state, self.moves, *events, side, self.which, weights)
        rows = (buffer.counts, buffer.moves, buffer.rewards, buffer.over, self._totals, self._tally)
        self._finish = device_loops.bind("finish_all", self.matches, device, *turn, *rows)
        self._answers = [
            loops.bind(SCRIPTED[name], arena, away, self.moves, 0.0, self.which, i)
            for i, name in enumerate(self.opponents)
        ]

    def start(self, actor: Policy | None = None) -> None:
        """Start all matches and bring them to different turns, so that every stretch of turns is alike.

        Up to there the actor plays (without one, chance does) against the mix, and nobody learns from it; the matches
        that are cut off on the way do not count.
        """
        self.arena.start()
        for turn in range(TURNS):
            self._choose_moves(actor)
            self.arena.play_turn(self.moves)
            self.arena.start(self._stagger_at == turn)

    def mix(self, mix: Mix) -> None:
        """Whom matches meet that start from now on."""
        shares = [mix.get(name, 0.0) for name in self.opponents]
        self._edges.copy_(torch.from_numpy(np.cumsum(shares)), non_blocking=True)
        for i, share in enumerate(shares):
            if share > 0:
                self._met[i] = -1  # in the mix
            elif self._met[i] == -1:
                self._met[i] = self._turns

    def play_turn(self, actor: Policy) -> None:
        """One turn of every match, from what the snakes see to the row in the buffer."""
        arena, buffer = self.arena, self.buffer
        self._choose_moves(actor)
        buffer.write_observations(self.rows)
        arena.play_turn(self.moves)
        self._finish()
        buffer.advance()
        arena.start(arena.events.over)
        self._turns += 1

    def _choose_moves(self, actor: Policy | None) -> None:
        self._meet()
        if actor is not None:
            self.arena.observe(self.encoder.name, self.seats, out=self.rows)
            self.logits.copy_(actor(self.rows))
        self._draw()
        for i, answer in enumerate(self._answers):
            if self._may_be_met(i):
                answer()

    def results(self) -> Results:
        """Results since the last call."""
        results = Results(self._tally.sum(0), self._totals[:, 1].sum(0))
        self._tally.zero_()
        self._totals[:, 1] = 0
        return results

    def state_dict(self) -> dict[str, torch.Tensor]:
        """Copies on the host of all matches, and of what has added up since `results` was asked."""
        return {name: tensor.to("cpu", copy=True) for name, tensor in self._state().items()}

    def load_state_dict(self, state: dict[str, torch.Tensor]) -> None:
        """Go on where state_dict() left off, instead of `start`."""
        for name, tensor in self._state().items():
            tensor.copy_(state[name])
        # Any opponent may be in the middle of a match.
        self._met = {i: last if last == -1 else self._turns for i, last in self._met.items()}

    def _state(self) -> dict[str, torch.Tensor]:
        arena = self.arena
        matches = {"state": arena.state, "keys": arena.keys, "numbers": arena.numbers, "which": self.which}
        return {**matches, "totals": self._totals, "tally": self._tally}

    def episodes(self, turns: int) -> int:
        """Matches that the whole world has finished after so many turns: known without asking the device."""
        rounds, rest = divmod(turns, TURNS)
        return rounds * self.all_matches + -(-rest * self.all_matches // TURNS)

    def _may_be_met(self, i: int) -> bool:
        # A match against an opponent that left the mix may still be going on. A graph must hold all of them.
        last = self._met[i]
        return self.arena.device.type == "cuda" or last == -1 or self._turns <= last + TURNS
