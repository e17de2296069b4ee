"""Competition logs: our own are read back, others are understood, every other file is an ArenaError of one line."""

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.competition_log import write_log

from arena import ArenaError
from arena.jidi_log import JidiLog, open_match, read_log
from arena.replay import Replay, write

UP, DOWN, LEFT, RIGHT = range(4)
# Six snakes in rows of their own; snake 0 lies across the torus' edge.
SNAKES = [[[0, 0], [0, 19], [0, 18]]] + [[[row, 6], [row, 5], [row, 4]] for row in (2, 4, 6, 8, 9)]
BEANS = [[1, 1], [1, 3], [1, 5], [1, 7], [1, 9]]


def random_match(seed: int, turns: int = 200) -> Replay:
    return Replay.from_actions(seed, seed, None, np.random.default_rng(seed).integers(0, 4, (turns, 6)))


def moved(snakes: list, step: int) -> list:
    """All snakes some steps to the right."""
    return [[[row, (column + step) % 20] for row, column in body] for body in snakes]


def hand_made(steps: int) -> dict[str, Any]:
    """A small log in the competition's form, everyone going right."""
    one_hot = [[[0, 0, 0, 1]]] * 6
    entries = [
        {
            "time": "1.5",
            "joint_action": str(one_hot),
            "info_before": {"directions": ["right"] * 6},
            "info_after": {
                "snakes_position": moved(SNAKES, k + 1),
                "beans_position": BEANS,
                "hit": [0] * 6,
                "score": [0] * 6,
            },
        }
        for k in range(steps)
    ]
    return {
        "game_name": "snakes_3v3",
        "n_player": 6,
        "board_height": 10,
        "board_width": 20,
        "init_info": {"snakes_position": SNAKES, "beans_position": BEANS},
        "steps": entries,
    }


def saved(tmp_path: Path, document: Any) -> Path:
    path = tmp_path / "log.json"
    path.write_text(json.dumps(document))
    return path


def message(path: Path) -> str:
    """The one-line message with which reading fails."""
    with pytest.raises(ArenaError) as caught:
        read_log(path)
    text = str(caught.value)
    assert "\n" not in text
    assert len(text) < 300 + len(str(path)) + 10
    assert text.startswith(f"{path}: ")
    return text.removeprefix(f"{path}: ")


@pytest.mark.parametrize("seed", range(6))
def test_a_written_log_gives_the_states_of_the_replay(tmp_path: Path, seed: int) -> None:
    replay = random_match(seed)
    write_log(tmp_path / "log.json", replay)
    log = read_log(tmp_path / "log.json")
    assert log.states() == replay.states(), f"seed {seed}"
    assert log.actions == replay.actions(), f"seed {seed}"


def test_a_written_log_has_the_fields_of_the_competition(tmp_path: Path) -> None:
    replay = random_match(3)
    states = replay.states()
    write_log(tmp_path / "log.json", replay)
    log = json.loads((tmp_path / "log.json").read_text())
    assert log.items() >= {"game_name": "snakes_3v3", "n_player": 6, "board_height": 10, "board_width": 20}.items()
    assert log.items() >= {"mode": "terminal", "seed": 3, "winner_information": ""}.items()
    assert log["init_info"]["snakes_position"] == states[0]["snakes"]
    assert len(log["steps"]) == 200
    names = ["up", "down", "left", "right"]
    for k, step in enumerate(log["steps"]):
        assert step["info_before"]["directions"] == [names[d] for d in states[k]["directions"]]
        after = step["info_after"]
        assert after["snakes_position"] == states[k + 1]["snakes"]
        assert after["beans_position"] == states[k + 1]["beans"]
        assert after["score"] == [len(body) - 3 for body in states[k + 1]["snakes"]]
        assert [i for i in range(6) if after["hit"][i]] == replay.turns[k].get("died", [])
        assert [part[0].index(1) for part in json.loads(step["joint_action"])] == replay.turns[k]["actions"]
    final = log["steps"][-1]["info_after"]["score"]
    assert log["n_return"] == final
    assert log["winner"] == final.index(max(final)) + 2


