"""Threads and oneDNN of a run on a CPU: fixed, kept from an earlier start, from the cache, or measured."""

import numba
import pytest
import torch

from marl import registry
from marl.compute import onednn, threads
from marl.compute.thread_variables import THREADS_ARE_A_LIMIT
from marl.config.autoscale import resolve
from marl.config.train_config import read_config
from marl.ranks.process_group import Solo
from marl.training import cpu_setup
from marl.training.cpu_setup import ROWS_MAX, CpuSetup, set_up_cpu, training_step

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def machine(monkeypatch, tmp_path):
    """A machine of 16 cores on which 4 threads are fastest and oneDNN is clearly faster; counts its measurements."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for name in ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS", THREADS_ARE_A_LIMIT, "LOCAL_WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    before = torch.get_num_threads(), numba.get_num_threads(), torch.backends.mkldnn.enabled
    made = Machine(monkeypatch)
    yield made
    torch.set_num_threads(before[0])
    numba.set_num_threads(before[1])
    torch.backends.mkldnn.enabled = before[2]


class Machine:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.measured, self._monkeypatch = [], monkeypatch
        self.has(16)
        monkeypatch.setattr(threads, "measure_threads", self._measure_threads)
        monkeypatch.setattr(onednn, "needs_measurement", lambda: True)
        monkeypatch.setattr(onednn, "measure_onednn", self._measure_onednn)

    def has(self, cores: int) -> None:
        self._monkeypatch.setattr(cpu_setup.machine, "usable_cores", lambda: cores)
        torch.set_num_threads(cores)

    def _measure_threads(self, make_step, rows, most, overlaps) -> int:
        assert not torch.backends.mkldnn.enabled, "which is mostly so in the end"
        self.measured.append((rows, most, overlaps))
        return min(4, most)

    def _measure_onednn(self, step) -> bool:
        self.measured.append("onednn")
        return True


def a_config(*words: str):
    return resolve(read_config(["--device", "cpu", "--body", "16,8", *words]), CPU)


def test_both_are_measured_once_per_machine_and_configuration(machine) -> None:
    group = Solo(CPU)
    found = set_up_cpu(a_config(), group)
    assert found[:3] == (4, "of 16, measured", True)
    assert (torch.get_num_threads(), torch.backends.mkldnn.enabled) == (2, True), "of each half"
    assert found.halves
    assert group.overlaps
    assert numba.get_num_threads() == min(4, numba.config.NUMBA_NUM_THREADS)
    assert machine.measured == [(ROWS_MAX, 16, True), "onednn"]
    machine.has(16)
    assert set_up_cpu(a_config(), Solo(CPU)) == found
    assert len(machine.measured) == 2, "the second start has an answer"
    machine.has(8)
    set_up_cpu(a_config(), Solo(CPU))
    machine.has(16)
    set_up_cpu(a_config("--batch_size", "96"), Solo(CPU))
    assert machine.measured[2:] == [(ROWS_MAX, 8, True), "onednn", (96, 16, True), "onednn"]


@pytest.mark.parametrize(("cores", "source"), [(1, "one core"), (2, "all cores")])
def test_one_or_two_cores_are_all_used_without_a_measurement(cores, source, machine) -> None:
    machine.has(cores)
    found = set_up_cpu(a_config(), Solo(CPU))
    assert found[:2] == (cores, source)
    assert found.halves == (cores == 2)
    assert torch.get_num_threads() == 1
    assert machine.measured == ["onednn"]


def test_a_rank_measures_two_cores_too(machine, monkeypatch) -> None:
    """Its products do not run as two halves, and on one thread its passes are compiled calls."""
    machine.has(2)
    group = Solo(CPU)
    monkeypatch.setattr(group, "backend", "gloo")
    monkeypatch.setattr(group, "world", 2)
    assert set_up_cpu(a_config(), group)[:2] == (2, "of 2, measured")
    assert machine.measured == [(ROWS_MAX, 2, False), "onednn"]
    assert not group.overlaps


@pytest.mark.parametrize(
    "words", [("--algo", "ddpg", "--critic_form", "joined"), ("--algo", "ppo", "--sync_freq", "2")]
)
def test_a_learner_that_does_not_split_has_all_threads(words, machine) -> None:
    group = Solo(CPU)
    found = set_up_cpu(a_config(*words, "--threads", "3"), group)
    assert (found.threads, found.halves, group.overlaps, torch.get_num_threads()) == (3, False, False, 3)


def test_a_flag_fixes_them(machine) -> None:
    found = set_up_cpu(a_config("--threads", "3", "--onednn", "off"), Solo(CPU), saved_onednn=True)
    assert found[:3] == (3, "--threads", False)
    assert (torch.get_num_threads(), torch.backends.mkldnn.enabled) == (1, False), "three threads are two halves of one"
    assert not machine.measured


def test_the_environment_fixes_the_threads(machine, monkeypatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    torch.set_num_threads(5)  # as torch does when it starts
    given: list[int] = []
    monkeypatch.setattr(numba, "set_num_threads", given.append)
    assert set_up_cpu(a_config("--onednn", "on"), Solo(CPU))[:3] == (5, "OMP_NUM_THREADS", True)
    assert not machine.measured
    assert given == [min(5, numba.config.NUMBA_NUM_THREADS)]  # Numba's loops do not use all cores either


def test_a_rank_measures_up_to_its_share_of_the_cores(machine, monkeypatch) -> None:
    """Our launcher sets the variable as an upper limit."""
    monkeypatch.setenv("OMP_NUM_THREADS", "8")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    monkeypatch.setenv(THREADS_ARE_A_LIMIT, "1")
    set_up_cpu(a_config(), Solo(CPU))
    assert machine.measured[0] == (ROWS_MAX, 8, True)


def test_a_resumed_run_keeps_both(machine) -> None:
    key = set_up_cpu(a_config("--threads", "1"), Solo(CPU)).key
    machine.measured.clear()
    torch.set_num_threads(16)
    earlier = CpuSetup(7, "of 16, measured", False, key, True)._asdict()
    found = set_up_cpu(a_config(), Solo(CPU), saved_onednn=False, earlier=earlier)
    assert found[:3] == (7, "of 16, as before", False)
    assert not machine.measured
    torch.set_num_threads(16)
    elsewhere = earlier | {"key": "another machine"}
    assert set_up_cpu(a_config(), Solo(CPU), saved_onednn=False, earlier=elsewhere).threads == 4


def test_x86_has_it_on_without_a_measurement(machine, monkeypatch) -> None:
    monkeypatch.setattr(onednn, "needs_measurement", lambda: False)
    torch.backends.mkldnn.enabled = True
    assert set_up_cpu(a_config("--threads", "1"), Solo(CPU)).onednn
    assert not machine.measured


@pytest.mark.parametrize(
    "words",
    [
        ("--algo", "ddpg"),
        ("--algo", "ddpg_mine"),
        ("--algo", "ppo", "--messages"),
        ("--algo", "ppo_lstm", "--lstm_size", "8"),
        ("--algo", "ppo", "--kind", "cnn", "--channels", "4,4"),
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("rows", [1, 50, 96])
def test_a_step_of_every_learner_can_be_measured(words, rows, monkeypatch) -> None:
    monkeypatch.setitem(registry.LEARNERS, "ddpg_mine", "marl.learners.ddpg:Ddpg")
    torch.manual_seed(3)
    drawn = torch.rand(1)
    torch.manual_seed(3)
    step = training_step(a_config(*words), rows)
    step()
    step()
    assert torch.rand(1) == drawn, "initial weights of the run stay the same"
