"""Positions of snakes, beans and effects between two turns."""

import numpy as np
import pytest
from helpers.competition_log import write_log

from arena.jidi_log import read_log
from arena.render import scene
from arena.render.theme import BEAN_COLOUR, SNAKE_COLOURS
from arena.render.timeline import Timeline, Turn, recorded_timeline
from arena.replay import Replay

SEED = 5
STATE = {
    "turn": 3,
    "snakes": [[[4, 19], [4, 18], [4, 17]], [[7, 7], [8, 7], [6, 7]], [], [], [], []],  # snake 1 has a gap
    "directions": [3, 0, 0, 0, 0, 0],
    "beans": [[4, 0], [9, 9]],
}
AFTER = {  # snake 0 has gone over the edge and eaten, snake 1 straight on
    "turn": 4,
    "snakes": [[[4, 0], [4, 19], [4, 18], [4, 17]], [[6, 7], [7, 7], [8, 7]], [], [], [], []],
    "directions": [3, 0, 0, 0, 0, 0],
    "beans": [[9, 9], [1, 1]],
}
DEAD = AFTER | {"snakes": [[[0, 1], [0, 0], [1, 0]], *AFTER["snakes"][1:]]}
ATE = Timeline("red", "blue", [Turn(STATE), Turn(AFTER, [3, 0, 0, 0, 0, 0], ate=(0,))])
DIED = Timeline("red", "blue", [Turn(STATE), Turn(DEAD, [3, 0, 0, 0, 0, 0], died=(0,))])


@pytest.fixture(scope="module")
def match() -> Replay:
    actions = np.random.default_rng(SEED).integers(0, 4, (200, 6))
    return Replay.from_actions(SEED, 0, None, actions)


def near(one, other) -> bool:
    return np.abs(scene.nearest_turn(np.asarray(one) - np.asarray(other))).max() < 0.05


@pytest.mark.parametrize("part", [0.0, 0.25, 0.5, 0.9])
def test_a_head_goes_over_the_edge(part):
    snake = scene.snakes(ATE, part)[0]
    assert near(snake.head, [4, (19 + part) % 20])
    assert 0 <= snake.head[1] < 20


def test_a_tail_stays_while_its_snake_eats_and_else_follows():
    ate, straight_on = scene.snakes(ATE, 0.5)[:2]
    assert near(ate.places[0], [4, 17])
    assert near(straight_on.head, [6.5, 7])


def test_nothing_lies_between_torn_segments():
    torn = scene.snakes(ATE, 0.0)[1]
    rows = set(torn.places[:, 0].round(2))
    assert {6.0, 7.0, 8.0} <= rows
    assert all(row >= 7 or row == 6 for row in rows)


def test_a_snake_that_dies_is_gone_before_the_turn_ends_and_back_where_it_respawns():
    assert near(scene.snakes(DIED, 0.45)[0].head, [4, 19.45])
    leaving, back = (snake for snake in scene.snakes(DIED, 0.75) if snake.number == 0)
    assert (near(leaving.head, [4, 19.5]), near(back.head, [0, 1])) == (True, True)
    assert 0 < leaving.size < 1
    assert 0 < back.size < 1
    (back,) = (snake for snake in scene.snakes(DIED, 0.95) if snake.number == 0)
    assert near(back.head, [0, 1])


def test_beans_come_and_go_and_stay():
    assert {bean.place for bean in scene.beans(ATE, 0.2)} == {(4, 0), (9, 9)}
    sizes = dict(scene.beans(ATE, 0.8))
    assert set(sizes) == {(4, 0), (9, 9), (1, 1)}
    assert sizes[9, 9] == 1
    assert {bean.place for bean in scene.beans(ATE, 0.95)} == {(9, 9), (1, 1)}


def test_effects_tell_what_changed():
    (ate,) = scene.effects(ATE, 0.8)
    assert (ate.snake, ate.change, ate.died, tuple(ate.place)) == (0, 1, False, (4, 0))
    (died,) = scene.effects(DIED, 0.8)
    assert (died.snake, died.change, died.died, tuple(died.place)) == (0, 0, True, (4, 0))
    assert scene.effects(ATE, 0.3) == []


