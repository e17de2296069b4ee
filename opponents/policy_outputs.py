"""Outputs of the policies in one match: action probabilities and values by snake, for viewers and replay files."""

from collections.abc import Sequence
from typing import Any, Protocol, TypeGuard

import torch

from arena import BatchArena
from arena.replay import Replay
from arena.rules import SNAKES, TEAM
from opponents.players import Player


class OpenPolicy(Player, Protocol):
    """A player that can tell its probabilities and values."""

    def policy_outputs(self, arena: BatchArena, seats: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Probabilities [N, 4] of the actions in these seats, and the values [N] if there are any."""


def is_policy(player: Player) -> TypeGuard[OpenPolicy]:
    """Whether a player can tell its probabilities and values."""
    return hasattr(player, "policy_outputs")


def team_seats() -> list[torch.Tensor]:
    """The seats of red and of blue in an arena with one match."""
    return [torch.arange(TEAM, dtype=torch.int32) + team * TEAM for team in range(2)]


def policy_outputs(players: Sequence[Player], arena: BatchArena) -> dict[str, list[Any]]:
    """Outputs in the present state of an arena with one match, by red and blue, as a turn line of a replay has them.

    {"probs": [[up, down, left, right] or None] x 6, "values": [number or None] x 6}
    """
    probs: list[list[float] | None] = [None] * SNAKES
    values: list[float | None] = [None] * SNAKES
    for player, seats in zip(players, team_seats(), strict=True):
        if not is_policy(player):
            continue
        of_team, value = player.policy_outputs(arena, seats)
        for i, snake in enumerate(seats.tolist()):
            probs[snake] = of_team[i].tolist()
            values[snake] = None if value is None else float(value[i])
    return {"probs": probs, "values": values}


def add_policy_outputs(replay: Replay, red: Player, blue: Player) -> Replay:
    """The replay with the outputs of its policies, which see the match once more. Its moves stay as they are."""
    arena = BatchArena(1, seed=replay.seed, first_match=replay.match)
    arena.start()
    arena.set_match(0, replay.start)
    players, unused = (red, blue), torch.zeros((1, SNAKES), dtype=torch.int8)
    for player, seats in zip(players, team_seats(), strict=True):
        if is_policy(player):
            player.begin(arena, seats)
    outputs = []
    for actions in replay.actions():
        outputs.append(policy_outputs(players, arena))
        for player, seats in zip(players, team_seats(), strict=True):
            if is_policy(player):
                player.act(arena, seats, unused)  # a recurrent policy moves on to its next hidden state
        arena.play_turn(torch.tensor([actions]))
    return replay.with_policy(outputs)
