"""Matches that are played while somebody looks at them, turn by turn: two players, and humans in some of the seats."""

from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from arena.batch import BatchArena
from arena.render.timeline import Playlist, Thought, Timeline, Turn
from arena.replay import Recorder, write
from arena.rules import OVER, SNAKES, TEAM, TURNS
from opponents.players import Player

AHEAD = 2  # moves that a human may be ahead of the match: enough for a quick turn around

KEPT = 20  # matches that one can go back to

# What gives the player of a team for the next match, and a note if there is something to say about it.
Supply = Callable[[], tuple[Player, str]]


class LiveMatch(Timeline):
    """One match of the arena. It goes on when it is looked at, and keeps what was."""

    def __init__(self, players: Sequence[Player], humans: tuple[int, ...], seed: int, number: int, note: str) -> None:
        self._players, self.humans, self.note = players, humans, note
        self._arena = BatchArena(1, seed=seed, first_match=number)
        self._arena.start()
        self._seats = [torch.arange(TEAM, dtype=torch.int32) + team * TEAM for team in range(2)]
        self._moves = torch.zeros((1, SNAKES), dtype=torch.int8)
        self._wanted: dict[int, list[int]] = {snake: [] for snake in humans}
        self._stopped = False
        for player, seats in zip(players, self._seats, strict=True):
            player.begin(self._arena, seats)
        start = self._arena.get_match(0)
        names = [
            player.name + (" + human" if {*humans} & {*seats.tolist()} else "")
            for player, seats in zip(players, self._seats, strict=True)
        ]
        super().__init__(*names, [Turn(start, thoughts=self._thoughts())], last=TURNS)
        self._recorder = Recorder(start, seed, number, *names)

    @property
    def over(self) -> bool:
        """Whether no turn can follow: the match has ended, or another one has begun."""
        return self._stopped or bool(self._arena.state[0, OVER])

    def play(self) -> bool:
        """Ask everybody for a move and play a turn; False if the match is over."""
        if self.over:
            return False
        for player, seats in zip(self._players, self._seats, strict=True):
            player.act(self._arena, seats, self._moves)
        directions = self.turns[-1].state["directions"]
        for snake, wanted in self._wanted.items():
            move = wanted.pop(0) if wanted else directions[snake]
            # Straight on instead of a reversal, which the game would replace by chance.
            self._moves[0, snake] = directions[snake] if move == directions[snake] ^ 1 else move
        self._recorder.add(self._moves[0])
        events = self._arena.play_turn(self._moves)
        ate, died = (tuple(of[0].nonzero().flatten().tolist()) for of in (events.ate, events.died))
        actions = self._moves[0].tolist()
        self.turns.append(Turn(self._arena.get_match(0), actions, ate, died, self._thoughts()))
        if self.over:
            self.last = len(self.turns) - 1
        return True

    def steer(self, snake: int, move: int) -> None:
        """Take a human's move for the next turn that has none."""
        wanted = self._wanted[snake]
        if len(wanted) < AHEAD and [move] != wanted[-1:]:
            wanted.append(move)

    def stop(self) -> None:
        """Let nothing follow: the players go on to another match."""
        self._stopped = True
        self.last = len(self.turns) - 1

    def write(self, path: Path) -> None:
        """Write the replay of what was played."""
        write(path, self._recorder.replay())

    def _thoughts(self) -> dict[int, Thought]:
        """What the policies among the players think of the position, by snake; humans think for themselves."""
        found: dict[int, Thought] = {}
        for player, seats in zip(self._players, self._seats, strict=True):
            if not hasattr(player, "thoughts"):
                continue
            moves, values = player.thoughts(self._arena, seats)
            for i, snake in enumerate(seats.tolist()):
                if snake not in self.humans:
                    value = None if values is None else float(values[i])
                    found[snake] = Thought(tuple(moves[i].tolist()), value)
        return found


class LiveMatches(Playlist):
    """Match after match between two teams, from the first of a seed. The last KEPT of them can be seen again."""

    def __init__(self, red: Supply, blue: Supply, humans: tuple[int, ...], seed: int, record: Path | None) -> None:
        self._supplies, self._humans, self._seed, self._record = (red, blue), humans, seed, record
        self._matches: dict[int, LiveMatch] = {}
        self._next = 0

    @property
    def first(self) -> int:
        """The first match that is still there."""
        return min(self._matches, default=0)

    def open(self, number: int) -> Timeline:
        """The match of that number, begun if it is a new one, which ends the one before."""
        if number == self._next:
            self.finish()
            supplied = [supply() for supply in self._supplies]
            note = "; ".join(each for _, each in supplied if each)
            players = [player for player, _ in supplied]
            self._matches[number] = LiveMatch(players, self._humans, self._seed, number, note)
            self._matches.pop(number - KEPT, None)
            self._next += 1
        return self._matches[number]

    def warm_up(self) -> None:
        """Have everything compiled that a turn needs: in an open window it would be a long silence."""
        players = [supply()[0] for supply in self._supplies]
        LiveMatch(players, (), self._seed, 0, "").play()

    def finish(self) -> None:
        """End the match that goes on, and write its replay if that is wanted."""
        match = self._matches.get(self._next - 1)
        if match is None:
            return
        match.stop()
        if self._record is not None and len(match.turns) > 1:
            path = self._record
            if self._next > 1:
                path = path.with_name(f"{path.stem}.{self._next}{path.suffix}")
            match.write(path)
            print(path, flush=True)
