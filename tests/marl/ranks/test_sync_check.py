"""Comparison of the digests of all ranks."""

import pytest

from marl.ranks.sync_check import first_difference


@pytest.mark.parametrize(
    ("details", "part"),
    [
        ([[("a", "1"), ("b", "1")]] * 2 + [[("a", "1"), ("b", "2")]], "b on rank 2 of 3 differs"),
        ([[("a", "0")], [("a", "1")], [("a", "1")]], "a on rank 0 of 3 differs"),
        ([[("a", "0")], [("a", "1")], [("a", "2")]], "a on ranks 1, 2 of 3 differs"),
        ([[("a", "0")], [("a", "0"), ("b", "1")]], "rank 1 of 2 has other parameters"),
    ],
)
def test_the_first_difference_is_named(details, part) -> None:
    assert part in first_difference(details)
