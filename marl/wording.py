"""Singular and plural of words in messages."""

from collections.abc import Sized


def named_ranks(ranks: list[int]) -> str:
    """`rank 1`, or `ranks 1, 3`."""
    return f"{verb(ranks, 'rank', 'ranks')} {', '.join(map(str, ranks))}"


def verb(things: Sized, one: str, many: str) -> str:
    """`one` for one thing, `many` for several or none."""
    return one if len(things) == 1 else many


def count(number: int, noun: str) -> str:
    """`1 GPU`, `2 GPUs`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
