"""What a viewer shows of a match: all turns of a recorded one, or those played so far of one that goes on."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from arena.rules import SNAKES, TEAM

if TYPE_CHECKING:  # both bring torch, which nobody needs to look at a match
    from arena.jidi_log import JidiLog
    from arena.replay import Replay


NAME_MAX = 100  # letters of a player's name


class Thought(NamedTuple):
    """What a policy makes of a snake's position."""

    moves: tuple[float, ...]  # the probability of each of the four
    value: float | None  # what it expects to gain, if it says so


@dataclass(frozen=True)
class Turn:
    """A position, and how it came about."""

    state: dict[str, Any]
    actions: list[int] | None = None  # of the turn that led here; None at the start, and where nobody knows
    ate: tuple[int, ...] = ()
    died: tuple[int, ...] = ()
    thoughts: dict[int, Thought] = field(default_factory=dict)  # by snake


class Timeline:
    """The turns of one match. A match that goes on overrides `play`, one with humans in it also `steer`."""

    humans: tuple[int, ...] = ()  # the snakes they steer
    note = ""  # told when the match is opened

    def __init__(self, red: str, blue: str, turns: list[Turn], last: int | None = None) -> None:
        self.red, self.blue, self.turns = _shown(red), _shown(blue), turns
        self.last = len(turns) - 1 if last is None else last  # index of the last turn, as far as can be foreseen

    @property
    def over(self) -> bool:
        """Whether no turn can follow."""
        return True

    def play(self) -> bool:
        """Play one more turn; False if there is none."""
        return False

    def steer(self, snake: int, move: int) -> None:
        """Take a human's move for the next turn that has none."""

    def lengths(self, index: int) -> list[int]:
        """Of the six snakes at a turn."""
        return [len(body) for body in self.turns[index].state["snakes"]]

    def team_lengths(self, index: int) -> tuple[int, int]:
        """Of red and blue at a turn."""
        lengths = self.lengths(index)
        return sum(lengths[:TEAM]), sum(lengths[TEAM:])


class Playlist:
    """The matches that a window shows, by number."""

    first = 0  # the first that can be opened
    count: int | None = None  # None: always one more than were opened
    endless = False  # whether the next match follows by itself

    def open(self, number: int) -> Timeline:
        """The match of that number. Only the newest of those opened can go on."""
        raise NotImplementedError


class Recordings(Playlist):
    """Matches that were played before."""

    def __init__(self, matches: "list[Replay | JidiLog]") -> None:
        self._matches, self.count = matches, len(matches)

    def open(self, number: int) -> Timeline:
        """The recorded match of that number."""
        return recorded_timeline(self._matches[number])


def _shown(name: str) -> str:
    """A name as it can be drawn, whatever a file says; of a long one the end, which tells paths apart."""
    return "".join(letter if letter.isprintable() else "?" for letter in name[-NAME_MAX:])


def recorded_timeline(match: "Replay | JidiLog") -> Timeline:
    """A match that was played before, as a timeline."""
    states = match.states()
    turns = [Turn(states[0])]
    if hasattr(match, "turns"):
        for state, line in zip(states[1:], match.turns, strict=True):
            turns.append(Turn(state, line["actions"], tuple(line.get("ate", ())), tuple(line.get("died", ()))))
    else:  # a competition log, which does not say what happened
        for before, state, actions in zip(states, states[1:], match.actions, strict=False):
            turns.append(Turn(state, actions, *_what_happened(before, state)))
    return Timeline(match.red, match.blue, turns)


def _what_happened(before: dict[str, Any], after: dict[str, Any]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Who ate and who died between two positions: a body that is shorter or does not go on where it was has respawned.

    One of three cells that respawned where it would have gone looks as if it lived; nothing else would show it either.
    """
    ate, died = [], []
    for snake in range(SNAKES):
        old, new = before["snakes"][snake], after["snakes"][snake]
        if len(new) < len(old) or (old and new[1:] != old[: len(new) - 1]):
            died.append(snake)
        elif len(new) > len(old):
            ate.append(snake)
    return tuple(ate), tuple(died)
