"""The replay file: one match as readable JSON lines; reading a file plays the match again to verify it.

(marl/commands/replay.py is the command that shows such files.)

    {"type":"header","format":2,"rules":1,"seed":7,"match":3,"red":"level4","blue":"evasive","date":"2026-11-15"}
    {"type":"start","turn":0,"snakes":[...],"directions":[...],"beans":[...],"check":"5f0c1a2b"}
    {"type":"turn","turn":1,"actions":[0,3,3,1,2,0],"ate":[4],"beans":[[2,7]],"check":"91d3e07a"}
    {"type":"result","turns":200,"lengths":[...],"red_score":12,"blue_score":9,"winner":"red"}

Seed, match number, start and actions determine the match. The rest of a turn line is for people and for verification:
"directions" after the turn if they differ from the actions (a reversal, a respawn), the snakes that "ate" and "died",
new "beans", and "check", a CRC-32 of the actions and the match dictionary after the turn.

Since format 2 the header may have a "date", and a turn line the outputs of the policies that chose its actions:
"probs" (of up, down, left and right) and "values", six entries each, null for snakes without a policy. These are stored
as they were written: a replay does not need the policies. Files of format 1 are read, too.
"""

import json
import math
import os
import re
import zlib
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any

import torch

from arena.batch import BatchArena
from arena.errors import ArenaError, whole_number
from arena.files import write_user_file
from arena.match_dict import team_scores
from arena.rules import OVER, RULES_VERSION, SNAKES

FORMAT = 2
FORMATS = (1, 2)  # that this program reads
# Far above the size of any match; a wrong path cannot fill the memory.
FILE_BYTES_MAX = 16 * 2**20
SEED_MAX, MATCH_MAX = 2**63 - 1, 2**62
MESSAGE_MAX = 300
PROB_DIGITS, VALUE_DIGITS = 4, 3  # decimals of the outputs of policies

_HEADER_KEYS = {"type", "format", "rules", "seed", "match", "red", "blue"}
_HEADER_EXTRAS = {"date"}
_START_KEYS = {"type", "turn", "snakes", "directions", "beans", "check"}
_TURN_KEYS = {"type", "turn", "actions", "check"}
_TURN_EXTRAS = {"directions", "ate", "died", "beans"}
_POLICY_KEYS = ("probs", "values")  # of a turn line, since format 2
_RESULT_KEYS = {"type", "turns", "lengths", "red_score", "blue_score", "winner"}


@dataclass(frozen=True)
class Replay:
    """A recorded match. Made by from_actions, by a Recorder or by read."""

    seed: int
    match: int  # number of the match of this seed
    red: str
    blue: str
    start: dict[str, Any]
    turns: list[dict[str, Any]]
    result: dict[str, Any]
    date: str = field(default="", compare=False)  # of the recording, like 2026-11-15; empty if it is not known

    @classmethod
    def from_actions(
        cls, seed: int, match: int, start: dict[str, Any] | None, actions: Any, *, red: str = "red", blue: str = "blue"
    ) -> "Replay":
        """The replay of actions [T, 6] from a start (None: the start that the seed draws), up to its end."""
        seed, match = _checked_numbers(seed, match)
        arena = _arena_at(seed, match, start)
        state = start = arena.get_match(0)
        turns = []
        for row in _rows(actions):
            if arena.state[0, OVER]:
                break
            line, state = _play_turn(arena, state, row)
            turns.append(line)
        return cls(seed, match, red, blue, start, turns, _result(state))

    def actions(self) -> list[list[int]]:
        """The actions of every turn."""
        return [turn["actions"] for turn in self.turns]

    def with_policy(self, outputs: Sequence[dict[str, list[Any]]]) -> "Replay":
        """The same replay with the outputs of policies: for each turn a dictionary with "probs" and "values"."""
        turns = [turn | _rounded(output) for turn, output in zip(self.turns, outputs, strict=True)]
        return replace(self, turns=turns)

    def states(self) -> list[dict[str, Any]]:
        """The match dictionary at the start and after every turn, computed by playing the match again."""
        arena = _arena_at(self.seed, self.match, self.start)
        states = [arena.get_match(0)]
        for actions in self.actions():
            arena.play_turn(torch.tensor([actions]))
            states.append(arena.get_match(0))
        return states


