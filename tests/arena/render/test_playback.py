"""The position of a viewer in a match: playing, steps and jumps, without a window."""

import pytest

from arena.render.playback import BEAN, DEATH, SPEEDS, TURNS_PER_SECOND, Playback
from arena.render.timeline import Timeline, Turn

SECONDS_PER_TURN = 1 / TURNS_PER_SECOND
ATE, DIED = {3: (1,), 7: (0, 4)}, {5: (2,), 9: (3,)}


def turns(count: int) -> list[Turn]:
    return [Turn({"turn": i, "snakes": [[]] * 6}, None, ATE.get(i, ()), DIED.get(i, ())) for i in range(count)]


class Growing(Timeline):
    """A match in progress that ends at turn `end`."""

    def __init__(self, end: int, humans: tuple[int, ...] = ()) -> None:
        super().__init__("red", "blue", turns(1), last=end)
        self.humans = humans

    @property
    def over(self) -> bool:
        return len(self.turns) > self.last

    def play(self) -> bool:
        if self.over:
            return False
        self.turns = turns(len(self.turns) + 1)
        return True


def recorded(count: int = 11) -> Playback:
    return Playback(Timeline("red", "blue", turns(count)), paused=True)


def settle(playback: Playback) -> float:
    for _ in range(100):
        playback.tick(0.02)
    return playback.position


@pytest.mark.parametrize("speed", SPEEDS)
def test_time_moves_it_on_by_its_speed(speed):
    playback = Playback(Timeline("red", "blue", turns(11)), speed)
    playback.tick(2.5 * SECONDS_PER_TURN / speed)
    assert playback.position == pytest.approx(2.5)
    assert (playback.index, playback.moving, playback.standing) == (2, True, False)


def test_it_stops_at_the_end_and_begins_again():
    playback = Playback(Timeline("red", "blue", turns(4)))
    playback.tick(100)
    assert (playback.position, playback.ended, playback.standing) == (3, True, True)
    playback.toggle_pause()
    assert (playback.position, playback.ended, playback.moving) == (0, False, True)


@pytest.mark.parametrize(
    ("start", "steps", "end"),
    [(0, [1], 1), (2.3, [1], 3), (2.3, [-1], 2), (2, [-1], 1), (0, [-1], 0), (10, [1], 10), (1, [1, 1, -1, 1], 3)],
)
def test_single_steps_end_on_whole_turns(start, steps, end):
    playback = recorded()
    playback.paused = False
    playback.seek(start)
    for step in steps:
        playback.step(step)
    assert playback.moving or playback.position == end
    assert settle(playback) == end
    assert playback.paused
    assert playback.standing


@pytest.mark.parametrize(
    ("start", "what", "way", "end"),
    [
        (0, BEAN, 1, 2),
        (0, DEATH, 1, 4),
        (2, BEAN, 1, 6),
        (4.5, DEATH, 1, 8),
        (10, DEATH, -1, 8),
        (8, DEATH, -1, 4),
        (6.5, BEAN, -1, 6),
        (6, BEAN, 1, None),
        (2, BEAN, -1, None),
    ],
)
def test_jumps_land_right_before_what_happens(start, what, way, end):
    playback = recorded()
    playback.seek(start)
    assert playback.jump(what, way) == (end is not None)
    assert playback.position == (start if end is None else end)


def test_a_match_that_goes_on_is_played_when_it_is_reached():
    playback = Playback(Growing(6))
    playback.tick(1.5 * SECONDS_PER_TURN)
    assert len(playback.timeline.turns) == 3
    assert not playback.ended
    assert playback.jump(DEATH)
    assert playback.position == 4
    assert len(playback.timeline.turns) == 6
    playback.step(1)
    playback.step(1)
    assert settle(playback) == 6
    assert playback.ended


def test_a_jump_does_not_play_on_for_a_human():
    playback = Playback(Growing(9, humans=(0,)), paused=True)
    playback.step(1)
    settle(playback)
    assert not playback.jump(DEATH)
    assert len(playback.timeline.turns) == 2


def test_seeking_stays_within_what_was_played():
    playback = recorded()
    playback.seek(99)
    assert playback.position == 10
    playback.seek(-3)
    assert playback.position == 0


@pytest.mark.parametrize(("speed", "steps", "faster"), [(1, 1, 2), (1, -3, 0.25), (3.1, 1, 8), (64, 1, 64)])
def test_speeds_go_by_factors_of_two(speed, steps, faster):
    playback = Playback(Timeline("red", "blue", turns(2)), speed)
    playback.faster(steps)
    assert playback.speed == faster
