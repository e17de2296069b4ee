"""The position of a viewer in a match, and its changes: playing, single steps, jumps and the scrub bar.

A position is measured in turns and need not be whole: 3.25 is a quarter of the way from turn 3 to turn 4.
"""

import math
import time

from arena.render.timeline import Timeline

TURNS_PER_SECOND = 4.0  # at speed 1: a match takes 50 seconds
SPEEDS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
STEP_SECONDS = 0.12  # duration of a single step on the screen
PLAY_SECONDS = 0.01  # limit for playing turns per picture, so that the window stays responsive

BEAN, DEATH = "bean", "death"


class Playback:
    """Moves through a timeline, which may grow meanwhile."""

    def __init__(self, timeline: Timeline, speed: float = 1.0, paused: bool = False) -> None:
        self.timeline = timeline
        self.speed = speed
        self.paused = paused
        self.position = 0.0
        self._target: float | None = None  # end of a single step in progress

    @property
    def index(self) -> int:
        """The turn that is shown; between two turns, the earlier one."""
        return int(self.position)

    @property
    def moving(self) -> bool:
        """Whether the position changes by itself."""
        return self._target is not None or not (self.paused or self.ended)

    @property
    def standing(self) -> bool:
        """Whether a whole turn is shown and nothing moves."""
        return self.position == self.index and not self.moving

    @property
    def ended(self) -> bool:
        """Whether the position is the end of a finished match."""
        return self.timeline.over and self.position >= len(self.timeline.turns) - 1

    def tick(self, seconds: float) -> None:
        """Advance by `seconds` of real time."""
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
        """Pause or resume; at the end, start again from the beginning."""
        self._target = None
        if self.ended and len(self.timeline.turns) > 1:
            self.position, self.paused = 0.0, False
        else:
            self.paused = not self.paused

    def step(self, turns: int) -> None:
        """Go to the next whole turn forward (1) or back (-1), and pause."""
        self.paused = True
        current = self.position if self._target is None else self._target
        wanted = math.floor(current) + 1 if turns > 0 else math.ceil(current) - 1
        if wanted > len(self.timeline.turns) - 1:
            self.timeline.play()
        self._target = float(min(max(wanted, 0), len(self.timeline.turns) - 1))

    def seek(self, position: float) -> None:
        """Go to a position, at most the last turn that was played."""
        self._target = None
        self.position = min(max(position, 0.0), float(len(self.timeline.turns) - 1))

    def faster(self, steps: int) -> None:
        """Change to the next higher (1) or lower (-1) of SPEEDS."""
        nearest = min(range(len(SPEEDS)), key=lambda i: abs(math.log(SPEEDS[i] / self.speed)))
        self.speed = SPEEDS[min(max(nearest + steps, 0), len(SPEEDS) - 1)]

    def jump(self, what: str, way: int = 1) -> bool:
        """Go to the turn right before the next BEAN or DEATH (way 1) or the previous one (-1); False if there is none.

        Forward, a match in progress is played until the event happens, unless it has a human player.
        """
        current = self.position if self._target is None else self._target
        turn = math.floor(current) + 2 if way > 0 else math.ceil(current)
        while turn > 0:
            if turn >= len(self.timeline.turns) and (self.timeline.humans or not self.timeline.play()):
                return False
            if self.timeline.turns[turn].ate if what == BEAN else self.timeline.turns[turn].died:
                self.seek(turn - 1)
                return True
            turn += way
        return False

    def _reach(self, position: float) -> None:
        """Go to a position; play the missing turns, for at most PLAY_SECONDS."""
        deadline = time.perf_counter() + PLAY_SECONDS
        while position > len(self.timeline.turns) - 1:
            if time.perf_counter() > deadline or not self.timeline.play():
                position = float(len(self.timeline.turns) - 1)
        self.position = position
