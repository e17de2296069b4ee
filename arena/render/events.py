"""The events of a match that a viewer lists: deaths with their cause, where it was too late, changes of the lead."""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from arena.deaths import FOE_HEAD, MATE_HEAD, OWN_BODY, REVERSAL, UNKNOWN, Death, decisive_turn, find_deaths
from arena.match_dict import from_dict
from arena.render.timeline import Timeline
from arena.rules import TEAM
from arena.snake_names import TEAMS, full_name, snake_name, team_name

DEATH, BOXED, LEAD, DECISIVE = "death", "boxed", "lead", "decisive"


class Event(NamedTuple):
    """An event of a turn."""

    turn: int  # index in the timeline: the event happens between this turn and the one before
    kind: str  # DEATH, BOXED, LEAD or DECISIVE
    team: str  # red or blue, whom it concerns; empty if the teams are level
    text: str


def events(timeline: Timeline) -> list[Event]:
    """All events of the turns played so far, in order."""
    deaths, found = timeline_deaths(timeline), []
    turn_numbers = [turn.state["turn"] for turn in timeline.turns]
    for death in deaths:
        if death.boxed_since is not None:
            died = f"no safe move until its death on turn {turn_numbers[death.turn]}"
            text = f"{full_name(death.snake)} was already lost here: {died}"
            found.append(Event(death.boxed_since, BOXED, team_name(death.snake), text))
    found += [Event(death.turn, DEATH, team_name(death.snake), death_text(death, turn_numbers)) for death in deaths]
    found += _changes_of_the_lead(timeline)
    found += _decisive(timeline, deaths)
    order = (DEATH, LEAD, DECISIVE, BOXED)
    return sorted(found, key=lambda event: (event.turn, order.index(event.kind)))


def timeline_deaths(timeline: Timeline) -> Sequence[Death]:
    """The deaths of the turns played so far, in order."""
    return _deaths(timeline, len(timeline.turns))


@lru_cache(maxsize=1)  # a window asks again with every motion of the mouse
def _deaths(timeline: Timeline, _turns: int) -> Sequence[Death]:
    def position(index: int) -> np.ndarray:
        return from_dict(timeline.turns[index].state)

    return find_deaths(timeline.turns, position)


def death_text(death: Death, turn_numbers: Sequence[int]) -> str:
    """Who died, of what, what it cost and since when it was boxed in. turn_numbers: by index."""
    cost = f", lost {death.lost}" if death.lost > 0 else ""
    boxed = "" if death.boxed_since is None else f"; no safe move since turn {turn_numbers[death.boxed_since]}"
    return f"{full_name(death.snake)} {_cause_text(death)}{cost}{boxed}"


def _cause_text(death: Death) -> str:
    if death.cause == REVERSAL:
        return "reversed and crashed"
    if death.cause == UNKNOWN or death.other is None:
        return "crashed"
    if death.cause == OWN_BODY:
        return "hit itself"
    return f"{'met the head of' if death.cause in (MATE_HEAD, FOE_HEAD) else 'hit'} {snake_name(death.other)}"


def _changes_of_the_lead(timeline: Timeline) -> list[Event]:
    found, leader = [], _leader(*timeline.team_scores(0))
    for index in range(1, len(timeline.turns)):
        red, blue = timeline.team_scores(index)
        now = _leader(red, blue)
        if now != leader:
            who = f"{now} leads" if now else "the teams are level"
            found.append(Event(index, LEAD, now, f"{who}, {red} : {blue}"))
            leader = now
    return found


def _decisive(timeline: Timeline, deaths: Sequence[Death]) -> list[Event]:
    """The decisive turn of a match that is over and lost."""
    scores = [timeline.team_scores(index) for index in range(len(timeline.turns))]
    winner = _leader(*scores[-1])
    if not winner or not timeline.over:
        return []
    loser = 1 - TEAMS.index(winner)
    leads = [score[loser] - score[1 - loser] for score in scores]
    decisive = decisive_turn(leads, [death for death in deaths if death.snake // TEAM == loser])
    if decisive is None:
        return []
    index = decisive.turn
    text = f"decisive: {TEAMS[loser]}'s lead goes from {leads[index - 1]:+d} to {leads[index]:+d}"
    return [Event(index, DECISIVE, TEAMS[loser], text)]


def _leader(red: int, blue: int) -> str:
    return "" if red == blue else TEAMS[blue > red]