def test_n_return_of_a_snake_without_room_is_its_rewards(tmp_path: Path) -> None:
    lost = {"turn": 9, "snakes": [[], *SNAKES[1:]], "directions": [RIGHT] * 6, "beans": BEANS}
    write_log(tmp_path / "log.json", Replay(0, 0, "red", "blue", lost, [], {}))
    log = json.loads((tmp_path / "log.json").read_text())
    assert log["n_return"] == [3, 0, 0, 0, 0, 0]
    assert log["winner"] == 3
    assert read_log(tmp_path / "log.json").states() == [lost | {"turn": 0}]


def as_json_text(value: Any) -> str:
    return json.dumps(value)


@pytest.mark.parametrize("text", [None, as_json_text, repr], ids=["dictionaries", "JSON text", "Python text"])
@pytest.mark.parametrize("whole", [True, False])
def test_a_hand_made_log_is_understood_in_each_notation(tmp_path: Path, text: Any, whole: bool) -> None:
    document = hand_made(2)
    infos = [
        (document, "init_info"),
        *((step, key) for step in document["steps"] for key in ("info_before", "info_after")),
    ]
    for parent, key in infos if text else ():
        parent[key] = text(parent[key]) if whole else {inner: text(value) for inner, value in parent[key].items()}
    log = read_log(saved(tmp_path, document))
    expected = {"snakes": SNAKES, "directions": [RIGHT] * 6, "beans": BEANS}
    assert log.states() == [expected | {"turn": k, "snakes": moved(SNAKES, k)} for k in range(3)]
    assert log.actions == [[RIGHT] * 6] * 2


def test_directions_come_from_the_next_step_or_from_the_body(tmp_path: Path) -> None:
    document = hand_made(2)
    document["steps"][1]["info_before"]["directions"] = ["up", "down", "left", "right", "up", "up"]
    del document["steps"][0]["info_before"]
    states = read_log(saved(tmp_path, document)).states()
    assert states[0]["directions"] == [RIGHT] * 6
    assert states[1]["directions"] == [UP, DOWN, LEFT, RIGHT, UP, UP]
    assert states[2]["directions"] == [RIGHT] * 6


@pytest.mark.parametrize("hit", [[1, 0, 0, 0, 0, 0], None])
def test_a_respawned_snake_faces_as_the_rules_say(tmp_path: Path, hit: list | None) -> None:
    document = hand_made(1)
    after = document["steps"][0]["info_after"]
    after["snakes_position"][0] = [[7, 0], [7, 19], [7, 18]]
    after["hit"] = hit
    assert read_log(saved(tmp_path, document)).states()[1]["directions"] == [LEFT] + [RIGHT] * 5


def test_what_a_log_may_leave_out(tmp_path: Path) -> None:
    document = hand_made(1)
    eaten = [*BEANS[:4], [2, 7]]
    document["init_info"]["beans_position"] = eaten
    document["steps"][0] = {"info_after": {"snakes_position": moved(SNAKES, 1)}}
    log = read_log(saved(tmp_path, document))
    assert log.states()[1]["beans"] == eaten[:4]
    assert log.actions == [None]


@pytest.mark.parametrize(
    ("joint", "expected"),
    [
        ([[[0, 0, 1, 0]]] * 6, [LEFT] * 6),
        ([[1, 0, 0, 0]] * 6, [UP] * 6),
        (
            "[[[0, 1.0, 1, 0]], [[0, 1, 0, 0]], [[0, 1, 0, 0]], [[0, 1, 0, 0]], [[0, 1, 0, 0]], [[0, 1, 0, 0]]]",
            [DOWN] * 6,
        ),
        ([[[0, 0, 0, 0]]] * 6, None),
        ([[[0, 0, 1, 0]]] * 5, None),
        ("[array([0, 1, 0, 0])]", None),
        ({"0": 1}, None),
        (None, None),
    ],
)
def test_joint_actions(tmp_path: Path, joint: Any, expected: list[int] | None) -> None:
    document = hand_made(1)
    document["steps"][0]["joint_action"] = joint
    assert read_log(saved(tmp_path, document)).actions == [expected]


