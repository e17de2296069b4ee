"""The replay file: a written match is read back and verified; every other file is an ArenaError of one line."""

import json
import os
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from arena import RULES_VERSION, ArenaError, BatchArena
from arena.replay import Recorder, Replay, read, write

SEED, MATCH = 11, 5


def random_actions(seed: int, turns: int = 200) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 4, (turns, 6))


def played(seed: int, match: int, actions: np.ndarray) -> list[dict]:
    """The match dictionaries of BatchArena after every turn of this match, played beside others."""
    arena = BatchArena(match + 2, seed=seed)
    arena.start()
    states = [arena.get_match(match)]
    for row in actions:
        arena.play_turn(torch.from_numpy(row).expand(match + 2, 6))
        states.append(arena.get_match(match))
    return states


@pytest.fixture(scope="module")
def replay() -> Replay:
    return Replay.from_actions(SEED, MATCH, None, random_actions(SEED), red="level4", blue="évasive")


@pytest.fixture
def path(tmp_path: Path, replay: Replay) -> Path:
    write(tmp_path / "match.jsonl", replay)
    return tmp_path / "match.jsonl"


def message(path: Path) -> str:
    """The one-line message with which reading fails."""
    with pytest.raises(ArenaError) as caught:
        read(path)
    text = str(caught.value)
    assert "\n" not in text
    assert text.startswith(str(path))
    return text.removeprefix(str(path))


def edit_line(path: Path, number: int, **changes: object) -> None:
    """Change keys of a line (counted from 1)."""
    lines = path.read_text().splitlines()
    lines[number - 1] = json.dumps(json.loads(lines[number - 1]) | changes)
    path.write_text("\n".join(lines) + "\n")


def line_of(path: Path, number: int) -> dict:
    return json.loads(path.read_text().splitlines()[number - 1])


@pytest.mark.parametrize("seed", range(4))
def test_a_match_comes_back_as_it_was_played(tmp_path: Path, seed: int) -> None:
    actions = random_actions(seed)
    states = played(seed, seed, actions)
    replay = Replay.from_actions(seed, seed, states[0], actions)
    write(tmp_path / "match.jsonl", replay)
    back = read(tmp_path / "match.jsonl")
    assert back == replay, f"seed {seed}"
    assert back.states() == states, f"seed {seed}"
    assert back.actions() == actions.tolist()
    assert (tmp_path / "match.jsonl").stat().st_size < 25_000
    assert [entry.name for entry in tmp_path.iterdir()] == ["match.jsonl"]


def test_lines_are_those_of_the_format(path: Path, replay: Replay) -> None:
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    header = {"type": "header", "format": 2, "rules": RULES_VERSION, "seed": SEED, "match": MATCH}
    assert lines[0] == header | {"red": "level4", "blue": "évasive"}
    assert lines[1].items() >= {"type": "start", **replay.start}.items()
    assert [line["turn"] for line in lines[2:-1]] == list(range(1, 201))
    lengths = [len(body) for body in replay.states()[-1]["snakes"]]
    red, blue = sum(lengths[:3]) - 9, sum(lengths[3:]) - 9
    winner = "red" if red > blue else "blue" if blue > red else "draw"
    result = {"type": "result", "turns": 200, "lengths": lengths, "red_score": red, "blue_score": blue}
    assert lines[-1] == result | {"winner": winner}


def test_date_and_policy_outputs_come_back_and_format_1_is_read(tmp_path: Path, replay: Replay) -> None:
    output = {"probs": [[0.25, 0.0, 0.5, 0.25], *[None] * 5], "values": [1.5, *[None] * 5]}
    recorded = replace(replay.with_policy([output] * 200), date="2026-11-15")
    write(tmp_path / "new.jsonl", recorded)
    back = read(tmp_path / "new.jsonl")
    assert (back, back.date) == (recorded, "2026-11-15")
    assert back.turns[7].items() > output.items()
    assert back.states() == replay.states()
    write(tmp_path / "old.jsonl", replay)
    edit_line(tmp_path / "old.jsonl", 1, format=1)
    assert (read(tmp_path / "old.jsonl"), read(tmp_path / "old.jsonl").date) == (replay, "")


def test_turn_lines_say_what_happened(replay: Replay) -> None:
    states = replay.states()
    for turn, before, after in zip(replay.turns, states[:-1], states[1:], strict=True):
        assert turn.get("directions", turn["actions"]) == after["directions"]
        beans = after["beans"]
        assert beans[len(beans) - len(turn.get("beans", [])) :] == turn.get("beans", [])
        for snake in range(6):
            grown = len(after["snakes"][snake]) - len(before["snakes"][snake])
            if snake not in turn.get("died", []):
                assert grown == (snake in turn.get("ate", []))
    assert any("ate" in turn for turn in replay.turns)
    assert any("died" in turn for turn in replay.turns)


