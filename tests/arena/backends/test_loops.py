"""Loops generated from a function of one item: compiled, in plain Python, over tensors in nested named tuples."""

from typing import NamedTuple

import numpy as np
import pytest
import torch

from arena.backends import loops
from arena.backends.loops import converted, item_loop, runs_parallel, specialise
from arena.jit import njit

CPU = torch.device("cpu")


class Rows(NamedTuple):
    inputs: torch.Tensor
    sums: torch.Tensor


@njit
def add_row(i, rows, factor):
    for k in range(rows.inputs.shape[1]):
        rows.sums[i] += factor * rows.inputs[i, k]


def rows(count: int = 5) -> Rows:
    return Rows(torch.arange(3.0 * count).view(count, 3), torch.zeros(count))


def numpy_rows(count: int = 5) -> Rows:
    return converted(rows(count), torch.Tensor.numpy)


EXPECTED = [6.0, 24.0, 42.0, 60.0, 78.0]  # 2 (0 + 1 + 2), 2 (3 + 4 + 5), ...


def test_a_function_of_a_user_runs_compiled() -> None:
    given = numpy_rows()
    item_loop(add_row).cpu_loop()(0, 5, (given, 2.0))
    assert given.sums.tolist() == EXPECTED


def test_it_runs_in_plain_python() -> None:
    """The same template with the function that Numba has not compiled."""
    given = numpy_rows()
    specialise(loops.serial, "plain", item=add_row.py_func)(0, 5, (given, 2.0))
    assert given.sums.tolist() == EXPECTED


def test_a_bound_loop_reads_and_writes_the_tensors_at_each_call() -> None:
    given = rows()
    call = item_loop(add_row).bind(5, CPU, given, 2.0)
    assert not given.sums.any(), "nothing runs before the call"
    call()
    assert given.sums.tolist() == EXPECTED
    given.inputs.fill_(1.0)
    call()
    assert given.sums.tolist() == [x + 6.0 for x in EXPECTED]


@pytest.mark.parametrize("items", [0, 1, 4])
def test_only_the_items_asked_for_are_computed(items) -> None:
    given = rows()
    item_loop(add_row).bind(items, CPU, given, 2.0)()
    assert given.sums.tolist() == EXPECTED[:items] + [0.0] * (5 - items)


def test_parts_of_the_items() -> None:
    given = rows()
    item_loop(add_row).bind_part(slice(1, 3), given, 2.0)()
    assert given.sums.tolist() == [0.0, *EXPECTED[1:3], 0.0, 0.0]


def test_a_function_has_one_loop() -> None:
    """So it is compiled once, wherever it is asked for."""
    assert item_loop(add_row) is item_loop(add_row)
    assert item_loop(add_row).cpu_loop() is item_loop(add_row).cpu_loop()


def test_loops_of_two_functions_do_not_mix() -> None:
    @njit
    def subtract(i, rows, factor):
        rows.sums[i] -= factor

    given = rows()
    item_loop(subtract).bind(5, CPU, given, 1.0)()
    item_loop(add_row).bind(5, CPU, given, 2.0)()
    item_loop(subtract).bind(5, CPU, given, 1.0)()
    assert given.sums.tolist() == [x - 2.0 for x in EXPECTED]


def test_a_template_is_copied_and_left_as_it_is() -> None:
    before = dict(loops.serial.__globals__)
    copied = specialise(loops.serial, "mine", item=len)
    assert copied.__globals__["item"] is len
    assert loops.serial.__globals__ == before
    assert copied.__qualname__ == "mine_serial", "Numba files compiled code under this name"


def test_tensors_are_converted_in_nested_tuples_and_nothing_else_is() -> None:
    given = (1, 2.5, True, None, rows(), (torch.ones(2), Rows(torch.zeros(1, 3), torch.ones(1))))
    found = converted(given, torch.Tensor.numpy)
    assert found[:4] == (1, 2.5, True, None)
    assert isinstance(found[4], Rows)
    assert isinstance(found[5][1], Rows)
    arrays = [*found[4], found[5][0], *found[5][1]]
    assert all(isinstance(array, np.ndarray) for array in arrays)
    assert arrays[0].ctypes.data == given[4].inputs.data_ptr(), "memory is shared"


@pytest.mark.parametrize(("matches", "threads", "expected"), [(191, 2, False), (192, 2, True), (10**6, 1, False)])
def test_other_cores_are_woken_for_large_batches_only(matches, threads, expected, monkeypatch) -> None:
    monkeypatch.setattr(loops, "get_num_threads", lambda: threads)
    assert runs_parallel(matches) is expected