def test_open_match_takes_either_format(tmp_path: Path) -> None:
    replay = random_match(1, 20)
    write(tmp_path / "match.jsonl", replay)
    write_log(tmp_path / "log.json", replay)
    opened = open_match(tmp_path / "match.jsonl")
    log = open_match(tmp_path / "log.json")
    assert opened == replay
    assert isinstance(log, JidiLog)
    assert log.states() == opened.states()
    assert (log.red, log.blue) == ("red", "blue")
    with pytest.raises(ArenaError, match="cannot be read"):
        open_match(tmp_path / "none.json")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"n_player": 2}, "n_player is 2; need a match of snakes_3v3, where it is 6"),
        ({"board_width": 8}, "board_width is 8; need a match of snakes_3v3, where it is 20"),
        ({"steps": {}}, "steps: need a list of at most 200"),
        ({"steps": [{}] * 201}, "steps: need a list of at most 200"),
        ({"steps": [7]}, "steps[0] is of type int; need a dictionary"),
        ({"steps": [{}]}, "steps[0] has no info_after"),
        ({"steps": [{"info_after": None}]}, "steps[0].info_after is of type NoneType; need a dictionary"),
        ({"steps": [{"info_after": {}}]}, "steps[0].info_after has no snakes_position"),
        ({"init_info": "{'snakes_position': array([[1, 2]])}"}, "init_info is the text"),
        ({"init_info": "__import__('os').abort()"}, "init_info is the text"),
        ({"init_info": "[" + "1," * 60_000 + "x]"}, "init_info is the text '[1,1,"),
        ({"init_info": "-" * 90_000 + "1"}, "init_info is the text '---"),
        ({"init_info": {"snakes_position": [[[0, 99]] * 3] * 6}}, "init_info: match: column of snake 0 is 99"),
        (
            {"init_info": {"snakes_position": SNAKES, "directions": ["up", "east"]}},
            "init_info.directions is ['up', 'east']",
        ),
        (
            {"init_info": {"snakes_position": [SNAKES[0]] * 6}},
            "init_info: match: snake 1 and snake 0 both lie on [0, 0]",
        ),
    ],
)
def test_wrong_content_is_named(tmp_path: Path, changes: dict, expected: str) -> None:
    assert message(saved(tmp_path, hand_made(1) | changes)).startswith(expected)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "the file is empty; need a match"),
        (b"\n{,}", "not JSON (line 2: Expecting property name enclosed in double quotes); need a competition log"),
        (b"\xff\xfe", "not UTF-8 text; need a competition log, one JSON document"),
        (b"[" * 100_000, "nested too deeply; need a competition log, one JSON document"),
        (b"9" * 9_000, "not JSON; need a competition log, one JSON document"),
        (b"[]", "no init_info and steps; need a competition log"),
        (b'{"init_info": {}}', "no init_info and steps; need a competition log"),
    ],
)
def test_files_that_are_no_log(tmp_path: Path, content: bytes, expected: str) -> None:
    (tmp_path / "log.json").write_bytes(content)
    assert message(tmp_path / "log.json").startswith(expected)


def replaced(value: Any, rng: random.Random) -> Any:
    """The value with one part, anywhere inside, exchanged for something unexpected."""
    if isinstance(value, (dict, list)) and value and rng.random() < 0.85:
        key = rng.choice(list(value) if isinstance(value, dict) else range(len(value)))
        copy = value.copy()
        copy[key] = replaced(value[key], rng)
        return copy
    return rng.choice(
        (None, True, -1, 7, 2**70, 1.5, float("nan"), "", "[", "{}", "{1: {2}}", "up", [], [[]], {}, {"directions": 3})
    )


def test_damaged_logs_give_nothing_but_arena_errors(tmp_path: Path) -> None:
    seed = 21
    rng = random.Random(seed)
    whole = json.dumps(hand_made(2)).encode()
    path = tmp_path / "log.json"
    for case in range(600):
        data = bytearray(whole)
        if case % 3 == 0:
            data = bytearray(json.dumps(replaced(hand_made(2), rng)).encode())
        elif case % 3 == 1:
            data = data[: rng.randrange(len(data))]
        else:
            for _ in range(rng.choice((1, 3, 40))):
                data[rng.randrange(len(data))] = rng.randrange(256)
        path.write_bytes(data)
        complaint = ""
        for reader in (read_log, open_match):
            try:
                reader(path).states()
            except ArenaError as error:
                complaint = str(error)
            assert "\n" not in complaint, f"seed {seed}, case {case}"
            assert complaint or case % 3 != 1, f"seed {seed}, case {case}: damage was not noticed"
