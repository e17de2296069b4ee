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
from arena.rules import SNAKES, TEAM, TURN, TURNS
from marl.rollout import device_loops
from marl.rollout.assignment import LineUp
from marl.rollout.turn_buffer import TurnBuffer
from marl.rollout.turn_loops import MOVES, NOBODY
from opponents import loops
from opponents.scheduler import Mix
from opponents.scripted import SCRIPTED

Policy = Callable[[torch.Tensor], torch.Tensor]  # what snakes see [N, W] to the logits of their moves [N, 4 or more]


class Results(NamedTuple):
    """What finished since the last time it was asked for, on this rank; tensors on the device."""

    tally: torch.Tensor  # [opponents, 3] wins, draws, losses, by the opponents' numbers
    rewards: torch.Tensor  # [3] sums over the finished matches, by snake


def seats_of(slots: torch.Tensor, sides: torch.Tensor) -> torch.Tensor:
    """The seats of teams, three each."""
    return (slots.long()[:, None] * SNAKES + sides.long()[:, None] * TEAM + torch.arange(TEAM)).flatten().int()


class Rollout:
    """B matches, and what each of them is about.

    Opponents are numbered: those of the schedule, then the places of past selves, then the team itself, then nobody.
    """

    def __init__(
        self,
        line_up: LineUp,
        opponents: Sequence[str],
        weights: Sequence[float],
        buffer: TurnBuffer,
        seed: int,
        rank: int = 0,
        world: int = 1,
        first_match: int = 0,
        answers: int = MOVES,
        masked: bool = True,
    ) -> None:
        device, matches = buffer.device, line_up.matches
        self.opponents, self.line_up, self.masked = tuple(opponents), line_up, masked
        self.matches, self.all_matches, self.buffer, self.encoder = matches, matches * world, buffer, buffer.encoder
        first_match += rank * matches
        self.arena = BatchArena(matches, device, seed, first_match, stride=self.all_matches)
        slots = torch.arange(rank * matches, (rank + 1) * matches)
        self._stagger_at = (slots * TURNS // self.all_matches).to(device)
        # Teams that learn: one in every match, and the other ones of matches where both do.
        self.slot = torch.tensor([*range(matches), *line_up.both], dtype=torch.int32)
        side = slots % 2
        self.side = torch.cat((side, 1 - side[list(line_up.both)])).to(torch.uint8)
        self.seats = seats_of(self.slot, self.side).to(device)
        self._away = seats_of(torch.arange(matches), 1 - side).to(device)
        past, alone = [list(place) for place in line_up.past], list(line_up.alone)
        self.past = [seats_of(torch.tensor(place), 1 - side[place]).to(device) for place in past]
        self.alone = seats_of(torch.tensor(alone, dtype=torch.int64), 1 - side[alone]).to(device)
        self.slot, self.side = self.slot.to(device), self.side.to(device)
        fixed = torch.full((matches,), NOBODY, dtype=torch.int16)
        for number, place in enumerate((*line_up.past, line_up.both + line_up.alone), len(self.opponents)):
            fixed[list(place)] = number
        self.fixed = fixed.to(device)
        self.columns = len(self.opponents) + len(line_up.past) + 2
        self.rows = torch.zeros(len(self.seats), self.encoder.width, dtype=buffer.dtype, device=device)
        self.frames = self.encoder.frames(self.rows)
        self.answers = torch.zeros(len(self.seats), answers, device=device)  # the network's: logits, and maybe a value
        self.moves = torch.zeros(matches, SNAKES, dtype=torch.int8, device=device)
        self.epsilon = torch.zeros(1, device=device)
        self.which = torch.zeros(matches, dtype=torch.uint8, device=device)  # number of the opponent
        self._edges = torch.ones(len(self.opponents), dtype=torch.float64, device=device)
        self._totals = torch.zeros(matches, 2, TEAM, device=device)
        self._tally = torch.zeros(matches, self.columns, 3, dtype=torch.int64, device=device)
        self._bind(torch.tensor(weights, device=device))
        self._turns = 0
        self._met = dict.fromkeys(range(len(self.opponents)), 0)  # opponent -> last turn at which it was in the mix
        self.others: list[Callable[[], None]] = []  # write the moves of networks that play and do not learn

    def _bind(self, weights: torch.Tensor) -> None:
        arena, buffer, device = self.arena, self.buffer, self.arena.device
        state, keys, events = arena.state, arena.keys, arena.events
        met = (state, keys, self._edges, self.fixed, self.which)
        self._meet = device_loops.bind("meet_all", self.matches, device, *met)
        self._draw = self.drawing(self.seats, self.frames, self.answers, self.epsilon)
        turn = (state, self.moves, *events, self.slot, self.side, self.frames, self.which, weights)
        rows = (buffer.counts, buffer.moves, buffer.rewards, buffer.over, self._totals, self._tally)
        self._finish = device_loops.bind("finish_all", len(self.slot), device, *turn, *rows)
        self._answers = [
            loops.bind(SCRIPTED[name], arena, self._away, self.moves, 0.0, self.which, i)
            for i, name in enumerate(self.opponents)
        ]

    def drawing(
        self, seats: torch.Tensor, frames: torch.Tensor, answers: torch.Tensor, epsilon: torch.Tensor
    ) -> Callable[[], None]:
        """A call that draws the moves of seats from what a network answered in their frames."""
        drawn = (self.arena.state, self.arena.keys, seats, frames, answers, epsilon, self.masked, self.moves)
        return device_loops.bind("draw_all_moves", len(seats), self.arena.device, *drawn)

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
        if not any(shares):  # all are past selves: what rounding leaves over meets the easiest
            shares[0] = 1.0
        self._edges.copy_(torch.from_numpy(np.cumsum(shares)), non_blocking=True)
        for i, share in enumerate(shares):
            if share > 0:
                self._met[i] = -1  # in the mix
            elif self._met[i] == -1:
                self._met[i] = self._turns

    def play_turn(self, actor: Policy, note: Callable[[], None] | None = None) -> None:
        """One turn of every match, from what the snakes see to the row in the buffer; `note` is called in between."""
        arena, buffer = self.arena, self.buffer
        self._choose_moves(actor)
        buffer.write_observations(self.rows)
        if note is not None:
            note()
        arena.play_turn(self.moves)
        self._finish()
        buffer.advance()
        arena.start(arena.events.over)
        self._turns += 1

    def _choose_moves(self, actor: Policy | None) -> None:
        self._meet()
        if actor is not None:
            self.answers.copy_(actor(self.look()))
        self._draw()
        for i, answer in enumerate(self._answers):
            if self._may_be_met(i):
                answer()
        for play in self.others:
            play()

    def look(self) -> torch.Tensor:
        """What the snakes that learn see now; always the same tensor."""
        return self.arena.observe(self.encoder.name, self.seats, out=self.rows)

    def begins(self) -> torch.Tensor:
        """[B]: whether the match is about to play its first turn."""
        return self.arena.state[:, TURN] == 0

    def forget(self, place: int) -> None:
        """Matches with the past self of a place count for nobody: another one takes over."""
        self.which.masked_fill_(self.which == len(self.opponents) + place, self.columns - 1)

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
