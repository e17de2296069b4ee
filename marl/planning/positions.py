"""Positions in which exactly one move of one snake avoids a death that marl.planning.escape proves.

Mined from matches in which long snakes of a player died: of each death, the last position before it that has a safe
move, if this is an only move. `python -m marl.planning.positions FILE` mines again; see docs/planning.md.
"""

import argparse
import time
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.lib.npyio import NpzFile

from arena import BatchArena
from arena.rules import LENGTH, MATCH_BYTES, OVER, SNAKES, TEAM, TURNS
from marl.errors import UserError
from marl.planning.escape import LIVES, Future, find_only_moves, find_safe_moves
from marl.planning.planned_player import load_player
from opponents.match import open_player
from opponents.players import Player

FUTURES = (("level4", 1), ("level4:0.2", 2), ("territory", 3), ("champion_planes", 4))
LOOK_BACK = 10  # turns before a death
# What NumPy raises for a file that is missing, empty, cut off, damaged or of another kind.
UNREADABLE = (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile, zlib.error)
LEAST_LENGTH = 8  # of the snake: its death costs five cells or more


class Positions(NamedTuple):
    """N positions, one snake in each, and the only move that keeps it alive."""

    states: torch.Tensor  # [N, MATCH_BYTES] uint8
    snakes: torch.Tensor  # [N]
    moves: torch.Tensor  # [N]

    def take(self, idx: torch.Tensor) -> "Positions":
        return Positions(*(each[idx] for each in self))


def load(path: str | Path) -> Positions:
    """Positions of a file that `save` wrote."""
    try:
        states, snakes, moves = _read_arrays(path)
    except UNREADABLE as error:
        problem = getattr(error, "strerror", None) or str(error).partition("\n")[0]
        message = f"{path}: no file of positions ({problem}); mine one with python -m marl.planning.positions FILE"
        raise UserError(message) from None
    count = len(states)
    if states.shape != (count, MATCH_BYTES) or not count or any(each.shape != (count,) for each in (snakes, moves)):
        raise UserError(f"{path}: no positions, or those of another version of the arena; mine them again")
    return Positions(states.to(torch.uint8), snakes, moves)


def _read_arrays(path: str | Path) -> list[torch.Tensor]:
    """The arrays of the file, in the order of Positions; one of UNREADABLE if it is no such file."""
    with open(path, "rb") as file:
        arrays = np.load(file)
        if not isinstance(arrays, NpzFile):  # a .npy file
            raise ValueError("it holds a single array")
        return [torch.from_numpy(arrays[name].astype(np.int64)) for name in Positions._fields]


def save(path: str | Path, positions: Positions) -> None:
    """Write positions as a compressed .npz file, about 150 bytes each."""
    np.savez_compressed(path, **{name: each.numpy().astype(np.uint8) for name, each in positions._asdict().items()})


def solved_by(player: Player, positions: Positions, device: str = "cpu", seed: int = 0) -> torch.Tensor:
    """Whether [N] bool the player plays the only move. The seed is that of a planner's draws."""
    count = len(positions.states)
    arena = BatchArena(count, device, seed)
    arena.start()
    arena.state.copy_(positions.states)
    first = torch.arange(count) * SNAKES + positions.snakes // TEAM * TEAM
    seats = (first[:, None] + torch.arange(TEAM)).flatten().int().to(arena.device)
    moves = torch.zeros(count, SNAKES, dtype=torch.int8, device=arena.device)
    player.begin(arena, seats)
    player.act(arena, seats, moves)
    return moves.cpu()[torch.arange(count), positions.snakes] == positions.moves


def open_futures(opened: ExitStack, names: Sequence[tuple[str, int]] = FUTURES) -> list[Future]:
    """The futures of (player, seed) pairs."""
    return [Future(open_player(name, opened, load_player), seed) for name, seed in names]


