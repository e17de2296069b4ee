"""Proves by exhaustive search whether a move kills a snake, in a given future.

A future is a player, who moves the other five snakes, and a seed, from which beans and respawns follow. All moves of
the own snake are tried, three a turn, by the arena's rules. Two verdicts on a move:

    safe    a line of own moves was found that lives for LIVES turns
    fatal   every line of own moves, with every first move of the two mates, dies within DIES turns; a death head-on
            with a foe, who dies, too, is a trade and no proof

Questions are (position, snake, first move); nodes are positions that a snake has reached alive.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch

from arena import BatchArena
from arena.rng import match_key
from arena.rules import CELLS, DIRECTION, HEAD, SNAKES, TEAM, neighbour
from opponents.players import Player

LIVES, DIES = 12, 8  # turns; a move that dies in between is neither safe nor fatal
WIDTHS = (4, 64, None)  # nodes of a question that are followed; more of them, at last all, if these die out
MOST_NODES = 2048  # played at once
_NEIGHBOURS = torch.tensor([[neighbour(cell, action) for action in range(4)] for cell in range(CELLS)])


class Questions(NamedTuple):
    """Positions [N, bytes], the snakes [N] in question, and moves [N]."""

    states: torch.Tensor
    snakes: torch.Tensor
    moves: torch.Tensor

    def take(self, idx: torch.Tensor) -> "Questions":
        return Questions(*(each[idx] for each in self))


class Future(NamedTuple):
    """Who moves the other five snakes, and the seed of beans and respawns."""

    others: Player
    seed: int


def find_only_moves(states: torch.Tensor, snakes: torch.Tensor, futures: Sequence[Future]) -> torch.Tensor:
    """The move [N] that is safe in all futures while the other two are fatal in all; -1 where there is none such."""
    found = torch.full((len(states),), -1)
    left = torch.arange(len(states))
    for number, future in enumerate(futures):
        of = all_moves(states[left], snakes[left])
        moves = of.moves.view(-1, 3)
        safe = find_safe_moves(states[left], snakes[left], future)
        one = safe.sum(1) == 1
        rest = (~safe & one[:, None]).flatten().nonzero()[:, 0]
        one[rest[outlives(of.take(rest), future, DIES, hopeful=True)] // 3] = False
        left, move = left[one], moves[one][safe[one]]
        if number == 0:
            found[left] = move
        agreed = found[left] == move
        left = left[agreed]
    proven = torch.full_like(found, -1)
    proven[left] = found[left]
    return proven


def find_safe_moves(states: torch.Tensor, snakes: torch.Tensor, future: Future) -> torch.Tensor:
    """Which of the three legal moves are safe: [N, 3] bool."""
    return outlives(all_moves(states, snakes), future, LIVES).view(-1, 3)


def all_moves(states: torch.Tensor, snakes: torch.Tensor) -> Questions:
    """Three questions for each position and snake: one for each legal move."""
    return Questions(states.repeat_interleave(3, 0), snakes.repeat_interleave(3), legal_moves(states, snakes).flatten())


def outlives(
    of: Questions, future: Future, turns: int, hopeful: bool = False, widths: Sequence[int | None] = WIDTHS
) -> torch.Tensor:
    """Whether [N] bool each snake can stay alive for `turns` turns.

    `hopeful` also tries all first moves of the mates, and counts a trade as staying alive.
    """
    key, width = match_key(future.seed, 0), widths[0]
    alive = torch.zeros(len(of.states), dtype=torch.bool)
    cut = torch.zeros(len(of.states), dtype=torch.bool)  # some nodes of these questions were left out
    question = torch.arange(len(of.states))
    nodes, mates = of, None
    if hopeful:
        question = question.repeat_interleave(9)
        nodes = of.take(question)
        mates = _mates_moves(nodes)
    for turn in range(turns):
        states, died, traded = _play(nodes, key, future.others, mates if turn == 0 else None)
        if hopeful:
            alive[question[traded]] = True
        kept = ~died & ~alive[question]
        if width is not None:
            kept[kept.clone()] = _place_in_run(question[kept]) < width
            cut[question[~kept & ~died]] = True
        states, question = states[kept], question[kept]
        if turn + 1 < turns:
            snakes, question = of.snakes[question], question.repeat_interleave(3)
            moves = legal_moves(states, snakes).flatten()
            nodes = Questions(states.repeat_interleave(3, 0), snakes.repeat_interleave(3), moves)
    alive[question] = True
    again = (cut & ~alive).nonzero()[:, 0]
    if len(again):
        alive[again] = outlives(of.take(again), future, turns, hopeful, widths[1:])
    return alive


def legal_moves(states: torch.Tensor, snakes: torch.Tensor) -> torch.Tensor:
    """The three moves [N, 3] of a snake [N] that are no reversal."""
    reversal = states[torch.arange(len(states)), DIRECTION + snakes].long() ^ 1
    moves = torch.arange(3).expand(len(states), 3)
    return moves + (moves >= reversal[:, None])


def _heads_after(states: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
    """The cells [N, 6] that the heads enter."""
    return _NEIGHBOURS[states[:, HEAD : HEAD + SNAKES].long(), actions.long()]


def _mates_of(snakes: torch.Tensor) -> torch.Tensor:
    """The two mates [N, 2] of a snake [N]."""
    others = (snakes[:, None] + torch.tensor([1, 2])) % TEAM
    return (snakes - snakes % TEAM)[:, None] + others


def _mates_moves(nodes: Questions) -> torch.Tensor:
    """The mates' moves [N, 2] of nodes that stand nine times in a row: all nine pairs."""
    number, mates = torch.arange(len(nodes.states)), _mates_of(nodes.snakes)
    first = legal_moves(nodes.states, mates[:, 0])[number, number % 9 // 3]
    second = legal_moves(nodes.states, mates[:, 1])[number, number % 3]
    return torch.stack([first, second], 1)


def _place_in_run(numbers: torch.Tensor) -> torch.Tensor:
    """0, 1, 2, ... within each run of equal numbers."""
    place = torch.arange(len(numbers))
    first = torch.ones(len(numbers), dtype=torch.bool)
    first[1:] = numbers[1:] != numbers[:-1]
    return place - torch.where(first, place, 0).cummax(0).values


def _play(
    nodes: Questions, key: int, others: Player, mates: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """One turn from every node: positions after it, whether [N] the own snake died, and whether in a trade."""
    after = torch.empty_like(nodes.states)
    died, traded = (torch.empty(len(after), dtype=torch.bool) for _ in range(2))
    for first in range(0, len(after), MOST_NODES):
        part = slice(first, min(first + MOST_NODES, len(after)))
        sim = BatchArena(part.stop - part.start)
        sim.state.copy_(nodes.states[part])
        sim.keys.fill_(key)
        rows, snakes = torch.arange(sim.matches), nodes.snakes[part]
        seats = torch.arange(sim.matches * SNAKES, dtype=torch.int32)
        actions = torch.zeros(sim.matches, SNAKES, dtype=torch.int8)
        others.begin(sim, seats)
        others.act(sim, seats, actions)
        actions[rows, snakes] = nodes.moves[part].to(torch.int8)
        if mates is not None:
            actions[rows[:, None], _mates_of(snakes)] = mates[part].to(torch.int8)
        heads = _heads_after(sim.state, actions)
        events = sim.play_turn(actions)
        after[part] = sim.state
        died[part] = events.died[rows, snakes]
        foes = heads.view(-1, 2, TEAM)[rows, 1 - snakes // TEAM]
        traded[part] = died[part] & (foes == heads[rows, snakes][:, None]).any(1)
    return after, died, traded
