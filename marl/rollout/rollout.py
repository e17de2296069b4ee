"""The matches of one rank: the team that learns against the opponents of the schedule, one turn after another.

B = matches of this rank. Slot i of the whole world (all ranks' slots in order) plays the matches i, i + all slots, ...;
even slots play red, odd ones blue. So the world plays the same matches whatever the number of ranks. Nothing here waits
for the device: results add up in tensors until `pop_results`.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from numba import get_num_threads

from arena import BatchArena
from arena.backends.cuda_graphs import CapturedBriefly
from arena.rules import ACTIONS, SNAKES, TEAM, TURN, TURNS
from marl.rollout.assignment import MatchAssignment, stagger_turns
from marl.rollout.turn_buffer import TurnBuffer
from marl.rollout.turn_chain import TurnChain, TurnPart
from marl.rollout.turn_kernels import (
    NONE,
    Matches,
    MatchSums,
    Seats,
    Teams,
    assign_opponents,
    choose_likeliest_actions,
    draw_actions,
    finish_turns,
    record_steps,
)
from opponents import loops
from opponents.scheduler import Mix
from opponents.scripted import SCRIPTED

Policy = Callable[[torch.Tensor], torch.Tensor]  # observations [N, W] -> outputs [N, 4 or 5], logits first
BindPolicy = Callable[[torch.Tensor, torch.Tensor], Sequence[partial]]  # obs, outputs -> compiled calls, maybe none
Wrap = Callable[[str, Callable], Callable]  # (part, function) -> the function, measured


class Runner(Protocol):
    """Runs pieces of work at once; see compute/overlap.py."""

    @property
    def parts(self) -> int:
        """How many run at once."""

    def run(self, work: Callable[..., Any], *arguments: Any) -> Callable[[], Any]:
        """Begin a piece of work; the returned call waits for it."""


class RolloutResults(NamedTuple):
    """Matches of this rank that finished since the last call, and deaths; tensors on the device."""

    tally: torch.Tensor  # [opponents, 3] wins, draws, losses, by opponent id
    rewards: torch.Tensor  # [3] sums over the finished matches, by snake
    deaths: torch.Tensor  # [2] of all turns: of the team that learns and of its opponents
    lengths: torch.Tensor  # [2] of both teams at the end, sums over the finished matches


def seats_of(matches: torch.Tensor, sides: torch.Tensor) -> torch.Tensor:
    """The seats of teams, three each."""
    return (matches.long()[:, None] * SNAKES + sides.long()[:, None] * TEAM + torch.arange(TEAM)).flatten().int()


def _call_all(functions: Sequence[Callable[[], None]]) -> None:
    for function in functions:
        function()


class Rollout:
    """B matches, their opponents, and the buffer that their turns are written to.

    Opponent ids: the scripted opponents of the schedule, then the past selves that play, then the named players, then
    the team itself, then one for matches that count for nobody.
    """

    def __init__(
        self,
        assignment: MatchAssignment,
        opponents: Sequence[str],
        reward_weights: Sequence[float],
        buffer: TurnBuffer,
        seed: int,
        rank: int = 0,
        world: int = 1,
        first_match: int = 0,
        outputs: int = ACTIONS,
        masks_reversal: bool = True,
    ) -> None:
        device, matches = buffer.device, assignment.matches
        self.opponents, self.assignment, self.masks_reversal = tuple(opponents), assignment, masks_reversal
        self.matches, self.all_matches, self.buffer, self.encoder = matches, matches * world, buffer, buffer.encoder
        first_match += rank * matches
        self.arena = BatchArena(matches, device, seed, first_match, stride=self.all_matches)
        self._stagger_at = stagger_turns(rank * matches, matches, self.all_matches, device)
        self._place_teams(torch.arange(rank * matches, (rank + 1) * matches) % 2)
        encoder = buffer.encoder
        self.obs = torch.zeros(len(self.seats), encoder.width, dtype=buffer.dtype, device=device)
        self.orientations = encoder.orientations(self.obs)
        self.outputs = torch.zeros(len(self.seats), outputs, device=device)  # the network's: logits, and maybe a value
        self.board_actions = torch.zeros(matches, SNAKES, dtype=torch.int8, device=device)
        self.epsilon = torch.zeros(1, device=device)
        self.opponent_id = torch.zeros(matches, dtype=torch.uint8, device=device)
        self._mix_cdf = torch.ones(len(self.opponents), dtype=torch.float64, device=device)
        tally = torch.zeros(matches, self.opponent_ids, 3, dtype=torch.int64, device=device)
        deaths, lengths = torch.zeros(2, matches, 2, dtype=torch.int64, device=device)
        self._results = MatchSums(torch.zeros(matches, 2, TEAM, device=device), tally, deaths, lengths)
        self._bind_loops(torch.tensor(reward_weights, device=device))
        self._turns = 0
        self._in_mix_until = dict.fromkeys(range(len(self.opponents)), 0)  # opponent id -> turn; -1: still in the mix
        self._parts: list[tuple[torch.Tensor, TurnChain]] = []  # each plays turns in one compiled call; with its counts
        self._is_observed = False  # whether obs are those of the present turn
        # Orientations are read from self.obs.
        self._may_encode_into_buffer = encoder.orientation_at is None
        self.frozen_players: list[Callable[[], None]] = []  # write the actions of players that do not learn

    def _place_teams(self, side: torch.Tensor) -> None:
        """Seats of all networks. side [B]: of the team that learns, 0 red, 1 blue."""
        assignment, device = self.assignment, self.buffer.device
        matches = torch.arange(self.matches)
        both, one = list(assignment.self_play_both), list(assignment.self_play_one)
        # One team learns in every match; the other sides of the matches where both learn come last.
        team_match = torch.cat((matches, torch.tensor(both, dtype=torch.int64))).int()
        is_second = torch.arange(len(team_match)) >= self.matches
        self.is_second = is_second.to(device)
        team_side = (side[team_match.long()] ^ is_second).to(torch.uint8)
        self.seats = seats_of(team_match, team_side).to(device)
        self.team_match, self.team_side = team_match.to(device), team_side.to(device)
        self._opponent_seats = seats_of(matches, 1 - side).to(device)
        past = [list(slots) for slots in assignment.past_selves]
        self.past_self_seats = [seats_of(torch.tensor(slots), 1 - side[slots]).to(device) for slots in past]
        named = [list(slots) for slots in assignment.named]
        self.named_seats = [seats_of(torch.tensor(slots), 1 - side[slots]).to(device) for slots in named]
        self.self_play_seats = seats_of(torch.tensor(one, dtype=torch.int64), 1 - side[one]).to(device)
        preset = torch.full((self.matches,), NONE, dtype=torch.int16)
        for opponent_id, slots in enumerate((*past, *named, both + one), len(self.opponents)):
            preset[slots] = opponent_id
        self.preset_opponent = preset.to(device)
        self.opponent_ids = len(self.opponents) + len(past) + len(named) + 2

    def _bind_loops(self, reward_weights: torch.Tensor) -> None:
        arena, device = self.arena, self.arena.device
        self._matches = Matches(arena.state, arena.keys)
        self.learning_seats = Seats(self.seats, self.orientations, self.outputs)
        self._assigned = (self._matches, self._mix_cdf, self.preset_opponent, self.opponent_id)
        self._assign_opponents = assign_opponents.bind(self.matches, device, *self._assigned)
        self._drawn = (self._matches, self.learning_seats, self.epsilon, self.masks_reversal, self.board_actions)
        self._draw_actions = draw_actions.bind(len(self.seats), device, *self._drawn)
        teams = Teams(self.team_match, self.team_side, self.orientations, self.is_second)
        self._turn = (arena.state, arena.events, self.board_actions, self.opponent_id, teams, reward_weights)
        rows = (self.buffer.turn_rows, self._results)
        self._finish_turn = finish_turns.bind(len(self.team_match), device, *self._turn, *rows)
        self._scripted = self._bind_scripted(loops.bind, self._opponent_seats)
        self._recorded = (arena.state, self.learning_seats, self.board_actions, self.masks_reversal)
        self._record: list[Callable[[], None]] = []  # stores what the policy computed, if the buffer keeps it
        policy_rows = self.buffer.policy_rows
        if policy_rows is not None:
            self._record = [record_steps.bind(len(self.seats), device, *self._recorded, policy_rows)]

    def _bind_scripted(self, bind: Callable[..., Any], seats: torch.Tensor) -> list[Any]:
        """Decisions of the schedule's opponents, by opponent id. bind: loops.bind, or loops.bind_serial."""
        names = self.opponents if self.assignment.scheduled else ()
        decide = (self.arena, seats, self.board_actions, 0.0, self.opponent_id)
        return [bind(SCRIPTED[name], *decide, i) for i, name in enumerate(names)]

    def bind_drawing(
        self, seats: torch.Tensor, orientations: torch.Tensor, outputs: torch.Tensor, epsilon: torch.Tensor
    ) -> Callable[[], None]:
        """A call that draws the actions of seats from a network's outputs."""
        drawn = (self._matches, Seats(seats, orientations, outputs), epsilon, self.masks_reversal, self.board_actions)
        return draw_actions.bind(len(seats), self.arena.device, *drawn)

    def bind_likeliest(
        self, seats: torch.Tensor, orientations: torch.Tensor, outputs: torch.Tensor
    ) -> Callable[[], None]:
        """A call that takes the likeliest legal actions of seats from a network's outputs."""
        drawn = (self._matches, Seats(seats, orientations, outputs), self.board_actions)
        return choose_likeliest_actions.bind(len(seats), self.arena.device, *drawn)

    def instrument(self, wrap: Wrap) -> None:
        """Measure the parts of a turn: each function is replaced by wrap(part, function)."""
        self._parts, self._is_observed = [], False  # the loops of a chain could not be told apart
        self._may_encode_into_buffer = False  # parts are recorded once, with the same tensors
        self._assign_opponents = wrap("opponents", self._assign_opponents)
        self.observe = wrap("encode", self.observe)
        self._draw_actions = wrap("policy", self._draw_actions)
        scripted = self._scripted
        if self.arena.device.type == "cuda":  # plays every opponent anyway: one part, not one for each
            scripted = [partial(_call_all, tuple(scripted))]
        self._scripted = [wrap("opponents", act) for act in scripted]
        self.frozen_players = [wrap("opponents", play) for play in self.frozen_players]
        self.buffer.write_obs = wrap("buffer", self.buffer.write_obs)
        self._record = [wrap("buffer", record) for record in self._record]
        self.arena.play_turn = wrap("arena", self.arena.play_turn)
        self._finish_turn = wrap("buffer", self._finish_turn)
        self.buffer.advance = wrap("buffer", self.buffer.advance)
        self.arena.start = wrap("arena", self.arena.start)

    def start(self, policy: Policy | None = None, records: bool = False) -> None:
        """Start all matches and bring them to different turns, so that every stretch of turns is alike.

        The policy plays them up to there (without one, actions are random) against the mix, and nobody learns from it:
        the buffer's next row is written again and again. Matches that are cut off on the way do not count; the others
        keep their rewards. records: as a CUDA graph, if nobody decides on the host.
        """
        self._is_observed = False
        self.arena.start()
        turn = torch.zeros_like(self._stagger_at[:1])

        def play_turn() -> None:
            self._choose_actions(policy)
            self.arena.play_turn(self.board_actions)
            self._finish_turn()
            cut_off = self._stagger_at == turn
            self._results.returns[:, 0].masked_fill_(cut_off[:, None], 0.0)
            self.arena.start(cut_off)
            turn.add_(1)

        play = CapturedBriefly(play_turn, self.arena.device) if records else play_turn
        for _ in range(TURNS):
            play()
        self.pop_results()  # of matches that do not count

    def set_mix(self, mix: Mix) -> None:
        """The shares of the opponents that matches meet that start from now on."""
        shares = [mix.get(name, 0.0) for name in self.opponents]
        if not any(shares):  # all are past selves: matches left over by rounding meet the easiest opponent
            shares[0] = 1.0
        self._mix_cdf.copy_(torch.from_numpy(np.cumsum(shares)), non_blocking=True)
        for i, share in enumerate(shares):
            if share > 0:
                self._in_mix_until[i] = -1
            elif self._in_mix_until[i] == -1:
                self._in_mix_until[i] = self._turns

    def bind_turns(self, bind_policy: BindPolicy, runner: Runner) -> None:
        """Let `play_turns` be one compiled call on each thread, if the policy can be.

        Otherwise a turn of few matches is mostly Python, and threads wait for each other several times in it. Not with
        players that do not learn: some of them are Python.
        """
        self._parts, self._runner = [], runner
        parts, teams = runner.parts, len(self.team_match)
        if self.frozen_players or get_num_threads() > parts:
            return
        if parts > 1 and teams > self.matches:  # both sides of a match learn, and their teams stand apart
            return
        found = []
        for i in range(parts):
            matches = slice(self.matches * i // parts, self.matches * (i + 1) // parts)
            part = TurnPart(matches, matches if parts > 1 else slice(0, teams), self.buffer.counts.clone())
            policy = bind_policy(self.obs[part.seats], self.outputs[part.seats])
            if not policy:
                return
            found.append((part.counts, self._bind_part(part, policy)))
        self._parts = found

    def _bind_part(self, part: TurnPart, policy: Sequence[partial]) -> TurnChain:
        """The loops of play_turn for some of the matches."""
        seats = self.seats[part.seats], self.obs[part.seats]
        turn = self.arena.bind_turn(self.encoder.name, *seats, self.board_actions, part.matches)
        write, advance = self.buffer.bind_writing(self.obs, part)
        before: list[Callable[[], None]] = [assign_opponents.bind_part(part.matches, *self._assigned), *policy]
        before.append(draw_actions.bind_part(part.seats, *self._drawn))
        rows = (self.buffer.turn_rows._replace(counts=part.counts), self._results)
        finish = finish_turns.bind_part(part.teams, *self._turn, *rows)
        # Encoded at the end: the last observations of a call are the first ones of the next.
        record = []
        if self.buffer.policy_rows is not None:
            kept = self.buffer.policy_rows._replace(counts=part.counts)
            record = [record_steps.bind_part(part.seats, *self._recorded, kept)]
        after: list[Callable[[], None]] = [write, *record, turn.play, finish, advance, turn.start, turn.encode]
        opponent_seats = self._opponent_seats[TEAM * part.matches.start : TEAM * part.matches.stop]
        return TurnChain(before, self._bind_scripted(loops.bind_serial, opponent_seats), after)

    def play_turns(self, turns: int, policy: Policy) -> None:
        """Several turns of every match; see play_turn."""
        if not self._parts:
            for _ in range(turns):
                self.play_turn(policy)
            return
        self.observe()
        met = [self._may_be_met(i) for i in range(len(self.opponents))]
        for counts, _ in self._parts:
            counts.copy_(self.buffer.counts)
        (_, chain), *others = self._parts
        running = [self._runner.run(other.play, turns, met) for _, other in others]
        chain.play(turns, met)
        for wait in running:
            wait()
        self.buffer.count(0, turns)
        self._is_observed = True
        self._turns += turns

    def play_turn(self, policy: Policy) -> None:
        """One turn of every match, from observation to buffer row."""
        arena, buffer = self.arena, self.buffer
        row = buffer.row_of(self._turns) if self._may_encode_into_buffer else None
        self._choose_actions(policy, row)
        self._is_observed = False
        if row is None:
            buffer.write_obs(self.obs)
        for record in self._record:
            record()
        arena.play_turn(self.board_actions)
        self._finish_turn()
        buffer.advance()
        arena.start(arena.events.over)
        self._turns += 1

    def _choose_actions(self, policy: Policy | None, row: torch.Tensor | None = None) -> None:
        """row: of the buffer, where observations are written."""
        self._assign_opponents()
        if policy is not None:
            self.outputs.copy_(policy(self.observe() if row is None else self._encode(row)))
        self._draw_actions()
        for i, act in enumerate(self._scripted):
            if self._may_be_met(i):
                act()
        for play in self.frozen_players:
            play()

    def observe(self) -> torch.Tensor:
        """Observations of the snakes that learn, as the buffer keeps them; always the same tensor."""
        return self.obs if self._is_observed else self._encode(self.obs)

    def _encode(self, out: torch.Tensor) -> torch.Tensor:
        return self.arena.observe(self.encoder.name, self.seats, out=out)

    def is_first(self) -> torch.Tensor:
        """[G]: whether the team's match is about to play its first turn."""
        return (self.arena.state[:, TURN] == 0)[self.team_match.long()]

    def void_matches(self, past_self: int) -> None:
        """Let running matches against a past self count for nobody: another network takes its seats."""
        opponent_id = len(self.opponents) + past_self
        self.opponent_id.masked_fill_(self.opponent_id == opponent_id, self.opponent_ids - 1)

    def pop_results(self) -> RolloutResults:
        """Results since the last call."""
        returns, tally, deaths, lengths = self._results
        results = RolloutResults(tally.sum(0), returns[:, 1].sum(0), deaths.sum(0), lengths.sum(0))
        returns[:, 1] = 0
        for counts in (tally, deaths, lengths):
            counts.zero_()
        return results

    def state_dict(self) -> dict[str, torch.Tensor]:
        """Copies on the host of all matches, and of the results since the last pop."""
        return {name: tensor.to("cpu", copy=True) for name, tensor in self._saved().items()}

    def load_state_dict(self, state: dict[str, torch.Tensor]) -> None:
        """Resume where state_dict() stopped, instead of `start`."""
        self._is_observed = False
        for name, tensor in self._saved().items():
            if name in state:  # deaths and lengths are not in old checkpoints
                tensor.copy_(state[name])
        # Any opponent may be in the middle of a match.
        self._in_mix_until = {i: -1 if last == -1 else self._turns for i, last in self._in_mix_until.items()}

    def _saved(self) -> dict[str, torch.Tensor]:
        """Tensors by their names in checkpoints."""
        arena = self.arena
        matches = {"state": arena.state, "keys": arena.keys, "numbers": arena.numbers, "which": self.opponent_id}
        returns, tally, deaths, lengths = self._results
        return {**matches, "totals": returns, "tally": tally, "deaths": deaths, "lengths": lengths}

    def episodes(self, turns: int) -> int:
        """Matches that all ranks have finished after this many turns: known without asking the device."""
        rounds, rest = divmod(turns, TURNS)
        return rounds * self.all_matches + -(-rest * self.all_matches // TURNS)

    def _may_be_met(self, i: int) -> bool:
        # A match against an opponent that left the mix may still be going on. A graph must hold all of them.
        last = self._in_mix_until[i]
        return self.arena.device.type == "cuda" or last == -1 or self._turns <= last + TURNS