def test_movement_leads_from_one_turn_to_the_next(match):
    """Random match, seed SEED: no head, tail or bean jumps at the ends of a turn, unless its snake died."""
    timeline = recorded_timeline(match)
    for turn in range(1, 120):
        for position, state in ((turn - 1 + 1e-3, timeline.turns[turn - 1]), (turn - 1e-3, timeline.turns[turn])):
            for snake in scene.snakes(timeline, position):
                body = state.state["snakes"][snake.number]
                if snake.size == 1 and snake.number not in timeline.turns[turn].died:
                    assert near(snake.head, body[0]), f"turn {position}, snake {snake.number}"
                    assert near(snake.places[0], body[-1]), f"turn {position}, snake {snake.number}"
        for position, state in ((turn - 1.0, timeline.turns[turn - 1]), (float(turn), timeline.turns[turn])):
            standing = scene.snakes(timeline, position)
            assert [snake.head.tolist() for snake in standing] == [body[0] for body in state.state["snakes"] if body]
            assert {bean.place for bean in scene.beans(timeline, position)} == {*map(tuple, state.state["beans"])}


def test_several_positions_at_once(match):
    timeline = recorded_timeline(match)
    positions = [0, 40.3, 41, 41.7, 90.9, 200]
    for position, found in zip(positions, scene.snakes_at(timeline, positions, 5), strict=True):
        alone = scene.snakes(timeline, position, 5)
        assert [snake.number for snake in found] == [snake.number for snake in alone]
        for one, other in zip(found, alone, strict=True):
            assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True)), position
    assert scene.snakes_at(timeline, []) == []


def test_a_competition_log_tells_the_same_as_its_replay(match, tmp_path):
    write_log(tmp_path / "log.json", match)
    ours, theirs = recorded_timeline(match), recorded_timeline(read_log(tmp_path / "log.json"))
    assert len(ours.turns) == len(theirs.turns) == 201
    assert sum(len(turn.died) for turn in ours.turns) > 10
    for before, one, other in zip(ours.turns, ours.turns[1:], theirs.turns[1:], strict=False):
        # A log shows only the death of a snake that ate and died on one turn, and nothing of a snake that died and
        # respawned exactly where it would have moved.
        old, new = before.state["snakes"], one.state["snakes"]
        hidden = {snake for snake in one.died if len(old[snake]) == 3 and new[snake][1:] == old[snake][:2]}
        assert set(other.died) == set(one.died) - hidden, one.state["turn"]
        assert set(other.ate) == set(one.ate) - set(one.died), one.state["turn"]
        assert other.actions == one.actions


def test_a_head_on_the_edge_is_drawn_on_both_sides(monkeypatch):
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    import pygame

    from arena.render.playback import Playback
    from arena.render.window_board import Board, Camera

    pygame.display.init()
    pygame.font.init()
    try:
        cell = 24
        target = pygame.display.set_mode((20 * cell, 10 * cell))
        playback = Playback(ATE)
        playback.position = 0.5
        Board(cell).draw(target, playback, Camera(), show_outputs=False)
        pixels = pygame.surfarray.array3d(target).swapaxes(0, 1).astype(int)
        for name, column in (("left", slice(0, 4)), ("right", slice(-4, None))):
            row = pixels[4 * cell : 5 * cell, column].reshape(-1, 3)
            assert (np.abs(row - SNAKE_COLOURS[0]).max(-1) < 30).sum() > 20, name
        assert (pixels[9 * cell : 10 * cell, 9 * cell : 10 * cell] == BEAN_COLOUR).all(-1).sum() > 50
    finally:
        pygame.quit()


@pytest.mark.parametrize(
    ("name", "shown"), [("a\x00b\n\ud800", "a?b??"), ("<b>蛇", "<b>蛇"), ("x" * 500 + "end", None)]
)
def test_names_from_a_file_can_be_shown(name, shown):
    timeline = Timeline(name, name, [Turn(STATE)])
    assert timeline.red == timeline.blue
    assert timeline.red == shown if shown else timeline.red.endswith("end") and len(timeline.red) < 200
