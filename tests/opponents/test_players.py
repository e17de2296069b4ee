"""Players: one interface for scripted opponents, functions and policies, and names that find them."""

import json

import numpy as np
import pytest
import torch
from helpers.submissions import SANDBOXED

from arena import BatchArena
from arena.errors import ArenaError
from arena.rules import DIRECTION, OVER, SNAKES
from opponents import players
from opponents.players import Function, Policy, Scripted, champion, find, listing
from opponents.scripted import SCRIPTED

RED = torch.tensor([0, 1, 2, 6, 7, 8], dtype=torch.int32)  # of two matches


@pytest.fixture
def arena() -> BatchArena:
    batch = BatchArena(2, seed=5)
    batch.start()
    return batch


def moves_of(player, arena, seats=RED) -> torch.Tensor:
    moves = torch.full((arena.matches, SNAKES), 9, dtype=torch.int8)
    player.begin(arena, seats)
    player.act(arena, seats, moves)
    return moves


def keep_on(observation, snake) -> int:
    """Onwards from the second cell of the body to the first, around the torus."""
    (row, column), (row2, column2) = observation[2 + snake][:2]
    return {(9, 0): 0, (1, 0): 1, (0, 19): 2, (0, 1): 3}[(row - row2) % 10, (column - column2) % 20]


def test_a_function_sees_the_competitions_dictionary(arena):
    moves = moves_of(Function(keep_on), arena)
    assert torch.equal(moves[:, :3], arena.state[:, DIRECTION : DIRECTION + 3].to(torch.int8))
    assert (moves[:, 3:] == 9).all()  # other seats stay as they are


def test_a_function_sees_directions_one_turn_late(arena):
    seen = []

    def look(observation, snake):
        seen.append(observation["last_direction"])
        return keep_on(observation, snake)

    player = Function(look)
    seats = torch.tensor([0, 1, 2], dtype=torch.int32)
    expected = [None]
    moves = moves_of(player, arena, seats)
    for _ in range(3):
        moves[moves == 9] = 0
        expected.append([("up", "down", "left", "right")[d] for d in arena.get_match(0)["directions"]])
        arena.play_turn(moves)
        player.act(arena, seats, moves)
    assert seen[::3] == expected
    player.begin(arena, seats)
    player.act(arena, seats, moves)
    assert seen[-1] is None  # another batch: nothing of the one before


def test_a_match_that_is_over_asks_nobody(arena):
    arena.state[0, OVER] = 1
    asked = []
    moves_of(Function(lambda observation, snake: asked.append(snake) or 1), arena)
    assert asked == [0, 1, 2]


@pytest.mark.parametrize("answer", [4, -1, None, "up", 1.0, [1]])
def test_an_answer_that_is_no_move_names_the_player(arena, answer):
    with pytest.raises(ArenaError, match="rogue answered"):
        moves_of(Function(lambda observation, snake: answer, name="rogue"), arena)


class Acts:
    """Answers the direction it already has, which stands in the features at 12 to 15."""

    def act(self, observation):
        assert observation.shape == (80,)
        return np.argmax(observation[12:16])


class Predicts:
    observation = "planes"

    def predict(self, observation):
        assert observation.shape == (1208,)
        return np.array(np.argmax(observation[1200:1204])), None


@pytest.mark.parametrize("policy", [Acts(), Predicts()], ids=["act", "predict"])
def test_a_policy_sees_one_snakes_row(arena, policy):
    player = Policy(policy)
    assert player.name == type(policy).__name__
    moves = moves_of(player, arena)
    assert torch.equal(moves[:, :3], arena.state[:, DIRECTION : DIRECTION + 3].to(torch.int8))


def test_a_batched_policy_sees_all_rows_at_once(arena):
    calls = []

    def go_on(rows):
        calls.append(rows.shape)
        return torch.from_numpy(rows[:, 12:16]).argmax(-1)

    moves = moves_of(Policy(go_on, "ahead", batched=True), arena)
    assert torch.equal(moves[:, :3], arena.state[:, DIRECTION : DIRECTION + 3].to(torch.int8))
    assert calls == [(3 * arena.matches, 80)]
    for answer, part in ((lambda rows: [4] * len(rows), "outside"), (lambda rows: [0.5], r"float64 \[1\]; need")):
        with pytest.raises(ArenaError, match=part):
            moves_of(Policy(answer, "wrong", batched=True), arena)


def test_an_object_that_cannot_act_is_no_policy():
    with pytest.raises(ArenaError, match="int has neither act"):
        Policy(3)


