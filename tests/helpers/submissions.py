"""Submissions for tests: files with a controller, and matches that one of them plays."""

import os
from pathlib import Path

import torch

from arena import BatchArena
from arena.rules import SNAKES
from opponents.sandbox.process import why_not_sandboxed
from opponents.submission import Submission, SubmissionOptions, random_move

# In the sandbox where the system can: tests of the sandbox itself, in opponents/sandbox, are skipped where it cannot.
SANDBOXED = SubmissionOptions(uncaged=why_not_sandboxed() is not None)
UNCAGED_FLAG = ("--uncaged",) if SANDBOXED.uncaged else ()


def written(folder: Path, text: str) -> Path:
    path = folder / "submission.py"
    path.write_text(text)
    return path


def controller(body: str, before: str = "") -> str:
    """A submission whose controller has this body."""
    lines = "".join(f"    {line}\n" for line in body.strip().splitlines())
    return f"{before}\ndef my_controller(observation, action_space, is_act_continuous):\n{lines}"


class Game:
    """A batch in which the submission plays red (or blue) and the others at random."""

    def __init__(self, matches: int = 1, seed: int = 1, blue: bool = False) -> None:
        self.arena = BatchArena(matches, seed=seed)
        self.arena.start()
        first = 3 if blue else 0
        seats = [b * SNAKES + first + i for b in range(matches) for i in range(3)]
        self.seats = torch.tensor(seats, dtype=torch.int32)
        self.mine = slice(first, first + 3)
        self.random = torch.Generator().manual_seed(seed)

    def turn(self, submission: Submission) -> torch.Tensor:
        """Play a turn; the moves of the submission."""
        moves = torch.randint(0, 4, (self.arena.matches, SNAKES), generator=self.random).to(torch.int8)
        kept = moves.clone()
        submission.act(self.arena, self.seats, moves)
        kept[:, self.mine] = moves[:, self.mine]
        assert torch.equal(kept, moves)
        self.arena.play_turn(moves)
        return moves[:, self.mine]

    def drawn(self, b: int = 0) -> list[int]:
        """The random moves that stand in for the submission's on this turn."""
        snakes = range(SNAKES)[self.mine]
        return [random_move(self.arena.state[b].numpy(), int(self.arena.keys[b]), snake) for snake in snakes]


def children(of: int | None = None) -> set[int]:
    """Processes started from here, or by another process; the ended ones that nobody waited for included."""
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError):  # it ended meanwhile
            continue
        if parent == (of or os.getpid()):
            found.add(int(stat.parent.name))
    return found
