"""Positions of bodies, beans and effects at any time, also between two turns. Places are in cells, on the torus.

At a whole turn this is the state of the match, as frame.py draws it.
"""

from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np

from arena.encoders.orientation import STEPS
from arena.render.timeline import Timeline, Turn
from arena.rules import COLUMNS, ROWS, SNAKES, START_LENGTH

SIZE = np.array((ROWS, COLUMNS), float)
CORNER = 0.42  # radius of a body's bends, in cells

# Moments within a turn, 0 to 1.
IMPACT = 0.5  # a dying snake hits the obstacle
GONE = 0.85  # the dead snake has disappeared
BORN = 0.6  # respawned snakes and new beans begin to appear
EATEN = 0.6  # the head has reached the bean


class Snake(NamedTuple):
    """A snake to be drawn."""

    number: int
    places: np.ndarray  # [n, 2] along the body, tail first
    ways: np.ndarray  # [n] distance from the head along the body: 0 at the head, 1 at the tail
    marks: np.ndarray  # [m, 2] the middle of every segment but the head
    head: np.ndarray  # [2]
    direction: int
    size: float  # 1; less while the snake appears or disappears


class Bean(NamedTuple):
    """A bean to be drawn."""

    place: tuple[int, int]
    size: float


class Effect(NamedTuple):
    """A recent meal or death."""

    snake: int
    place: np.ndarray
    change: int  # change of the snake's length
    died: bool
    age: float  # 0 to 1


class _Body(NamedTuple):
    """A snake on a path of cells: its head is `start` cells down the path, its tail `end` cells."""

    number: int
    path: list[list[int]]
    start: float
    end: float
    direction: int
    size: float = 1.0


def snakes(timeline: Timeline, position: float, per_cell: int = 8) -> list[Snake]:
    """The snakes at a position of the timeline, with `per_cell` places per cell of their bodies."""
    return snakes_at(timeline, [position], per_cell)[0]


def snakes_at(timeline: Timeline, positions: Sequence[float], per_cell: int = 8) -> list[list[Snake]]:
    """The snakes at several positions, which takes less time than one after the other."""
    bodies = [_bodies(timeline, position) for position in positions]
    placed = iter(_placed([body for at_position in bodies for body in at_position], per_cell))
    return [[*islice(placed, len(at_position))] for at_position in bodies]


def beans(timeline: Timeline, position: float) -> list[Bean]:
    """The beans at a position of the timeline."""
    index, part = _split(timeline, position)
    before = {tuple(bean) for bean in timeline.turns[index].state["beans"]}
    if not part:
        return [Bean(bean, 1.0) for bean in sorted(before)]
    after = {tuple(bean) for bean in timeline.turns[index + 1].state["beans"]}
    shown = [Bean(bean, 1.0) for bean in sorted(before & after)]
    if part < GONE:
        shown += [Bean(bean, min(1.0, (GONE - part) / (GONE - EATEN))) for bean in sorted(before - after)]
    if part > BORN:
        shown += [Bean(bean, (part - BORN) / (1 - BORN)) for bean in sorted(after - before)]
    return shown


def effects(timeline: Timeline, position: float, span: float = 1.0) -> list[Effect]:
    """The meals and deaths of the last `span` turns."""
    found = []
    for turn in range(max(1, int(position - span)), min(int(position) + 2, len(timeline.turns))):
        before, after = timeline.turns[turn - 1], timeline.turns[turn]
        for snake in sorted({*after.ate, *after.died}):
            died = snake in after.died
            age = (position - (turn - 1 + (IMPACT if died else EATEN))) / span
            if not 0 <= age < 1:
                continue
            if died:
                change = START_LENGTH - len(before.state["snakes"][snake])
                place = _beyond(before, snake, _last_direction(before, after, snake))
            else:
                change = 1
                place = after.state["snakes"][snake][0]
            found.append(Effect(snake, np.array(place, float), change, died, age))
    return found


def nearest_turn(step: np.ndarray) -> np.ndarray:
    """A difference of places as the shorter way around the torus."""
    return (step + SIZE / 2) % SIZE - SIZE / 2


def _split(timeline: Timeline, position: float) -> tuple[int, float]:
    """The index of the turn, and the part of the next turn that has passed."""
    index = min(int(position), len(timeline.turns) - 1)
    return index, position - index if index < len(timeline.turns) - 1 else 0.0