def test_a_match_from_the_middle_of_another(tmp_path: Path) -> None:
    middle = played(3, 1, random_actions(3, 60))[-1]
    arena = BatchArena(2, seed=8)
    arena.start()
    arena.set_match(1, middle)
    recorder = Recorder(arena.get_match(1), 8, 1, red="a", blue="b")
    states = [middle]
    actions = torch.zeros(2, 6, dtype=torch.int64)  # one tensor for all turns, as a loop on a device has it
    for row in random_actions(4, 140):
        actions.copy_(torch.from_numpy(row))
        recorder.add(actions[1])
        arena.play_turn(actions)
        states.append(arena.get_match(1))
    write(tmp_path / "match.jsonl", recorder.replay())
    back = read(tmp_path / "match.jsonl")
    assert back.states() == states
    assert (back.red, back.blue, back.result["turns"], len(back.turns)) == ("a", "b", 200, 140)


def test_actions_after_the_end_are_left_out() -> None:
    late = played(3, 0, random_actions(3, 198))[-1]
    assert len(Replay.from_actions(3, 0, late, random_actions(4)).turns) == 2


def test_a_match_that_was_left_early_can_be_kept(tmp_path: Path) -> None:
    recorder = Recorder(played(3, 0, random_actions(3, 0))[0], 3, 0)
    write(tmp_path / "none.jsonl", recorder.replay())
    assert read(tmp_path / "none.jsonl").turns == []
    recorder.add([0, 1, 2, 3, 0, 1])
    write(tmp_path / "one.jsonl", recorder.replay())
    assert read(tmp_path / "one.jsonl").result["turns"] == 1


@pytest.mark.parametrize(
    "actions", ["up", [[0, 1]], [[0.5] * 6], [[0] * 6, [0]], [[4] * 6], [[2**70] * 6], [[True] * 6]]
)
def test_actions_that_are_none(actions: object) -> None:
    with pytest.raises(ArenaError, match="action"):
        Replay.from_actions(0, 0, None, actions)


@pytest.mark.parametrize(("seed", "match"), [(-1, 0), (2**63, 0), (0, -1), (0, 2**63), (True, 0), (0, 1.0)])
def test_numbers_that_no_match_has(seed: object, match: object) -> None:
    with pytest.raises(ArenaError, match="allowed: 0 to"):
        Replay.from_actions(seed, match, None, [])


@pytest.mark.parametrize("turn", [1, 57, 200])
@pytest.mark.parametrize("snake", [0, 5])
def test_a_changed_action_is_found_on_its_line(path: Path, turn: int, snake: int) -> None:
    actions = line_of(path, turn + 2)["actions"]
    for other in range(1, 4):
        edit_line(path, turn + 2, actions=[*actions[:snake], (actions[snake] + other) % 4, *actions[snake + 1 :]])
        assert message(path).startswith(f":{turn + 2}: "), f"turn {turn}, snake {snake}, action +{other}"


@pytest.mark.parametrize(
    ("kind", "key", "value"),
    [
        ("beans", "beans", [[0, 0], [0, 1]]),
        ("ate", "ate", [0, 1, 2]),
        ("died", "died", [7]),
        ("directions", "directions", None),
        ("turn", "turn", 1.0),
        ("turn", "check", "00000000"),
        ("turn", "check", None),
    ],
)
def test_a_changed_turn_is_found_on_its_line(path: Path, kind: str, key: str, value: object) -> None:
    number = next(n for n in range(3, 203) if kind in line_of(path, n))
    edit_line(path, number, **{key: value})
    assert message(path).startswith(f":{number}: {key} is {json.dumps(value, separators=(',', ':'))}, playing")


def test_a_changed_start_is_found(path: Path) -> None:
    start = line_of(path, 2)
    body = start["snakes"][2]
    for changes in (
        {"snakes": [*start["snakes"][:2], body[::-1], *start["snakes"][3:]]},
        {"beans": start["beans"][::-1]},
        {"directions": start["directions"][::-1]},
        {"turn": 3},
    ):
        edit_line(path, 2, **(start | changes))
        assert message(path).startswith(":2: check is "), changes
    edit_line(path, 2, **(start | {"snakes": [*start["snakes"][:5], start["snakes"][0]]}))
    assert "both lie on" in message(path)


@pytest.mark.parametrize("key", ["seed", "match"])
def test_another_seed_or_match_is_found(path: Path, key: str) -> None:
    edit_line(path, 1, **{key: 12})
    assert message(path).startswith(":2: check is ")


