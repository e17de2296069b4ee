"""Work beside the caller's on a CPU: results, order, split batches, and torch's threads."""

import gc
import threading

import pytest
import torch

from marl.compute import overlap
from marl.compute.overlap import Overlap

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def four_threads(monkeypatch):
    """Torch with four threads, and no overlap of another test among those that are counted."""
    monkeypatch.setattr(overlap, "_users", 0)
    monkeypatch.setattr(overlap, "_threads", 0)
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield
    gc.collect()  # overlaps of this test, before the counters are put back
    torch.set_num_threads(before)


def test_threads_are_halved_while_an_overlap_lives_and_given_back_by_the_last_one() -> None:
    first = Overlap(CPU, True)
    assert first.splits
    assert torch.get_num_threads() == 2
    second = Overlap(CPU, True)
    assert torch.get_num_threads() == 2, "halved once, however many there are"
    del first
    assert torch.get_num_threads() == 2
    assert second.run(lambda: 7)() == 7
    del second
    assert torch.get_num_threads() == 4
    torch.set_num_threads(3)
    third = Overlap(CPU, True)
    assert torch.get_num_threads() == 1
    del third
    assert torch.get_num_threads() == 3, "what it was when the first of them came"


def test_a_learner_that_is_gone_gives_its_threads_back() -> None:
    from helpers.ppo_rounds import a_ppo, begin, play

    learner, rollout = a_ppo(4, 2, batch_size=12)
    assert torch.get_num_threads() == 2
    begin(rollout)
    play(learner, rollout)
    learner.learn()
    learner.overlap.run(int)()  # then the thread has let go of the work before
    del learner, rollout
    assert torch.get_num_threads() == 4, "without waiting for the garbage collector"


@pytest.mark.parametrize(("enabled", "threads"), [(False, 4), (True, 1)])
def test_without_two_halves_work_is_done_in_the_callers_place(enabled, threads) -> None:
    torch.set_num_threads(threads)
    each = Overlap(CPU, enabled)
    assert not each.splits
    assert torch.get_num_threads() == threads
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
    each = Overlap(CPU, True)
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
    each, asked = Overlap(CPU, True), {}
    batch = torch.arange(2.0 * rows).view(rows, 2)

    def work(part: torch.Tensor) -> torch.Tensor:
        asked[threading.get_ident()] = len(part)
        return 2 * part

    assert torch.equal(each.split_batch(work, batch), 2 * batch)
    assert sorted(asked.values()) == [rows // 2, rows - rows // 2]
    assert asked[threading.get_ident()] == rows // 2


def test_an_error_in_the_thread_reaches_who_waits() -> None:
    each = Overlap(CPU, True)
    wait = each.run(lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        wait()
    assert each.run(lambda: 3)() == 3, "and the next piece is done"
