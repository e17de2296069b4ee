"""Idle threads of OpenMP sleep where cores are few, unless the user has chosen."""

import os

import pytest
from helpers.command import snakes

from marl.compute import wait_policy

NAME = "OMP_WAIT_POLICY"


@pytest.mark.parametrize(
    ("cores", "given", "expected"),
    [(1, None, "passive"), (2, None, "passive"), (3, None, None), (2, "active", "active")],
)
def test_the_policy(cores, given, expected, monkeypatch):
    monkeypatch.setattr(wait_policy, "usable_cores", lambda: cores)
    monkeypatch.setattr(os, "environ", {} if given is None else {NAME: given})
    wait_policy.let_idle_threads_sleep()
    assert os.environ.get(NAME) == expected


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="the system cannot keep a process on one core")
def test_torchs_library_has_read_it():
    environment = {name: value for name, value in os.environ.items() if name != NAME} | {"OMP_DISPLAY_ENV": "true"}
    core = min(os.sched_getaffinity(0))
    result = snakes("train", "--dry_run", env=environment, preexec_fn=lambda: os.sched_setaffinity(0, {core}))
    assert result.returncode == 0, result.stderr
    shown = [line for line in result.stderr.splitlines() if NAME in line]  # of each OpenMP library in the process
    assert shown
    assert all("PASSIVE" in line for line in shown), shown