@pytest.mark.parametrize(
    ("key", "value"),
    [("turns", 199), ("lengths", [3] * 7), ("red_score", 99), ("blue_score", "1"), ("winner", "green")],
)
def test_a_changed_result_is_found(path: Path, key: str, value: object) -> None:
    edit_line(path, 203, **{key: value})
    assert message(path).startswith(f":203: {key} is ")


def test_lines_missing_or_doubled_are_found(path: Path) -> None:
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:9] + lines[10:]))
    assert message(path).startswith(":10: turn is 9, playing the match again gives 8")
    path.write_text("".join([*lines[:10], lines[9], *lines[10:]]))
    assert message(path).startswith(":11: turn is 8, playing the match again gives 9")
    path.write_text("".join([*lines[:-1], lines[-2], lines[-1]]))
    assert message(path) == ":203: the match was over after turn 200; a result line must follow"
    path.write_text("".join([*lines, lines[-1]]))
    assert message(path) == ":204: a line after the result; nothing may follow it"


@pytest.mark.parametrize(
    ("number", "changes", "expected"),
    [
        (1, {"rules": 2}, ":1: played by rules 2, this is 1: open it with the version of the program that wrote it"),
        (1, {"rules": "one"}, ":1: played by rules 'one', this is 1"),
        (1, {"format": 9}, ":1: unknown format 9; this program reads formats 1 and 2"),
        (1, {"date": "yesterday"}, ':1: date is "yesterday"; need a date like'),
        (1, {"format": 1, "date": "2026-01-01"}, ":1: header line with unknown 'date'"),
        (3, {"probs": [None] * 5}, ":3: probs are [null,null,null,null,null]; need six entries"),
        (3, {"probs": [[0.5, 0.5, 0, 2]] * 6}, ":3: probs are "),
        (3, {"values": ["high"] * 6}, ":3: values are "),
        (1, {"format": True}, ":1: unknown format True"),
        (1, {"seed": -1}, ":1: seed is -1; allowed: 0 to 9223372036854775807"),
        (1, {"match": 2**80}, ":1: match is 1208925819614629174706176; allowed: 0 to"),
        (1, {"red": 3}, ":1: red is 3; need a name in quotes"),
        (
            1,
            {"type": "turn"},
            ":1: no replay file (eval --record writes them): need a line of type header, got type 'turn'",
        ),
        (2, {"type": ["start"]}, ":2: need a line of type start, got type ['start']"),
        (2, {"snakes": "none"}, ":2: match: snakes: need a list of 6, got str"),
        (2, {"turn": 201}, ":2: match: turn is 201; allowed: 0 to 200"),
        (2, {"beans": [["0" * 5000, 0]]}, ":2: match: row of bean 0 is '000"),
        (3, {"actions": [0, 1, 2, 3, 4, 0]}, ":3: actions are [0,1,2,3,4,0]; need six numbers 0-3"),
        (3, {"actions": [0, 1, 2, 3, True, 0]}, ":3: actions are [0,1,2,3,true,0]; need six numbers 0-3"),
        (3, {"actions": {}}, ":3: actions are {}; need six numbers 0-3"),
        (3, {"colour": 1}, ":3: turn line with unknown 'colour'"),
        (203, {"type": "end"}, ":203: need a line of type turn or result, got type 'end'"),
    ],
)
def test_wrong_content_is_named(path: Path, number: int, changes: dict, expected: str) -> None:
    edit_line(path, number, **changes)
    text = message(path)
    assert text.startswith(expected)
    assert len(text) < 400


@pytest.mark.parametrize(("number", "key"), [(1, "seed"), (2, "check"), (2, "beans"), (3, "actions"), (203, "winner")])
def test_missing_keys_are_named(path: Path, number: int, key: str) -> None:
    lines = path.read_text().splitlines()
    line = json.loads(lines[number - 1])
    del line[key]
    path.write_text("\n".join([*lines[: number - 1], json.dumps(line), *lines[number:]]))
    assert message(path) == f":{number}: {line['type']} line without {key}"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", ": the file is empty; need a match"),
        (b"\n \n", ": the file is empty; need a match"),
        (b"hello\n", ":1: not JSON (Expecting value); a replay file is JSON lines"),
        (b"\x89PNG\r\n\x1a\n\x00\x00", ":1: not UTF-8 text; a replay file is JSON lines"),
        (bytes(100), ":1: not JSON (Expecting value); a replay file is JSON lines"),
        (b"[1, 2]\n", ":1: no replay file (eval --record writes them): need a line of type header, got a list"),
        (b"[" * 100_000, ":1: not JSON (nested too deeply); a replay file is JSON lines"),
        (b'{"type":' + b"9" * 9_000 + b"}\n", ":1: not JSON (bad number); a replay file is JSON lines"),
        (b" " * (16 * 2**20 + 1), ": larger than 16 MiB; no match is as large as that"),
    ],
)
def test_files_that_are_no_replay(path: Path, content: bytes, expected: str) -> None:
    path.write_bytes(content)
    assert message(path) == expected


