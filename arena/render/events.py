"""The events of a match that a viewer lists: deaths with their cause, and changes of the lead."""

from typing import Any, NamedTuple

from arena.encoders.orientation import STEPS
from arena.match_dict import team_scores
from arena.render.timeline import Timeline, Turn
from arena.rules import COLUMNS, ROWS, SNAKES, START_LENGTH
from arena.snake_names import TEAMS, full_name, snake_name, team_name

DEATH, LEAD = "death", "lead"


class Event(NamedTuple):
    """An event of a turn."""

    turn: int  # index in the timeline: the event happens between this turn and the one before
    kind: str  # DEATH or LEAD
    team: str  # red or blue, whom it concerns; empty if the teams are level
    text: str


def events(timeline: Timeline) -> list[Event]:
    """All events of the turns played so far, in order."""
    found = []
    leader = _leader(timeline.turns[0].state)
    for index in range(1, len(timeline.turns)):
        before, after = timeline.turns[index - 1], timeline.turns[index]
        for snake in after.died:
            lost = len(before.state["snakes"][snake]) - START_LENGTH
            cost = f", lost {lost}" if lost > 0 else ""
            text = f"{full_name(snake)} {cause_of_death(before, after, snake)}{cost}"
            found.append(Event(index, DEATH, team_name(snake), text))
        now = _leader(after.state)
        if now != leader:
            red, blue = team_scores(after.state)
            who = f"{now} leads" if now else "the teams are level"
            found.append(Event(index, LEAD, now, f"{who}, {red} : {blue}"))
            leader = now
    return found


def cause_of_death(before: Turn, after: Turn, snake: int) -> str:
    """What a snake that died ran into.

    After a reversal the game draws the move at random, and no file records it: then the cause is "reversed".
    """
    action, direction = _action(after, snake), before.state["directions"][snake]
    if action is not None and action == direction ^ 1:
        return "reversed and crashed"
    place = _target(before, snake, direction if action is None else action)
    for other in range(SNAKES):
        if other != snake and before.state["snakes"][other] and _moved_head(before, after, other) == place:
            return f"met the head of {snake_name(other)}"
    for other in range(SNAKES):
        # A tail that leaves its cell in this turn is no obstacle, unless its snake eats.
        body = before.state["snakes"][other]
        if place in (body if other in after.ate else body[:-1]):
            return "hit itself" if other == snake else f"hit {snake_name(other)}"
    return "crashed"


def _action(turn: Turn, snake: int) -> int | None:
    return None if turn.actions is None else turn.actions[snake]


def _target(turn: Turn, snake: int, direction: int) -> list[int]:
    (row, column), (rows, columns) = turn.state["snakes"][snake][0], STEPS[direction]
    return [(row + rows) % ROWS, (column + columns) % COLUMNS]


def _moved_head(before: Turn, after: Turn, snake: int) -> list[int] | None:
    """Where a head went; None where no file records it."""
    if snake not in after.died:
        return after.state["snakes"][snake][0]
    action, direction = _action(after, snake), before.state["directions"][snake]
    if action is not None and action == direction ^ 1:
        return None
    return _target(before, snake, direction if action is None else action)


def _leader(state: dict[str, Any]) -> str:
    red, blue = team_scores(state)
    return "" if red == blue else TEAMS[blue > red]
