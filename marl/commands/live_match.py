"""Matches that are played while the window shows them: two players, and humans in some of the seats."""

from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from arena.batch import BatchArena
from arena.render.timeline import Playlist, PolicyOutput, Timeline, Turn, policy_outputs_of
from arena.replay import Recorder, today, write
from arena.rules import OVER, SNAKES, TURNS
from marl.errors import UserError
from marl.storage.checkpoint import MANIFEST
from marl.storage.checkpoint_finder import resolve
from marl.storage.policy_player import PolicyPlayer
from marl.storage.run_folder import GROUP, newest
from marl.storage.saved_player import load_policy
from opponents.players import Player
from opponents.policy_outputs import policy_outputs, team_seats

QUEUE_MAX = 2  # moves of a human in the queue: enough for a quick U-turn
KEPT = 20  # earlier matches that can be opened again

# Called before every match: the player of a team, and a note for the user ("" for none).
Supply = Callable[[], tuple[Player, str]]


class LiveMatch(Timeline):
    """One match in progress: plays a turn when the window needs it, and keeps all frames."""

    def __init__(
        self,
        players: Sequence[Player],
        humans: tuple[int, ...],
        seed: int,
        number: int,
        note: str,
        record_policy: bool = False,
    ) -> None:
        self._players, self.humans, self.note, self._record_policy = players, humans, note, record_policy
        self.seed, self.match, self.date = seed, number, today()
        self._arena = BatchArena(1, seed=seed, first_match=number)
        self._arena.start()
        self._seats = team_seats()
        self._moves = torch.zeros((1, SNAKES), dtype=torch.int8)
        self._wanted: dict[int, list[int]] = {snake: [] for snake in humans}
        self._stopped = False
        for player, seats in zip(players, self._seats, strict=True):
            player.begin(self._arena, seats)
        start = self._arena.get_match(0)
        red, blue = (
            player.name + (" + human" if {*humans} & {*seats.tolist()} else "")
            for player, seats in zip(players, self._seats, strict=True)
        )
        super().__init__(red, blue, [Turn(start, policy_outputs=self._ask_policies())], last=TURNS)
        self._recorder = Recorder(start, seed, number, red, blue, self.date)

    @property
    def over(self) -> bool:
        """Whether no turn can follow: the match has ended, or another match has begun."""
        return self._stopped or bool(self._arena.state[0, OVER])

    def play(self) -> bool:
        """Ask all players for their moves and play a turn; False if the match is over."""
        if self.over:
            return False
        for player, seats in zip(self._players, self._seats, strict=True):
            player.act(self._arena, seats, self._moves)
        directions = self.turns[-1].state["directions"]
        for snake, wanted in self._wanted.items():
            move = wanted.pop(0) if wanted else directions[snake]
            # Straight on instead of a reversal, which the game would replace by a random move.
            self._moves[0, snake] = directions[snake] if move == directions[snake] ^ 1 else move
        self._recorder.add(self._moves[0], self._outputs if self._record_policy else None)
        events = self._arena.play_turn(self._moves)
        ate, died = (tuple(mask[0].nonzero().flatten().tolist()) for mask in (events.ate, events.died))
        actions = self._moves[0].tolist()
        self.turns.append(Turn(self._arena.get_match(0), actions, ate, died, self._ask_policies()))
        if self.over:
            self.last = len(self.turns) - 1
        return True

    def steer(self, snake: int, move: int) -> None:
        """Queue a move of a human for the next turn without one."""
        wanted = self._wanted[snake]
        if len(wanted) < QUEUE_MAX and [move] != wanted[-1:]:
            wanted.append(move)

    def stop(self) -> None:
        """End the match early: its players go on to another match."""
        self._stopped = True
        self.last = len(self.turns) - 1

    def write(self, path: Path) -> None:
        """Write the replay of the turns played so far."""
        write(path, self._recorder.replay())

    def _ask_policies(self) -> dict[int, PolicyOutput]:
        """Move probabilities and values by snake, for players that are policies; none for snakes of humans."""
        self._outputs = policy_outputs(self._players, self._arena)
        for snake in self.humans:
            self._outputs["probs"][snake] = self._outputs["values"][snake] = None
        return policy_outputs_of(self._outputs)


class LiveMatches(Playlist):
    """An endless playlist of matches between two teams, from match 0 of a seed on. The last KEPT can be reopened."""

    def __init__(
        self,
        red: Supply,
        blue: Supply,
        humans: tuple[int, ...],
        seed: int,
        record: Path | None,
        record_policy: bool = False,
    ) -> None:
        self._supplies, self._humans, self._seed, self._record = (red, blue), humans, seed, record
        self._record_policy = record_policy
        self._matches: dict[int, LiveMatch] = {}
        self._next = 0

    @property
    def first(self) -> int:
        """Number of the oldest match that is kept."""
        return min(self._matches, default=0)

    def open(self, number: int) -> Timeline:
        """Match `number`. Opening a new match starts it and ends the match before."""
        if number == self._next:
            self.finish()
            supplied = [supply() for supply in self._supplies]
            note = "; ".join(each for _, each in supplied if each)
            players = [player for player, _ in supplied]
            self._matches[number] = LiveMatch(players, self._humans, self._seed, number, note, self._record_policy)
            self._matches.pop(number - KEPT, None)
            self._next += 1
        return self._matches[number]

    def warm_up(self) -> None:
        """Compile everything that a turn needs, before the window opens: compiling would block it."""
        players = [supply()[0] for supply in self._supplies]
        LiveMatch(players, (), self._seed, 0, "").play()

    def finish(self) -> None:
        """End the match in progress, and write its replay if `record` is set."""
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


class LatestCheckpoint:
    """Supplies the player for the next match: the newest checkpoint of a run, loaded again when it has changed."""

    def __init__(self, path: Path) -> None:
        if (path / GROUP).is_dir():  # the folder of all runs stands for the run started last
            path = newest(path) or path
        self.run = path
        self._loaded: tuple[Path, int] | None = None
        self._player: PolicyPlayer | None = None

    def __call__(self) -> tuple[PolicyPlayer, str]:
        """The player, and a note if it changed. If the newest checkpoint cannot be loaded, the player before stays."""
        try:
            folder = resolve(self.run)
            found = folder, (folder / MANIFEST).stat().st_mtime_ns
            if found != self._loaded:
                player = load_policy(str(folder))
                player.name = f"{self.run.name} {folder.name}"
                note = "" if self._player is None else f"new checkpoint: {folder.name}"
                self._loaded, self._player = found, player
                return player, note
        except (UserError, OSError) as error:
            if self._player is None:
                raise UserError(f"--watch: {error}") from None
            return self._player, f"still {self._player.name}: {error}"
        return self._player, ""