@dataclass
class Recorder:
    """Stores the actions of a match in progress; the rest of a replay follows from them."""

    start: dict[str, Any]
    seed: int
    match: int
    red: str = "red"
    blue: str = "blue"
    date: str = ""
    _actions: list[list[int]] = field(default_factory=list, init=False)
    _policy: list[dict[str, list[Any]]] = field(default_factory=list, init=False)

    def add(self, actions: Any, policy: dict[str, list[Any]] | None = None) -> None:
        """Record the six actions of a turn, and the outputs of policies. The actions are copied."""
        self._actions += _rows([actions] if isinstance(actions, (list, tuple)) else actions[None])
        self._policy.append(policy or {})

    def replay(self) -> Replay:
        """The replay of the turns recorded so far."""
        names = {"red": self.red, "blue": self.blue}
        replay = Replay.from_actions(self.seed, self.match, self.start, self._actions, **names)
        return replace(replay.with_policy(self._policy[: len(replay.turns)]), date=self.date)


def today() -> str:
    """The date of a recording."""
    return date.today().isoformat()


def write(path: str | os.PathLike, replay: Replay) -> None:
    """Write a replay file; if that fails, an existing file stays as it was."""
    header = {"format": FORMAT, "rules": RULES_VERSION, "seed": replay.seed, "match": replay.match}
    names = {"red": replay.red, "blue": replay.blue} | ({"date": replay.date} if replay.date else {})
    lines = [{"type": "header", **header, **names}]
    lines.append({"type": "start", **replay.start, "check": _check([replay.seed, replay.match], replay.start)})
    lines += [{"type": "turn", **turn} for turn in replay.turns]
    lines.append({"type": "result", **replay.result})
    write_user_file(path, "".join(_compact(line) + "\n" for line in lines))


def read(path: str | os.PathLike) -> Replay:
    """Read a replay file and verify it by playing the match again; ArenaError names the wrong line."""
    lines = _Lines(path)
    try:
        return _verified(lines)
    except ArenaError:
        raise
    except RecursionError:
        raise lines.error("nested too deeply; a replay file is JSON lines") from None
    except Exception as error:  # of any kind that a file of a stranger brings about
        raise lines.error(f"damaged ({type(error).__name__}); a replay file is JSON lines") from None


def _verified(lines: "_Lines") -> Replay:
    header = lines.next("header")
    _check_header(header, lines)
    start = lines.next("start")
    lines.check_keys(start, _START_KEYS)
    written_check = start.pop("check")
    start.pop("type")
    seed, match = header["seed"], header["match"]
    try:
        arena = _arena_at(seed, match, start)
    except ArenaError as error:
        raise lines.error(str(error)) from None
    state = start = arena.get_match(0)
    lines.compare({"check": written_check}, {"check": _check([seed, match], start)})

    turns = []
    line = lines.next("turn", "result")
    while line["type"] == "turn":
        lines.check_keys(line, _TURN_KEYS, _TURN_EXTRAS if header["format"] == 1 else {*_TURN_EXTRAS, *_POLICY_KEYS})
        if arena.state[0, OVER]:
            raise lines.error(f"the match was over after turn {state['turn']}; a result line must follow")
        _check_actions(line["actions"], lines)
        played, state = _play_turn(arena, state, line["actions"])
        line.pop("type")
        policy = {key: line.pop(key) for key in _POLICY_KEYS if key in line}
        _check_policy(policy, lines)
        lines.compare(line, played)
        turns.append(played | policy)
        line = lines.next("turn", "result")
    lines.check_keys(line, _RESULT_KEYS)
    line.pop("type")
    result = _result(state)
    lines.compare(line, result)
    lines.check_end()
    return Replay(seed, match, header["red"], header["blue"], start, turns, result, header.get("date", ""))


