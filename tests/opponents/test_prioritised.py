"""Prioritised fictitious self-play: who is met, and how often."""

import pytest

from opponents.prioritised import hardness, prioritised_shares
from opponents.scheduler import check_sum, parse_shares


def test_a_member_that_always_lost_is_still_met() -> None:
    assert hardness(0, 100) == 1
    assert 0 < hardness(100, 100) < hardness(50, 100) < hardness(10, 100)
    shares = prioritised_shares({"a": hardness(100, 100), "b": hardness(100, 100)}, 2, 0.5, 6, 0.01)
    assert shares == {"a": 0.25, "b": 0.25}


@pytest.mark.parametrize(
    ("hard", "power", "total", "most", "least", "expected"),
    [
        ({}, 2, 0.5, 6, 0.01, {}),
        ({"a": 0.5}, 2, 0.49, 6, 0.01, {"a": 0.49}),
        ({"a": 0.2, "b": 0.4}, 1, 0.6, 6, 0.01, {"a": 0.2, "b": 0.4}),
        ({"a": 0.2, "b": 0.4}, 2, 0.5, 6, 0.01, {"a": 0.1, "b": 0.4}),
        ({"a": 0.2, "b": 0.4}, 0, 0.5, 6, 0.01, {"a": 0.25, "b": 0.25}),
        ({"a": 0.2, "b": 0.4, "c": 0.4}, 1, 0.8, 2, 0.01, {"b": 0.4, "c": 0.4}),  # the two hardest
        ({"a": 0.4, "b": 0.4, "c": 0.4}, 1, 0.8, 2, 0.01, {"a": 0.4, "b": 0.4}),  # of equals the first
        ({"a": 0.1, "b": 0.4}, 1, 0.5, 6, 0.2, {"b": 0.5}),  # too small a share goes to the others
        ({"a": 0.4, "b": 0.4}, 1, 0.1, 6, 0.2, {}),  # no room for anyone
        ({"a": 1e-300, "b": 2e-300}, 50, 0.5, 6, 0.01, {"b": 0.4999}),  # weights do not underflow
        ({"a": 1.0, "b": 1.0, "c": 1.0}, 1, 1.0, 6, 0.01, {"a": 0.3333, "b": 0.3333, "c": 0.3333}),
    ],
)
def test_shares_follow_hardness(hard, power, total, most, least, expected) -> None:
    shares = prioritised_shares(hard, power, total, most, least)
    assert shares == pytest.approx(expected, abs=1.01e-4)
    assert list(shares) == list(expected)
    check_sum(parse_shares([f"{name}:{share:g}" for name, share in shares.items()]), 1 - total)


@pytest.mark.parametrize("members", [3, 6, 7, 11])
def test_rounded_shares_never_add_up_to_more_than_their_total(members) -> None:
    """A schedule with more is refused."""
    shares = prioritised_shares(dict.fromkeys("abcdefghijk"[:members], 1.0), 1, 0.5, members, 0.01)
    assert len(shares) == members
    assert 0.5 - members * 1e-4 <= sum(shares.values()) <= 0.5 + 1e-9
