"""Variables of thread libraries: the number that a user or a container gives, and idle threads that sleep."""

import math
import os

import pytest
from helpers.command import snakes

from marl.compute import thread_variables
from marl.compute.thread_variables import (
    IDLE,
    NUMBA_THREADS,
    THREADS,
    THREADS_ARE_A_LIMIT,
    limit_threads_of_children,
    set_thread_variables,
    user_fixes_threads,
)


@pytest.fixture
def machine(monkeypatch):
    """Sets the cores of the machine, the quota of its control group, and the variables given by the user."""

    def make(cores: int, quota: float, given: dict[str, str]) -> dict[str, str]:
        monkeypatch.setattr(thread_variables, "usable_cores", lambda: min(cores, max(1, int(min(quota, cores)))))
        monkeypatch.setattr(thread_variables, "cpu_quota", lambda: quota)
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)), raising=False)
        monkeypatch.setattr(os, "environ", dict(given))
        monkeypatch.setattr(thread_variables, "_read_by_numba", lambda: None)  # here its threads may run
        monkeypatch.setattr(thread_variables.parallel, "_is_initialized", False)
        return os.environ

    return make


@pytest.mark.parametrize(
    ("cores", "given", "expected"),
    [(1, {}, "passive"), (2, {}, "passive"), (3, {}, None), (2, {IDLE: "active"}, "active")],
)
def test_idle_threads_sleep_where_cores_are_few(cores, given, expected, machine) -> None:
    environment = machine(cores, math.inf, given)
    set_thread_variables()
    assert environment.get(IDLE) == expected


@pytest.mark.parametrize(
    ("quota", "given", "expected"),
    [
        (math.inf, {}, {}),
        (math.inf, {THREADS: "3"}, {THREADS: "3", NUMBA_THREADS: "3"}),
        (math.inf, {THREADS: "64"}, {THREADS: "64", NUMBA_THREADS: "16"}),
        (math.inf, {THREADS: "3,2"}, {THREADS: "3,2", NUMBA_THREADS: "3"}),
        (math.inf, {THREADS: "many"}, {THREADS: "many"}),
        (math.inf, {THREADS: "3", NUMBA_THREADS: "5"}, {THREADS: "3", NUMBA_THREADS: "5"}),
        (4.5, {}, {THREADS: "4", NUMBA_THREADS: "4", THREADS_ARE_A_LIMIT: "1"}),
        (0.5, {}, {THREADS: "1", NUMBA_THREADS: "1", THREADS_ARE_A_LIMIT: "1"}),
        (4.5, {THREADS: "8"}, {THREADS: "8", NUMBA_THREADS: "8"}),
        (16, {}, {}),
    ],
    ids=str,
)
def test_numba_has_the_threads_of_torch_and_both_those_of_the_container(quota, given, expected, machine) -> None:
    environment = machine(16, quota, given)
    set_thread_variables()
    assert {name: value for name, value in environment.items() if name != IDLE} == expected


def test_ranks_have_a_limit_that_the_user_may_replace(machine) -> None:
    environment = machine(16, 4, {})
    set_thread_variables()
    limit_threads_of_children(2)
    assert (environment[THREADS], environment[NUMBA_THREADS], user_fixes_threads()) == ("2", "2", False)
    environment = machine(16, 4, {THREADS: "5"})
    limit_threads_of_children(2)
    assert (environment, user_fixes_threads()) == ({THREADS: "5"}, True)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="the system cannot keep a process on one core")
def test_torchs_library_has_read_it() -> None:
    environment = {name: value for name, value in os.environ.items() if name != IDLE} | {"OMP_DISPLAY_ENV": "true"}
    core = min(os.sched_getaffinity(0))
    result = snakes("train", "--dry_run", env=environment, preexec_fn=lambda: os.sched_setaffinity(0, {core}))
    assert result.returncode == 0, result.stderr
    shown = [line for line in result.stderr.splitlines() if IDLE in line]  # of each OpenMP library in the process
    assert shown
    assert all("PASSIVE" in line for line in shown), shown
