"""Where a viewer stands in a match, and how it moves: playing, single steps, jumps and the scrub bar.

A position counts turns and may lie between two: 3.25 is a quarter of the way from turn 3 to turn 4.
"""

import math
import time

from arena.render.timeline import Timeline

TURNS_PER_SECOND = 4.0  # at speed 1: a match takes 50 seconds
SPEEDS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
STEP_SECONDS = 0.12  # that a single step takes to be seen
PLAY_SECONDS = 0.01  # that playing turns may take per picture, so that the window answers

BEAN, DEATH = "bean", "death"


class Playback:
    """Moves through a timeline, which may grow while it does."""

    def __init__(self, timeline: Timeline, speed: float = 1.0, paused: bool = False) -> None:
        self.timeline = timeline
        self.speed = speed
        self.paused = paused
        self.position = 0.0
        self._target: float | None = None  # where a single step is going

    @property
    def index(self) -> int:
        """The turn shown, or the one that is being left."""
        return int(self.position)

    @property
    def moving(self) -> bool:
        """Whether the position changes by itself."""
        return self._target is not None or not (self.paused or self.ended)

    @property
    def standing(self) -> bool:
        """Whether a position of the match itself is shown, nothing in between and nothing on its way."""
        return self.position == self.index and not self.moving

    @property
    def ended(self) -> bool:
        """Whether the end of the match is reached."""
        return self.timeline.over and self.position >= len(self.timeline.turns) - 1

    def tick(self, seconds: float) -> None:
        """Move on by this much time."""
        if self._target is not None:
            way = seconds / STEP_SECONDS
            left = self._target - self.position
            if abs(left) <= way:
                self.position, self._target = self._target, None
            else:
                self.position += math.copysign(way, left)
        elif not self.paused:
            self._reach(self.position + seconds * TURNS_PER_SECOND * self.speed)

    def toggle_pause(self) -> None:
        """Stop where it is, or go on; from the end, from the beginning."""
        self._target = None
        if self.ended and len(self.timeline.turns) > 1:
            self.position, self.paused = 0.0, False
        else:
            self.paused = not self.paused

    def step(self, turns: int) -> None:
        """Go to the next whole turn forward (1) or back (-1), and stay there."""
        self.paused = True
        here = self.position if self._target is None else self._target
        there = math.floor(here) + 1 if turns > 0 else math.ceil(here) - 1
        if there > len(self.timeline.turns) - 1:
            self.timeline.play()
        self._target = float(min(max(there, 0), len(self.timeline.turns) - 1))

    def seek(self, position: float) -> None:
        """Go to a position that has been played."""
        self._target = None
        self.position = min(max(position, 0.0), float(len(self.timeline.turns) - 1))

    def faster(self, steps: int) -> None:
        """Go up (1) or down (-1) in SPEEDS."""
        nearest = min(range(len(SPEEDS)), key=lambda i: abs(math.log(SPEEDS[i] / self.speed)))
        self.speed = SPEEDS[min(max(nearest + steps, 0), len(SPEEDS) - 1)]

    def jump(self, what: str, way: int = 1) -> bool:
        """Go to the turn right before the next BEAN or DEATH (way 1) or the last one (-1); False if there is none.

        Forward, a match that goes on is played until it happens, unless a human plays in it.
        """
        here = self.position if self._target is None else self._target
        turn = math.floor(here) + 2 if way > 0 else math.ceil(here)
        while turn > 0:
            if turn >= len(self.timeline.turns) and (self.timeline.humans or not self.timeline.play()):
                return False
            if self.timeline.turns[turn].ate if what == BEAN else self.timeline.turns[turn].died:
                self.seek(turn - 1)
                return True
            turn += way
        return False

    def _reach(self, position: float) -> None:
        """Go to a position, playing what is missing as far as the time allows."""
        late = time.perf_counter() + PLAY_SECONDS
        while position > len(self.timeline.turns) - 1:
            if time.perf_counter() > late or not self.timeline.play():
                position = float(len(self.timeline.turns) - 1)
        self.position = position