def mine(name: str, away: str, count: int, matches: int, seed: int) -> Iterator[Positions]:
    """Positions from matches of a player, in rounds of `matches`, until there are `count` of them or more."""
    total = 0
    with ExitStack() as opened:
        futures = open_futures(opened)
        while total < count:
            with ExitStack() as players:
                home, other = (open_player(each, players, load_player) for each in (name, away))
                deaths = _collect_deaths(home, other, matches, seed)
            found = _last_only_moves(deaths, futures)
            total += len(found.states)
            print(f"seed {seed}: {len(deaths)} deaths, {len(found.states)} positions", flush=True)
            yield found
            seed += 1


def _collect_deaths(home: Player, away: Player, matches: int, seed: int) -> list[tuple[torch.Tensor, int]]:
    """The last LOOK_BACK positions before each death of a long snake of home (and of away, if it has the same name)."""
    arena = BatchArena(matches, seed=seed)
    arena.start()
    all_seats = torch.arange(matches * SNAKES, dtype=torch.int32).view(matches, 2, TEAM)
    side = torch.arange(matches) % 2
    seats = [all_seats[torch.arange(matches), each].flatten() for each in (side, 1 - side)]
    counted = torch.full((matches * SNAKES,), home.name == away.name)
    counted[seats[0].long()] = True
    moves = torch.zeros(matches, SNAKES, dtype=torch.int8)
    for player, own in zip((home, away), seats, strict=True):
        player.begin(arena, own)
    before: list[torch.Tensor] = []
    deaths = []
    for turn in range(TURNS - LIVES):
        for player, own in zip((home, away), seats, strict=True):
            player.act(arena, own, moves)
        before = [*before[1 - LOOK_BACK :], arena.state.clone()]
        alive = before[-1][:, OVER, None] == 0
        died = arena.play_turn(moves).died & alive & counted.view(matches, SNAKES)
        died &= before[-1][:, LENGTH : LENGTH + SNAKES] >= LEAST_LENGTH
        if turn >= LOOK_BACK:
            deaths += [(torch.stack([state[b] for state in before]), snake) for b, snake in died.nonzero().tolist()]
    return deaths


def _last_only_moves(deaths: list[tuple[torch.Tensor, int]], futures: Sequence[Future]) -> Positions:
    """The last position before each death with a safe move in the first future, if all futures have an only move."""
    found = []
    left = list(range(len(deaths)))
    for back in range(1, LOOK_BACK + 1):
        if not left:
            break
        states = torch.stack([deaths[i][0][-back] for i in left])
        snakes = torch.tensor([deaths[i][1] for i in left])
        safe = find_safe_moves(states, snakes, futures[0]).any(1)
        long = states[torch.arange(len(states)), LENGTH + snakes] >= LEAST_LENGTH
        found.append(Positions(states, snakes, torch.full_like(snakes, -1)).take(safe & long))
        left = [i for i, saved in zip(left, safe.tolist(), strict=True) if not saved]
    if not found:
        return Positions(torch.empty(0, MATCH_BYTES, dtype=torch.uint8), torch.empty(0), torch.empty(0))
    candidates = Positions(*(torch.cat(each) for each in zip(*found, strict=True)))
    moves = find_only_moves(candidates.states, candidates.snakes, futures)
    return candidates._replace(moves=moves).take(moves >= 0)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m marl.planning.positions", description=__doc__.partition("\n")[0])
    parser.add_argument("file", help="the .npz file to write")
    parser.add_argument("--player", default="champion", help="whose deaths (default: champion)")
    parser.add_argument("--away", default="champion", help="whom it meets (default: champion)")
    parser.add_argument(
        "--count", type=int, default=200, help="positions wanted; the last round may find more (default: 200)"
    )
    parser.add_argument("--matches", type=int, default=150, help="matches of a round (default: 150)")
    parser.add_argument("--seed", type=int, default=1, help="of the first round; the next has the next one")
    args = parser.parse_args()
    began = time.perf_counter()
    parts: list[Positions] = []
    for part in mine(args.player, args.away, args.count, args.matches, args.seed):
        parts.append(part)
        save(args.file, Positions(*(torch.cat(each) for each in zip(*parts, strict=True))))
    print(f"{args.file}: {sum(len(part.states) for part in parts)} found in {time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
