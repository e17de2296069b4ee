"""The command `play`, with and without a screen, and the live matches that it shows."""

import os
import re
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers import display
from helpers.command import assert_one_line
from helpers.forking import Forked, snakes
from helpers.training import finish, forked, here

from arena.batch import BatchArena
from arena.encoders import encoder_named
from arena.replay import Replay, read
from marl.commands.live_match import KEPT, LatestCheckpoint, LiveMatch, LiveMatches
from marl.errors import UserError
from marl.networks.actors import Actor
from marl.networks.policy import describe_actor
from marl.networks.spec import NetworkSpec
from marl.storage import checkpoint_writer
from opponents.match import play
from opponents.players import find

SEED = 3
LEFT_OF = {0: 2, 1: 3, 2: 1, 3: 0}  # the turn to the left of every direction
KEYS = {0: "Up", 1: "Down", 2: "Left", 3: "Right"}
WASD = {0: "w", 1: "s", 2: "a", 3: "d"}


def save(run: Path, episode: int) -> Path:
    """A checkpoint of a policy with a value."""
    torch.manual_seed(episode)
    encoder, shape = encoder_named("features"), NetworkSpec((16,), 5)
    weights = {f"actor.{name}": tensor for name, tensor in Actor(encoder, shape).state_dict().items()}
    run.mkdir(exist_ok=True)
    return checkpoint_writer.save(
        run, episode, weights, {"state": {}}, describe_actor(encoder, shape) | {"world_size": 1}
    )


def without_display() -> dict[str, str]:
    ways = ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER")
    return {name: value for name, value in os.environ.items() if name not in ways}


@pytest.mark.parametrize("broken", [{}, {"DISPLAY": ":987"}], ids=["none", "unreachable"])
def test_without_a_display_one_line_names_the_way_out(broken):
    done = finish(Forked(snakes, "play", environment=without_display() | broken))
    assert_one_line(done, "no display", "replay", "--gif OUT", "--html OUT", *broken.values())


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["--human", "red_7"], ["--human", "'red_7'", "blue_2", "0 to 5"]),
        (["--human", "1,1"], ["--human", "two different ones"]),
        (["--human", "0,1,2"], ["--human", "one snake or two"]),
        (["--speed", "100"], ["--speed", "0.25 to 64"]),
        (["--red", "level1", "--watch", "runs/x"], ["--watch", "--red"]),
        (["--record", "no/such/folder/x"], ["--record", "no/such/folder"]),
    ],
)
def test_mistakes_are_told_before_anything_is_loaded(words, parts):
    assert_one_line(here("play", *words), *parts)


def turned_left(seed: int, number: int, snake: int) -> int:
    arena = BatchArena(1, seed=seed, first_match=number)
    arena.start()
    return LEFT_OF[arena.get_match(0)["directions"][snake]]


def test_a_human_against_a_team_in_training(tmp_path):
    """In one window: steering, policy outputs, a new checkpoint for the next match, recording; the cross closes it."""
    run, file = tmp_path / "run5", tmp_path / "match.jsonl"
    save(run, 8)
    words = ["--watch", run, "--blue", "level1", "--human", "red_1,3", "--seed", SEED, "--record", file]
    with display.screen() as screen, forked(["play", *words], **screen.environment) as process:
        window = screen.window("snakes", process)

        def wait_for(*parts: str) -> None:
            screen.until(
                lambda: all(part in screen.title(window) for part in parts),
                lambda: f"{parts} in {screen.title(window)!r}",
            )

        def turn() -> int:
            return int(re.search(r"turn (\d+)", screen.title(window))[1])

        wait_for("turn 0, paused", "run5 episode_8 + human against level1 + human")
        screen.press("period")
        wait_for("turn 1, paused")
        screen.press(WASD[turned_left(SEED, 0, 3)], KEYS[turned_left(SEED, 0, 1)], "period")
        wait_for("turn 2, paused")
        screen.press("comma")
        wait_for("turn 1, paused")
        screen.press("period", "period")
        wait_for("turn 3, paused")

        before = screen.picture()
        screen.press("o")
        screen.until(lambda: (screen.picture() != before).any(-1).sum() > 300, "no policy outputs to be seen")

        save(run, 16)
        screen.press("n")
        wait_for("turn 0, paused", "match 2", "run5 episode_16 + human")
        screen.press(KEYS[turned_left(SEED, 1, 1)])
        wait_for("playing")
        screen.until(lambda: turn() >= 2)
        screen.press("question")
        screen.until(lambda: "playing" not in screen.title(window), "the help does not pause the match")
        stopped = turn()
        screen.press(KEYS[turned_left(SEED, 1, 1)], "space")  # the help covers the board: nothing happens
        time.sleep(1)
        assert turn() == stopped
        screen.press("question")
        screen.until(lambda: turn() > stopped)
        screen.close(window)
        done = finish(process)
    assert (done.returncode, done.stderr) == (0, "")
    second = file.with_name("match.2.jsonl")
    assert done.stdout.splitlines() == [str(file), str(second)]

    match = read(file)
    assert (match.seed, match.match, len(match.turns)) == (SEED, 0, 3)
    assert (match.red, match.blue) == ("run5 episode_8 + human", "level1 + human")
    start = match.start["directions"]
    for snake in (1, 3):
        # Straight on, the turn that was asked for, straight on.
        assert [turn["actions"][snake] for turn in match.turns] == [start[snake], *2 * [LEFT_OF[start[snake]]]]
    match = read(second)
    assert (match.match, match.red) == (1, "run5 episode_16 + human")
    assert len(match.turns) >= 2
    assert match.turns[0]["actions"][1] == LEFT_OF[match.start["directions"][1]]


