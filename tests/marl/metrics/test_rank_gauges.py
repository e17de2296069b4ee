"""Gauges of ranks: what is exchanged, what becomes of it, and what is left out. Ranks are played by one fake group."""

from itertools import count

import pytest
import torch

from marl.metrics import rank_gauges
from marl.metrics.rank_gauges import RankGauges
from marl.ranks.process_group import Solo


class ThreeRanks(Solo):
    """Rank 1 of three; the others send fixed rows."""

    rank, world, waited = 1, 3, 0.0

    def sum_(self, table: torch.Tensor) -> torch.Tensor:
        assert not table[[0, 2]].any()
        table[0] = torch.tensor([400.0, 2.0, 1.0, 10.0, 50.0, 0.0])
        table[2] = torch.tensor([400.0, 8.0, 0.0, 10.0, 70.0, 0.0])
        self.waited += 5.0  # the sum of the gauges itself counts to the window after it
        return table


@pytest.fixture
def clock(monkeypatch):
    """A clock that ticks once a call."""
    ticks = count()
    monkeypatch.setattr(rank_gauges.time, "perf_counter", lambda: float(next(ticks)))
    monkeypatch.setattr(rank_gauges, "_resident_mib", lambda: 60.0)


def test_mean_least_most_and_the_slowest(clock) -> None:
    group = ThreeRanks(torch.device("cpu"))
    gauges = RankGauges(group)
    for _ in range(3):  # the first one may have compiled: it does not count
        with gauges.playing(100):
            group.waited += 0.5
    with gauges.pause():
        group.waited += 100.0  # an evaluation
    group.waited += 1.5
    values = gauges.exchange(1, 10.0)
    speeds = [400 / 2, 200 / 2, 400 / 8]
    assert values == pytest.approx(
        {
            "ranks/env_steps_per_second_mean": sum(speeds) / 3,
            "ranks/env_steps_per_second_min": 50,
            "ranks/env_steps_per_second_max": 200,
            "ranks/slowest": 2,
            "ranks/waited_percent_mean": (10 + 30 + 0) / 3,
            "ranks/waited_percent_min": 0,
            "ranks/waited_percent_max": 30,
            "ranks/memory_mib_mean": 60,
            "ranks/memory_mib_min": 50,
            "ranks/memory_mib_max": 70,
        }
    )
    assert [row[0] for row in gauges.summary()] == [
        "each rank",
        "env steps/s while playing",
        "waited for others",
        "memory",
    ]
    assert gauges.summary()[2] == ("waited for others", "13.3 %", "0.0 %", "rank 2", "30.0 %", "rank 1")


def test_windows_follow_each_other_and_add_up(clock) -> None:
    group = ThreeRanks(torch.device("cpu"))
    gauges = RankGauges(group)
    for steps in (1, 100, 300):
        with gauges.playing(steps):
            pass
        gauges.exchange(1, 10.0)
    assert gauges.windows[1][:4] == (300, 1, 5, 10)
    assert gauges.totals[1] == (400, 2, 10, 30, 60, 0)


def test_a_window_without_turns_has_no_speed(clock) -> None:
    gauges = RankGauges(ThreeRanks(torch.device("cpu")))
    assert not [tag for tag in gauges.exchange(1, 10.0) if "env_steps" in tag or "slowest" in tag]


def test_one_process_has_none() -> None:
    gauges = RankGauges(Solo(torch.device("cpu")))
    with gauges.playing(100):
        pass
    assert gauges.exchange(1, 1.0) == {}
    assert gauges.summary() == []