def read_bytes(path: str | os.PathLike) -> bytes:
    """The content of a match file; ArenaError if it cannot be read, is empty or far too large."""
    try:
        with open(path, "rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the path
        raise ArenaError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if len(data) > FILE_BYTES_MAX:
        raise ArenaError(f"{path}: larger than {FILE_BYTES_MAX // 2**20} MiB; no match is as large as that")
    if not data.strip():
        raise ArenaError(f"{path}: the file is empty; need a match")
    return data


class _Lines:
    """The lines of a replay file one after the other, with the line number for error messages."""

    def __init__(self, path: str | os.PathLike) -> None:
        self.path = path
        data = read_bytes(path)
        self._whole = data.endswith(b"\n")
        self._lines: Iterator[tuple[int, bytes]] = enumerate(data.rstrip().split(b"\n"), start=1)
        self._last = data.rstrip().count(b"\n") + 1
        self.number = 0

    def error(self, what: str) -> ArenaError:
        if len(what) > MESSAGE_MAX:
            what = what[:MESSAGE_MAX] + " ..."
        return ArenaError(f"{self.path}:{self.number}: {what}")

    def next(self, *types: str) -> dict[str, Any]:
        """The next line; ArenaError if it is of none of these types."""
        if self.number == self._last:
            raise self.error(
                f"no result line: the file stops after this line ({types[0]} or result expected); it was cut off"
            )
        self.number, raw = next(self._lines)
        try:
            line = json.loads(raw.decode())
        except UnicodeDecodeError:
            raise self.error("not UTF-8 text; a replay file is JSON lines") from None
        except (ValueError, RecursionError) as error:
            if self.number == self._last and self.number > 1 and not self._whole:
                raise self.error("no result line: the file stops in the middle of this line; it was cut off") from None
            reason = getattr(error, "msg", "nested too deeply" if isinstance(error, RecursionError) else "bad number")
            raise self.error(f"not JSON ({reason}); a replay file is JSON lines") from None
        if not isinstance(line, dict) or line.get("type") not in types:
            kind = f"type {line.get('type')!r}" if isinstance(line, dict) else f"a {type(line).__name__}"
            if "header" in types:
                raise self.error(f"no replay file (eval --record writes them): need a line of type header, got {kind}")
            raise self.error(f"need a line of type {' or '.join(types)}, got {kind}")
        return line

    def check_keys(self, line: dict[str, Any], needed: set[str], extras: Set[str] = frozenset()) -> None:
        missing, unknown = needed - set(line), set(line) - needed - extras
        if missing:
            raise self.error(f"{line['type']} line without {', '.join(sorted(missing))}")
        if unknown:
            raise self.error(f"{line['type']} line with unknown {', '.join(map(repr, sorted(unknown)))}")

    def compare(self, written: dict[str, Any], played: dict[str, Any]) -> None:
        """Raise if a written line differs from the played turn. Compared as text, so that 1, 1.0 and true differ."""
        for key in (*played, *(written.keys() - played.keys())):
            found, right = (_compact(side[key]) if key in side else "missing" for side in (written, played))
            if found != right:
                hint = "; a line or the seed was changed" if key == "check" else ""
                raise self.error(f"{key} is {found[:100]}, playing the match again gives {right}{hint}")

    def check_end(self) -> None:
        if self.number < self._last:
            self.number += 1
            raise self.error("a line after the result; nothing may follow it")


def _check_header(header: dict[str, Any], lines: _Lines) -> None:
    # Format and rules first: another format may have other keys.
    if _compact(header.get("format")) not in map(str, FORMATS):
        known = " and ".join(map(str, FORMATS))
        raise lines.error(f"unknown format {header.get('format')!r}; this program reads formats {known}")
    if _compact(header.get("rules")) != str(RULES_VERSION):
        raise lines.error(
            f"played by rules {header.get('rules')!r}, this is {RULES_VERSION}: "
            "open it with the version of the program that wrote it"
        )
    lines.check_keys(header, _HEADER_KEYS, frozenset() if header["format"] == 1 else _HEADER_EXTRAS)
    try:
        _checked_numbers(header["seed"], header["match"])
    except ArenaError as error:
        raise lines.error(str(error)) from None
    for key in ("red", "blue"):
        if not isinstance(header[key], str):
            raise lines.error(f"{key} is {header[key]!r}; need a name in quotes")
    day = header.get("date", "")
    if not isinstance(day, str) or not re.fullmatch(r"(\d{4}-\d\d-\d\d)?", day):
        raise lines.error(f"date is {_compact(day)[:100]}; need a date like 2026-11-15")


def _check_actions(actions: Any, lines: _Lines) -> None:
    if (
        not isinstance(actions, list)
        or len(actions) != SNAKES
        or any(type(action) is not int or not 0 <= action <= 3 for action in actions)
    ):
        raise lines.error(f"actions are {_compact(actions)[:100]}; need six numbers 0-3")


def _rounded(output: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """Outputs of policies with as many decimals as a file has."""
    if not output:
        return {}
    probs = [of and [round(p, PROB_DIGITS) for p in of] for of in output["probs"]]
    return {"probs": probs, "values": [None if v is None else round(v, VALUE_DIGITS) for v in output["values"]]}


def _check_policy(policy: dict[str, Any], lines: _Lines) -> None:
    def is_number(value: Any) -> bool:
        return type(value) in (int, float) and math.isfinite(value)

    def is_distribution(value: Any) -> bool:
        return isinstance(value, list) and len(value) == 4 and all(is_number(p) and 0 <= p <= 1 for p in value)

    for key, valid, need in (("probs", is_distribution, "four numbers 0 to 1"), ("values", is_number, "a number")):
        found = policy.get(key, [None] * SNAKES)
        if not isinstance(found, list) or len(found) != SNAKES or any(v is not None and not valid(v) for v in found):
            raise lines.error(f"{key} are {_compact(found)[:100]}; need six entries, each null or {need}")


def _checked_numbers(seed: Any, match: Any) -> tuple[int, int]:
    """Seed and match number as ints; ArenaError if there is no such match."""
    seed = whole_number(seed, "seed", 0, SEED_MAX, f"0 to {SEED_MAX}")
    match = whole_number(match, "match", 0, MATCH_MAX, f"0 to {MATCH_MAX}")
    return seed, match


def _rows(actions: Any) -> list[list[int]]:
    """Actions [T, 6] (lists, numpy, torch on any device) as plain lists."""
    try:
        tensor = torch.as_tensor(actions)
    except (ValueError, TypeError, RuntimeError, OverflowError):
        raise ArenaError(f"actions are {type(actions).__name__}; need numbers [turns, {SNAKES}]") from None
    if tensor.numel() == 0:
        return []
    if tensor.ndim != 2 or tensor.shape[1] != SNAKES or tensor.is_floating_point() or tensor.dtype == torch.bool:
        raise ArenaError(f"actions are {tensor.dtype} {list(tensor.shape)}; need whole numbers [turns, {SNAKES}]")
    return tensor.tolist()


def _arena_at(seed: int, match: int, start: dict[str, Any] | None) -> BatchArena:
    """An arena with this one match, at its start."""
    seed, match = _checked_numbers(seed, match)
    arena = BatchArena(1, seed=seed, first_match=match)
    arena.start()
    if start is not None:
        arena.set_match(0, start)
    return arena


def _play_turn(arena: BatchArena, before: dict[str, Any], actions: list[int]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Play a turn; returns its line (without the type) and the match dictionary after it."""
    events = arena.play_turn(torch.tensor([actions]))
    after = arena.get_match(0)
    ate, died = ([snake for snake, did in enumerate(all_of[0].tolist()) if did] for all_of in (events.ate, events.died))
    new_beans = after["beans"][len(before["beans"]) - len(ate) :]  # old beans come first, in their old order
    line: dict[str, Any] = {"turn": after["turn"], "actions": actions}
    if after["directions"] != actions:
        line["directions"] = after["directions"]
    line |= {key: value for key, value in (("ate", ate), ("died", died), ("beans", new_beans)) if value}
    line["check"] = _check(actions, after)
    return line, after


def _result(state: dict[str, Any]) -> dict[str, Any]:
    """The result line of a match: the team with the larger score wins."""
    lengths = [len(body) for body in state["snakes"]]
    red, blue = team_scores(state)
    winner = "draw" if red == blue else "red" if red > blue else "blue"
    return {"turns": state["turn"], "lengths": lengths, "red_score": red, "blue_score": blue, "winner": winner}


def _check(numbers: Sequence[int], state: dict[str, Any]) -> str:
    return f"{zlib.crc32(_compact([numbers, state]).encode()):08x}"


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))