@pytest.mark.parametrize(
    ("observation", "message"),
    [
        ("turned", "observation 'turned' counts actions in the snake's own orientation; allowed: features, planes"),
        ("smell", "observation 'smell' is unknown; allowed: features, planes"),
        (None, "observation None is unknown; allowed: features, planes"),
    ],
)
def test_a_policy_that_asks_for_no_row_of_the_board_is_refused(observation, message):
    policy = Acts()
    policy.observation = observation
    with pytest.raises(ArenaError) as error:
        Policy(policy)
    assert str(error.value) == message


def test_names_of_scripted_opponents(arena):
    for name in SCRIPTED:
        assert find(name).name == name
    player = find("level1:0.25")
    assert isinstance(player, Scripted)
    assert player.name == "level1:0.25"
    assert torch.equal(moves_of(find("level1:1"), arena), moves_of(find("level0"), arena))


def test_the_listing_describes_each():
    described = dict(listing())
    assert list(described)[: len(SCRIPTED)] == list(SCRIPTED)
    assert all(described.values())


@pytest.fixture
def champions(tmp_path, monkeypatch):
    """Two trained teams, and a file about neither."""
    folder = tmp_path / "champions"
    folder.mkdir()
    monkeypatch.setattr(players, "CHAMPIONS", folder)
    for name, about in (("victor", "Won everything."), ("veteran", "Played long.")):
        (folder / f"{name}.safetensors").write_bytes(b"weights")
        (folder / f"{name}.json").write_text(json.dumps({"about": about, "results": {}}))
    (folder / "README.md").write_text("trained teams")
    return folder


def test_champions_are_listed_after_the_scripted_ones(champions):
    assert listing()[len(SCRIPTED) :] == [("veteran", "Played long."), ("victor", "Won everything.")]


def test_a_champion_is_found_by_its_name_and_loaded(champions):
    assert champion("victor") == champions / "victor.safetensors"
    asked = []
    found = find("victor", loader=lambda name: asked.append(name) or Scripted("level2"))
    assert (found.name, asked) == ("level2", ["victor"])


def test_without_a_loader_a_champion_is_an_error(champions, monkeypatch):
    monkeypatch.setattr(players, "LOADERS", "nobody registers here")
    with pytest.raises(ArenaError, match=r"victor is a trained team; .* needs a loader"):
        find("victor")


@pytest.mark.parametrize("name", ["vict", "README", "", "../champions/victor", "victor.safetensors", "level1"])
def test_other_names_are_no_champions(champions, name):
    assert champion(name) is None


def test_a_scripted_opponent_is_never_taken_for_a_champion(champions):
    (champions / "level1.safetensors").write_bytes(b"weights")
    assert isinstance(find("level1", loader=lambda name: None), Scripted)


def test_a_champions_name_is_guessed_and_named(champions):
    with pytest.raises(ArenaError, match=r"unknown player 'victer', did you mean victor\?; known: level0.*victor"):
        find("victer", loader=lambda name: None)


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("levle3", ["'levle3'", "did you mean level", "known: level0"]),
        ("", ["unknown player ''", "known: level0"]),
        ("development", ["'development' is a group of players, for league and eval --away"]),
        ("level3:", ["'level3:'", "0.2"]),
        ("level3:1.5", ["1.5", "0 to 1"]),
        ("level3:nan", ["nan", "0 to 1"]),
        ("no/such/file\0", ["unknown player"]),
    ],
)
def test_a_wrong_name_is_told_in_one_line(name, parts):
    with pytest.raises(ArenaError) as error:
        find(name)
    assert "\n" not in str(error.value)
    for part in parts:
        assert part in str(error.value)


def test_other_paths_go_to_the_loader(tmp_path, monkeypatch):
    monkeypatch.setattr(players, "LOADERS", "nobody registers here")
    with pytest.raises(ArenaError, match="nothing here can load a player"):
        find(str(tmp_path))
    assert find(str(tmp_path), loader=lambda path: Scripted("level2")).name == "level2"


def test_a_submission_is_found_by_its_file_and_by_its_folder(tmp_path):
    (tmp_path / "submission.py").write_text(
        "def my_controller(observation, space, continuous): return [[0, 1, 0, 0]]\n"
    )
    for path in (tmp_path, tmp_path / "submission.py"):
        player = find(str(path), submissions=SANDBOXED)
        assert player.name == f"{tmp_path.name}/submission.py"
        player.close()
