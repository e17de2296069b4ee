"""The events of a match that a viewer lists: deaths with their cause, where it was too late, changes of the lead."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from arena.deaths import FOE_HEAD, MATE_HEAD, OWN_BODY, REVERSAL, UNKNOWN, Death, decisive_turn, find_deaths
from arena.match_dict import from_dict
from arena.render.timeline import Timeline
from arena.rules import TEAM
from arena.snake_names import TEAMS, team_name

DEATH, BOXED, LEAD, DECISIVE = "death", "boxed", "lead", "decisive"
SNAKE = "snake {snake} ({team})"


class Phrase(NamedTuple):
    """A piece of a text: {name} stands for a value. A page says it in its own language."""

    template: str
    values: Mapping[str, int | str]


class Event(NamedTuple):
    """An event of a turn."""

    turn: int  # index in the timeline: the event happens between this turn and the one before
    kind: str  # DEATH, BOXED, LEAD or DECISIVE
    team: str  # red or blue, whom it concerns; empty if the teams are level
    phrases: list[Phrase]  # of its text

    @property
    def text(self) -> str:
        """What happened, in English."""
        return _said(self.phrases)


def events(timeline: Timeline) -> list[Event]:
    """All events of the turns played so far, in order."""
    deaths, found = timeline_deaths(timeline), []
    turn_numbers = [turn.state["turn"] for turn in timeline.turns]
    for death in deaths:
        if death.boxed_since is not None:
            text = f"{SNAKE} was already lost here: no safe move until its death on turn {{turn}}"
            phrase = Phrase(text, _snake(death) | {"turn": turn_numbers[death.turn]})
            found.append(Event(death.boxed_since, BOXED, team_name(death.snake), [phrase]))
    found += [Event(death.turn, DEATH, team_name(death.snake), _death_phrases(death, turn_numbers)) for death in deaths]
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
    return _said(_death_phrases(death, turn_numbers))


def _said(phrases: Sequence[Phrase]) -> str:
    return "".join(template.format(**values) for template, values in phrases)


def _snake(death: Death) -> dict[str, int | str]:
    return {"snake": death.snake, "team": team_name(death.snake)}


def _death_phrases(death: Death, turn_numbers: Sequence[int]) -> list[Phrase]:
    phrases = [_cause(death)]
    if death.lost > 0:
        phrases.append(Phrase(", lost {lost}", {"lost": death.lost}))
    if death.boxed_since is not None:
        phrases.append(Phrase("; no safe move since turn {turn}", {"turn": turn_numbers[death.boxed_since]}))
    return phrases


def _cause(death: Death) -> Phrase:
    if death.cause == REVERSAL:
        return Phrase(f"{SNAKE} reversed and crashed", _snake(death))
    if death.cause == UNKNOWN or death.other is None:
        return Phrase(f"{SNAKE} crashed", _snake(death))
    if death.cause == OWN_BODY:
        return Phrase(f"{SNAKE} hit itself", _snake(death))
    how = "met the head of" if death.cause in (MATE_HEAD, FOE_HEAD) else "hit"
    return Phrase(f"{SNAKE} {how} snake {{other}}", _snake(death) | {"other": death.other})


def _changes_of_the_lead(timeline: Timeline) -> list[Event]:
    found, leader = [], _leader(*timeline.team_scores(0))
    for index in range(1, len(timeline.turns)):
        red, blue = timeline.team_scores(index)
        now = _leader(red, blue)
        if now != leader:
            text = "{team} leads, {red} : {blue}" if now else "the teams are level, {red} : {blue}"
            found.append(Event(index, LEAD, now, [Phrase(text, {"team": now, "red": red, "blue": blue})]))
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
    values = {"team": TEAMS[loser], "before": f"{leads[index - 1]:+d}", "after": f"{leads[index]:+d}"}
    phrase = Phrase("decisive: {team}'s lead goes from {before} to {after}", values)
    return [Event(index, DECISIVE, TEAMS[loser], [phrase])]


def _leader(red: int, blue: int) -> str:
    return "" if red == blue else TEAMS[blue > red]