def replay_of(match: LiveMatch, path: Path) -> Replay:
    match.write(path)
    return read(path)


def test_a_match_that_is_looked_at_is_the_one_that_eval_plays(tmp_path):
    match = LiveMatch([find("level3"), find("level2:0.3")], (), SEED, 0, "")
    while match.play():
        pass
    assert (match.over, match.last, len(match.turns)) == (True, 200, 201)
    assert replay_of(match, tmp_path / "m") == play("level3", "level2:0.3", 1, seed=SEED, record=True).replays["first"]
    assert [turn.state for turn in match.turns] == read(tmp_path / "m").states()
    assert [turn.died for turn in match.turns[1:]] == [
        tuple(turn.get("died", ())) for turn in read(tmp_path / "m").turns
    ]


def test_a_human_keeps_going_straight_on_and_cannot_reverse():
    match = LiveMatch([find("level1"), find("level1")], (4,), SEED, 0, "")
    ahead = match.turns[0].state["directions"][4]
    left = LEFT_OF[ahead]
    match.play()
    for move in (ahead ^ 1, left, left, left ^ 1):  # one a turn; the third is the second again, the last too much
        match.steer(4, move)
    for _ in range(3):
        match.play()
    last = match.turns[3].state["directions"][4]
    assert [turn.actions[4] for turn in match.turns[1:]] == [ahead, ahead, left, last]


def test_policies_tell_their_outputs_and_humans_do_not(tmp_path):
    player = LatestCheckpoint(save(tmp_path / "run", 1).parent.parent)()[0]
    match = LiveMatch([find("level1"), player], (5,), SEED, 0, "")
    match.play()
    for turn in match.turns:
        assert set(turn.policy_outputs) == {3, 4}
        for snake, output in turn.policy_outputs.items():
            assert np.isclose(sum(output.moves), 1)
            assert output.moves[turn.state["directions"][snake] ^ 1] == 0
            assert isinstance(output.value, float)


def test_the_next_match_ends_the_one_before_and_old_ones_are_let_go(tmp_path):
    players = [find("level1"), find("level1")]
    matches = LiveMatches(lambda: (players[0], "a note"), lambda: (players[1], ""), (), SEED, None)
    first = matches.open(0)
    first.play()
    assert first.note == "a note"
    assert not first.over
    second = matches.open(1)
    assert (first.over, first.play(), first.last) == (True, False, 1)
    assert matches.open(0) is first
    assert second.play()
    for number in range(2, KEPT + 1):
        matches.open(number)
    assert matches.first == 1


def test_the_newest_checkpoint_is_taken_not_the_best(tmp_path):
    run = tmp_path / "runs" / "snakes_3v3" / "mine"
    run.parent.mkdir(parents=True)
    checkpoint_writer.mark_best(run, save(run, 1))
    save(run, 2)
    latest = LatestCheckpoint(tmp_path / "runs")
    player, note = latest()
    assert (player.name, note) == ("mine episode_2", "")
    assert latest() == (player, "")
    newest = save(run, 3)
    player, note = latest()
    assert (player.name, note) == ("mine episode_3", "new checkpoint: episode_3")

    newest = save(run, 4)
    (newest / "weights.safetensors").write_bytes(b"cut off")
    same, note = latest()
    assert same is player
    assert note.startswith("still mine episode_3: ")


def test_a_run_without_a_checkpoint_is_told(tmp_path):
    with pytest.raises(UserError, match=r"--watch: no run .* or checkpoint"):
        LatestCheckpoint(tmp_path)()