def _bodies(timeline: Timeline, position: float) -> list[_Body]:
    index, part = _split(timeline, position)
    before = timeline.turns[index]
    if not part:
        return [body for i in range(SNAKES) for body in _resting(before, i)]
    after = timeline.turns[index + 1]
    shown = []
    for i in range(SNAKES):
        if i in after.died:
            if part < GONE:
                way = min(part, IMPACT)
                direction = _last_direction(before, after, i)
                path = [_beyond(before, i, direction), *before.state["snakes"][i]]
                size = 1 - max(0.0, part - IMPACT) / (GONE - IMPACT)
                shown.append(_Body(i, path, 1 - way, len(path) - 1 - way, direction, size))
            if part > BORN:
                shown += _resting(after, i, (part - BORN) / (1 - BORN))
        elif before.state["snakes"][i]:
            old, new = before.state["snakes"][i], after.state["snakes"][i]
            end = len(old) + (len(new) - 1 - len(old)) * part  # the tail stays if the snake eats
            shown.append(_Body(i, [new[0], *old], 1 - part, end, after.state["directions"][i]))
    return shown


def _resting(turn: Turn, snake: int, size: float = 1.0) -> list[_Body]:
    body = turn.state["snakes"][snake]
    return [_Body(snake, body, 0, len(body) - 1, turn.state["directions"][snake], size)] if body else []


def _placed(bodies: list[_Body], per_cell: int) -> list[Snake]:
    """The snakes of pictures. All paths lie in one array, one after the other: numpy is slow with small arrays."""
    if not bodies:
        return []
    counts = np.array([len(body.path) for body in bodies])
    firsts = np.cumsum(counts) - counts
    start, end = (np.array(ends, float) for ends in zip(*((body.start, body.end) for body in bodies), strict=True))
    cells = np.array([place for body in bodies for place in body.path], float)
    steps = nearest_turn(np.diff(cells, axis=0, append=cells[-1:]))
    steps[firsts + counts - 1] = 0
    gaps = np.abs(steps).sum(1) > 1  # the body of a respawned snake can have a gap: nothing is drawn in it
    # Radius of the bend in every cell; 0 where the body is straight. At both ends the bends are smaller.
    bent = np.zeros(len(cells), bool)
    bent[1:] = ((steps[:-1] * steps[1:]).sum(1) == 0) & ~gaps[:-1] & ~gaps[1:]
    index = np.arange(len(cells)) - np.repeat(firsts, counts)
    radii = np.clip(np.minimum(index - np.repeat(start, counts), np.repeat(end, counts) - index), 0, CORNER) * bent

    def places(along: np.ndarray, first: np.ndarray) -> np.ndarray:
        """The places `along` cells down the paths that begin at `first`."""
        whole = along.astype(int)
        part = along - whole
        whole += first
        part = np.where(gaps[whole], part.round(), part)
        found = cells[whole] + part[:, None] * steps[whole]
        nearest = np.rint(along).astype(int)
        beside = along - nearest
        curved = np.flatnonzero(np.abs(beside) < radii[nearest + first])
        bend = (nearest + first)[curved]
        radius = radii[bend, None]
        angle = (beside[curved, None] + radius) / np.maximum(2 * radius, 1e-9) * np.pi / 2
        back, on = -radius * steps[bend - 1], radius * steps[bend]
        found[curved] = cells[bend] + back * (1 - np.sin(angle)) + on * (1 - np.cos(angle))
        return found % SIZE

    length = end - start
    sampled, segments = np.ceil(length * per_cell).astype(int) + 1, (length + 1e-9).astype(int)
    owner, number = _numbered(sampled)
    down = length[owner] * (1 - number / np.maximum(sampled - 1, 1)[owner])  # cells from the head
    marked, segment = _numbered(segments)
    along = np.concatenate((down + start[owner], segment + 1 + start[marked], start))
    found = places(along, np.concatenate((firsts[owner], firsts[marked], firsts)))
    ways = down / np.maximum(length, 1e-9)[owner]
    of_bodies, of_marks, heads = np.split(found, (len(owner), len(owner) + len(marked)))
    ends, marks_end = np.cumsum(sampled).tolist(), np.cumsum(segments).tolist()
    snakes, first, first_mark = [], 0, 0
    for body, head, last, last_mark in zip(bodies, heads, ends, marks_end, strict=True):
        own, marks = slice(first, last), of_marks[first_mark:last_mark]
        snakes.append(Snake(body.number, of_bodies[own], ways[own], marks, head, body.direction, body.size))
        first, first_mark = last, last_mark
    return snakes


def _numbered(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For groups of `counts` members, one after the other: the group of every member, and its number in the group."""
    group = np.repeat(np.arange(len(counts)), counts)
    return group, np.arange(len(group)) - (np.cumsum(counts) - counts)[group]


def _last_direction(before: Turn, after: Turn, snake: int) -> int:
    """The last direction of a snake that died; straight on if it reversed (the game drew that move at random)."""
    stored = before.state["directions"][snake]
    if after.actions is None or after.actions[snake] == stored ^ 1:
        return stored
    return after.actions[snake]


def _beyond(turn: Turn, snake: int, direction: int) -> list[int]:
    """The cell in front of a head."""
    (row, column), (rows, columns) = turn.state["snakes"][snake][0], STEPS[direction]
    return [(row + rows) % ROWS, (column + columns) % COLUMNS]