def test_broken_text_is_named_by_line(path: Path) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:5], b"\n", *lines[6:]]))
    assert message(path).startswith(":6: not JSON (Expecting value)")
    path.write_bytes(b"".join([*lines[:5], b"\xff\xfe\n", *lines[6:]]))
    assert message(path) == ":6: not UTF-8 text; a replay file is JSON lines"


@pytest.mark.parametrize("depth", [50, 400, 900, 960, 980, 5000])
@pytest.mark.parametrize("number", [1, 2, 3, 203])
def test_deep_nesting_is_refused(path: Path, number: int, depth: int) -> None:
    lines = path.read_text().splitlines()
    key = {1: "seed", 2: "beans", 3: "actions", 203: "lengths"}[number]
    nested = "[" * depth + "]" * depth
    line = json.loads(lines[number - 1])
    lines[number - 1] = json.dumps(line | {key: "?"}).replace('"?"', nested)
    path.write_text("\n".join(lines))
    assert message(path).startswith(f":{number}: ")


def test_a_truncated_file_says_where_it_stops(path: Path) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    cut = "(turn or result expected); it was cut off"
    path.write_bytes(b"".join(lines[:40]))
    assert message(path) == f":40: no result line: the file stops after this line {cut}"
    path.write_bytes(b"".join(lines[:40]) + lines[40][:20])
    assert message(path) == ":41: no result line: the file stops in the middle of this line; it was cut off"
    path.write_bytes(lines[0])
    assert message(path).startswith(":1: no result line: the file stops after this line")


def test_places_that_hold_no_file(tmp_path: Path) -> None:
    assert message(tmp_path / "none.jsonl") == ": cannot be read: No such file or directory"
    assert message(tmp_path) == ": cannot be read: Is a directory"
    with pytest.raises(ArenaError, match="cannot be read"):
        read("match\0.jsonl")


def test_other_line_ends_and_key_orders_are_fine(path: Path, replay: Replay) -> None:
    lines = [json.dumps(json.loads(line), sort_keys=True) for line in path.read_text().splitlines()]
    path.write_bytes("\r\n".join(lines).encode())
    assert read(path) == replay


def test_a_failing_write_leaves_the_old_file(path: Path, replay: Replay, monkeypatch: pytest.MonkeyPatch) -> None:
    old = path.read_bytes()

    def full_disk(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full_disk)
    with pytest.raises(ArenaError, match=r"match\.jsonl: cannot be written: No space left on device$"):
        write(path, Replay.from_actions(1, 1, None, []))
    assert path.read_bytes() == old
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("name", ["", "none/match.jsonl", ".", "a\0b"])
def test_places_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, replay: Replay, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ArenaError, match="cannot be written"):
        write(name, replay)
    assert list(tmp_path.iterdir()) == []


def test_damaged_files_give_nothing_but_arena_errors(tmp_path: Path) -> None:
    write(tmp_path / "whole.jsonl", Replay.from_actions(2, 2, None, random_actions(2, 12)))
    whole = (tmp_path / "whole.jsonl").read_bytes()
    seed = 20
    rng = random.Random(seed)
    path = tmp_path / "damaged.jsonl"
    for case in range(400):
        data = bytearray(whole)
        if case % 4 == 0:
            data = data[: rng.randrange(len(whole) - 2)]
        elif case % 4 == 1:
            for _ in range(rng.choice((1, 3, 40))):
                data[rng.randrange(len(data))] = rng.randrange(256)
        elif case % 4 == 2:
            place, size = rng.randrange(len(data)), rng.randrange(1, 60)
            data[place : place + size] = rng.choice((b"", b"null", b"[[", b"1e999", b"\n", b'"', b"{}", b"-1"))
        else:
            data = bytearray(rng.randbytes(rng.randrange(300)))
        path.write_bytes(data)
        complaint = ""
        try:
            read(path)
        except ArenaError as error:
            complaint = str(error)
        assert "\n" not in complaint, f"seed {seed}, case {case}"
        assert complaint or case % 4 in (1, 2), f"seed {seed}, case {case}: damage was not noticed"
