"""Timeline: one match's frames by turn, recorded or still being played. Playlist: the matches that a window shows."""

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from arena.errors import printable
from arena.match_dict import gains, team_scores
from arena.rules import SNAKES

if TYPE_CHECKING:  # both import torch, which a viewer does not need
    from arena.jidi_log import JidiLog
    from arena.replay import Replay


NAME_MAX = 100  # letters of a player's name; of a longer one the end is shown, which tells paths apart


class PolicyOutput(NamedTuple):
    """The output of a policy for one snake."""

    moves: tuple[float, ...]  # probabilities of the four moves
    value: float | None  # None for a policy without a value


@dataclass(frozen=True)
class Turn:
    """One frame: the state of the match after a turn, and the events of that turn."""

    state: dict[str, Any]
    actions: list[int] | None = None  # of this turn; None at the start, or if they are not recorded
    ate: tuple[int, ...] = ()
    died: tuple[int, ...] = ()
    policy_outputs: dict[int, PolicyOutput] = field(default_factory=dict)  # by snake


class Timeline:
    """One match's frames by turn. A match in progress overrides `play`; one with human players also `steer`."""

    humans: tuple[int, ...] = ()  # snakes steered by humans
    note = ""  # shown when the match is opened
    seed: int | None = None  # with `match`, the number of the match of this seed; None for a competition log
    match: int | None = None
    date = ""  # of the recording; empty if it is not known

    def __init__(self, red: str, blue: str, turns: list[Turn], last: int | None = None) -> None:
        self.red, self.blue = (printable(name[-NAME_MAX:]) for name in (red, blue))
        self.turns = turns
        self.last = len(turns) - 1 if last is None else last  # index; an upper bound while the match goes on

    @property
    def over(self) -> bool:
        """Whether no turn can follow."""
        return True

    def play(self) -> bool:
        """Play one more turn; False if the match is over."""
        return False

    def steer(self, snake: int, move: int) -> None:
        """Queue a move of a human for the next turn without one."""

    def lengths(self, index: int) -> list[int]:
        """Lengths of the six snakes at a turn."""
        return [len(body) for body in self.turns[index].state["snakes"]]

    def gains(self, index: int) -> list[int]:
        """Scores of the six snakes at a turn."""
        return gains(self.turns[index].state)

    def team_scores(self, index: int) -> tuple[int, int]:
        """Scores of red and blue at a turn: the sums of their snakes' gains."""
        return team_scores(self.turns[index].state)


class Playlist:
    """The matches that a window shows, by number."""

    count: int | None = None  # None: endless, there is always a next match
    endless = False  # whether the next match starts by itself

    @property
    def first(self) -> int:
        """Number of the first match that can be opened."""
        return 0

    def open(self, number: int) -> Timeline:
        """Match `number`. Only the newest match that was opened can be in progress."""
        raise NotImplementedError


class Recordings(Playlist):
    """Matches from files."""

    def __init__(self, matches: "list[Replay | JidiLog]") -> None:
        self._matches, self.count = matches, len(matches)

    def open(self, number: int) -> Timeline:
        """Recorded match `number`."""
        return recorded_timeline(self._matches[number])


def recorded_timeline(match: "Replay | JidiLog") -> Timeline:
    """The timeline of a match from a file."""
    states = match.states()
    turns = [Turn(states[0])]
    if hasattr(match, "turns"):
        for state, line in zip(states[1:], match.turns, strict=True):
            # A turn line has the outputs that chose its actions, in the state before.
            turns[-1] = replace(turns[-1], policy_outputs=policy_outputs_of(line))
            turns.append(Turn(state, line["actions"], tuple(line.get("ate", ())), tuple(line.get("died", ()))))
    else:  # a competition log records no meals and deaths
        for before, state, actions in zip(states, states[1:], match.actions, strict=False):
            turns.append(Turn(state, actions, *_meals_and_deaths(before, state)))
    timeline = Timeline(match.red, match.blue, turns)
    for name in ("seed", "match", "date"):  # a competition log has none of them
        setattr(timeline, name, getattr(match, name, getattr(timeline, name)))
    return timeline


def policy_outputs_of(line: dict[str, Any]) -> dict[int, PolicyOutput]:
    """The outputs of policies that a turn line of a replay has, by snake."""
    probs, values = line.get("probs", ()), line.get("values", (None,) * SNAKES)
    return {snake: PolicyOutput(tuple(p), values[snake]) for snake, p in enumerate(probs) if p is not None}


def _meals_and_deaths(before: dict[str, Any], after: dict[str, Any]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The snakes that ate and those that died between two states.

    A body that is shorter, or does not follow from the old one by a move, has respawned. One case is not found: a snake
    of three cells that respawned exactly where it would have moved. Nothing in the two states shows it.
    """
    ate, died = [], []
    for snake in range(SNAKES):
        old, new = before["snakes"][snake], after["snakes"][snake]
        if len(new) < len(old) or (old and new[1:] != old[: len(new) - 1]):
            died.append(snake)
        elif len(new) > len(old):
            ate.append(snake)
    return tuple(ate), tuple(died)
