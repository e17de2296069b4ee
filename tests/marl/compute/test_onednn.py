"""The choice between torch's two matrix products: measured on ARM alone, and on only if clearly faster all the time."""

import pytest
import torch

from marl.compute import onednn
from marl.compute.onednn import ROUNDS, TRIALS, measure_onednn, needs_measurement


class Clock:
    """A machine on which a training step takes `seconds(whether oneDNN is on, number of the step)`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, seconds) -> None:
        self.now, self.steps, self._seconds = 0.0, 0, seconds
        monkeypatch.setattr(torch.backends.mkldnn, "enabled", True)
        monkeypatch.setattr(onednn.time, "perf_counter", lambda: self.now)

    def step(self) -> None:
        self.now += self._seconds(torch.backends.mkldnn.enabled, self.steps)
        self.steps += 1


@pytest.mark.parametrize("unit", [1e-3, 1.0])
@pytest.mark.parametrize(("with_it", "without", "chosen"), [(1.0, 2.0, True), (1.0, 1.4, False), (2.0, 1.0, False)])
def test_it_is_used_where_it_is_clearly_faster(with_it, without, chosen, unit, monkeypatch) -> None:
    clock = Clock(monkeypatch, lambda enabled, _: unit * (with_it if enabled else without))
    assert measure_onednn(clock.step) is chosen
    assert torch.backends.mkldnn.enabled, "the caller switches"


def test_a_disturbance_in_one_round_does_not_switch_it_on(monkeypatch) -> None:
    """Something else runs while most steps without oneDNN are measured, but not all the time."""
    quiet = 2 * TRIALS * (ROUNDS - 1) + 1
    clock = Clock(monkeypatch, lambda enabled, step: 1e-3 if enabled or step >= quiet else 5e-3)
    assert not measure_onednn(clock.step)


def test_slow_steps_are_few(monkeypatch) -> None:
    clock = Clock(monkeypatch, lambda enabled, _: 5.0 if enabled else 10.0)
    assert measure_onednn(clock.step)
    assert clock.steps == 2 * ROUNDS


@pytest.mark.parametrize(
    ("machine", "available", "expected"),
    [("aarch64", True, True), ("arm64", True, True), ("aarch64", False, False), ("x86_64", True, False)],
)
def test_only_arm_measures(machine, available, expected, monkeypatch) -> None:
    monkeypatch.setattr(onednn.platform, "machine", lambda: machine)
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: available)
    assert needs_measurement() is expected
