"""Work beside the caller's on a CPU: results, order, split batches, and the threads of both sides."""

import threading

import numba
import pytest
import torch

from marl.compute.overlap import Overlap


def test_without_two_halves_work_is_done_in_the_callers_place() -> None:
    each = Overlap(False)
    assert not each.splits
    done = []
    wait = each.run(done.append, 1)
    assert done == [1], "before the caller goes on"
    assert wait() is None
    assert each.run(threading.get_ident)() == threading.get_ident()
    batch = torch.arange(6.0).view(3, 2)
    asked = []
    assert torch.equal(each.split_batch(lambda part: asked.append(len(part)) or 2 * part, batch), 2 * batch)
    assert asked == [3]


def test_work_runs_in_a_thread_of_its_own_one_piece_after_the_other() -> None:
    each = Overlap(True)
    may_end, done = threading.Event(), []

    def first() -> int:
        assert may_end.wait(60)
        done.append("first")
        return threading.get_ident()

    waits = [each.run(first), each.run(lambda: (done.append("second"), threading.get_ident())[1])]
    assert done == [], "the caller goes on meanwhile"
    may_end.set()
    threads = {wait() for wait in waits}
    assert done == ["first", "second"]
    assert len(threads) == 1
    assert threading.get_ident() not in threads


@pytest.mark.parametrize("rows", [2, 5, 8])
def test_a_batch_is_split_into_two_halves_in_order(rows) -> None:
    each, asked = Overlap(True), {}
    batch = torch.arange(2.0 * rows).view(rows, 2)

    def work(part: torch.Tensor) -> torch.Tensor:
        asked[threading.get_ident()] = len(part)
        return 2 * part

    assert torch.equal(each.split_batch(work, batch), 2 * batch)
    assert sorted(asked.values()) == [rows // 2, rows - rows // 2]
    assert asked[threading.get_ident()] == rows // 2


def test_an_error_in_the_thread_reaches_who_waits() -> None:
    each = Overlap(True)
    wait = each.run(lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        wait()
    assert each.run(lambda: 3)() == 3, "and the next piece is done"


def test_the_thread_has_the_callers_numbers_of_threads() -> None:
    """A new thread would begin with all cores."""
    before = torch.get_num_threads(), numba.get_num_threads()
    try:
        numba.set_num_threads(1)
        torch.set_num_threads(3)
        each = Overlap(True)
        assert each.run(lambda: (torch.get_num_threads(), numba.get_num_threads()))() == (3, 1)
    finally:
        torch.set_num_threads(before[0])
        numba.set_num_threads(before[1])
