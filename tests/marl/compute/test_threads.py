"""The choice of threads, with a clock that goes as the steps say."""

import numba
import pytest
import torch

from marl.compute import threads
from marl.compute.threads import candidates, fewest_of_fastest, measure_threads, use_threads


@pytest.fixture(autouse=True)
def own_threads():
    """Threads of torch and Numba are put back."""
    before = torch.get_num_threads(), numba.get_num_threads()
    yield
    torch.set_num_threads(before[0])
    numba.set_num_threads(before[1])


class Machine:
    """A clock that a step puts forward by `seconds[threads of torch]`; `asked` are the rows of the steps."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, seconds: dict[int, float]) -> None:
        self.now, self.asked, self._seconds = 0.0, [], seconds
        monkeypatch.setattr(threads.time, "perf_counter", lambda: self.now)

    def make_step(self, rows: int):
        self.asked.append((torch.get_num_threads(), rows))

        def step() -> None:
            self.now += self._seconds[torch.get_num_threads()]

        return step


@pytest.mark.parametrize(
    ("most", "expected"), [(1, [1]), (2, [1, 2]), (3, [1, 2, 3]), (8, [1, 2, 4, 8]), (12, [1, 2, 4, 8, 12])]
)
def test_candidates(most, expected) -> None:
    assert candidates(most) == expected


@pytest.mark.parametrize(
    ("seconds", "chosen"),
    [
        ({1: 1.0, 2: 0.95, 4: 0.92}, 1),
        ({1: 1.0, 2: 0.6, 4: 0.5, 8: 5.0}, 2),
        ({1: 8.0, 2: 4.0, 4: 2.0, 8: 1.0}, 8),
        ({1: 8.0, 2: 4.0, 4: 1.4, 8: 1.0}, 4),
        ({1: 1.0}, 1),
    ],
)
def test_the_fewest_of_those_that_are_fast_enough(seconds, chosen) -> None:
    assert fewest_of_fastest(seconds) == chosen


@pytest.mark.parametrize(
    ("seconds", "chosen"),
    [
        ({1: 0.0032, 2: 0.0019, 4: 0.0035, 8: 0.02, 16: 0.083}, 2),  # a small network: threads fight
        ({1: 0.016, 2: 0.008, 4: 0.004, 8: 0.002, 16: 0.001}, 16),  # a large one
        ({1: 0.010, 2: 0.0095, 4: 0.0093, 8: 0.0091, 16: 0.0091}, 1),
    ],
)
def test_ranks_measure_whole_steps(seconds, chosen, monkeypatch) -> None:
    machine = Machine(monkeypatch, seconds)
    torch.set_num_threads(3)
    assert measure_threads(machine.make_step, 900, 16, overlaps=False) == chosen
    assert machine.asked == [(number, 900) for number in seconds]
    assert torch.get_num_threads() == 3, "the caller sets it"
    assert machine.now < 3 * threads.SECONDS


def test_a_process_alone_measures_two_halves(monkeypatch) -> None:
    machine = Machine(monkeypatch, {1: 0.001, 2: 0.003})
    assert measure_threads(machine.make_step, 901, 4, overlaps=True) in (1, 2)
    assert machine.asked == [(1, 901), (1, 451), (1, 450), (2, 451), (2, 450)], "half of the threads each"


def test_a_slow_machine_measures_no_longer_than_it_must(monkeypatch) -> None:
    machine = Machine(monkeypatch, dict.fromkeys((1, 2, 4, 8), 2.0))
    assert measure_threads(machine.make_step, 9, 8, overlaps=False) == 1
    assert [number for number, _ in machine.asked] == [1]


def test_a_real_measurement_takes_about_a_second() -> None:
    layer = torch.nn.Linear(32, 32)

    def make_step(rows: int):
        x = torch.zeros(rows, 32)
        return lambda: layer(x).sum().backward()

    assert measure_threads(make_step, 96, 2, overlaps=False) in (1, 2)


def test_use_threads() -> None:
    use_threads(1)
    assert (torch.get_num_threads(), numba.get_num_threads()) == (1, 1)
    most = numba.config.NUMBA_NUM_THREADS
    use_threads(most + 1)
    assert (torch.get_num_threads(), numba.get_num_threads()) == (most + 1, most)
    use_threads(5, halves=True)
    assert (torch.get_num_threads(), numba.get_num_threads()) == (2, min(5, most))
