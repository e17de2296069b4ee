"""Recorded steps of the original game, in the arena's words. The file's keys are explained in `Step`."""

import gc
import json
import lzma
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

FILE = Path(__file__).resolve().parent.parent / "data" / "traces.jsonl.xz"


class Step(NamedTuple):
    name: str  # header's id and the step's number in that game
    case: str  # name of a crafted case, else ""
    before: dict[str, Any]  # a match dictionary
    asked: list[int]  # requested moves
    taken: list[int]  # directions really taken: they differ where a reversal was replaced by a random draw
    after: dict[str, Any]  # new beans included
    new_beans: list[list[int]]
    ate: list[bool]
    died: list[bool]
    reward: list[int]
    over: bool


def place(cell: int) -> list[int]:
    return [cell // 20, cell % 20]


def _match(turn: int, snakes: list, directions: list, beans: list) -> dict[str, Any]:
    return {
        "turn": turn,
        "snakes": [[[cell // 20, cell % 20] for cell in body] for body in snakes],
        "directions": directions,
        "beans": [place(cell) for cell in beans],
    }


def _lines() -> Iterator[str]:
    with lzma.open(FILE, "rt") as lines:
        yield from lines


@cache
def cases() -> list[str]:
    """The names of the crafted cases, from the headers alone: tests are collected in a tenth of the time of steps()."""
    headers = [json.loads(line) for line in _lines() if '"header"' in line[:40]]
    return sorted({header["case"] for header in headers if header["id"].startswith("crafted-")})


@cache
def steps() -> list[Step]:
    """All recorded steps."""
    was_enabled = gc.isenabled()
    gc.disable()  # nothing becomes garbage: looking for it among half a million lists takes longer than reading them
    try:
        found = list(_read_steps())
        gc.freeze()  # they stay to the end: later collections need not look through them
    finally:
        if was_enabled:
            gc.enable()
    return found


def first_step(game: str) -> Step:
    """The first step of a game. For use while tests are collected: to read all steps takes a second."""
    return next(step for step in _read_steps() if step.name == f"{game} step 0")


def _read_steps() -> Iterator[Step]:
    """The original counts from 1: its step_cnt is our turn + 1."""
    header: dict[str, Any] = {}
    for line in _lines():
        record = json.loads(line)
        if record["type"] == "header":
            header, number = record, 0
            continue
        yield Step(
            name=f"{header['id']} step {number}",
            case=header["case"] if header["id"].startswith("crafted-") else "",
            before=_match(record["t"] - 1, record["s0"], record["d0"], record["b0"]),
            asked=record["a"],
            taken=record["taken"],
            after=_match(record["t1"] - 1, record["s1"], record["d1"], record["b1"]),
            new_beans=[place(cell) for cell in record["new"]],
            ate=[bool(x) for x in record["ate"]],
            died=[bool(x) for x in record["hit"]],
            reward=record["r"],
            over=record["done"],
        )
        number += 1
