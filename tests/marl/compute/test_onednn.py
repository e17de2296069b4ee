"""The choice between torch's two matrix products: measured on ARM alone; an earlier choice stays."""

import pytest
import torch

from arena.encoders import encoder_named
from marl import registry
from marl.compute import onednn
from marl.compute.onednn import choose_onednn
from marl.config.autoscale import resolve
from marl.config.train_config import read_config

CPU = torch.device("cpu")


class Clock:
    """A machine on which a training step takes `seconds[whether oneDNN is on]`; `sizes` are the networks measured."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, machine: str, seconds: dict[bool, float]) -> None:
        self.now, self.sizes, self._seconds = 0.0, [], seconds
        monkeypatch.setattr(torch.backends.mkldnn, "enabled", True)
        monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: True)
        monkeypatch.setattr(onednn.platform, "machine", lambda: machine)
        monkeypatch.setattr(onednn.time, "perf_counter", lambda: self.now)
        monkeypatch.setattr(onednn, "_one_step", self._one_step)

    def _one_step(self, inputs, body, rows):
        self.sizes.append((inputs, body, rows))
        return self._train

    def _train(self) -> None:
        self.now += self._seconds[torch.backends.mkldnn.enabled]


def a_config(*words: str):
    return resolve(read_config(["--device", "cpu", "--body", "16,8", *words]), CPU)


@pytest.mark.parametrize(("with_it", "without", "chosen"), [(1.0, 2.0, True), (1.0, 1.4, False), (2.0, 1.0, False)])
def test_on_arm_it_is_used_where_it_is_clearly_faster(with_it, without, chosen, monkeypatch) -> None:
    Clock(monkeypatch, "aarch64", {True: with_it, False: without})
    assert choose_onednn(a_config()) is chosen
    assert torch.backends.mkldnn.enabled is chosen


def test_elsewhere_nothing_is_measured(monkeypatch) -> None:
    clock = Clock(monkeypatch, "x86_64", {})
    assert choose_onednn(a_config())
    assert not clock.sizes


@pytest.mark.parametrize("before", [True, False])
def test_an_earlier_choice_stays(before, monkeypatch) -> None:
    clock = Clock(monkeypatch, "aarch64", {})
    assert choose_onednn(a_config(), before) is before
    assert not clock.sizes


@pytest.mark.parametrize("algo", ["ddpg", "ddpg_mine", "ppo", "ppo_lstm"])
def test_the_network_and_the_batches_of_the_learner_are_measured(algo, monkeypatch) -> None:
    monkeypatch.setitem(registry.LEARNERS, "ddpg_mine", "marl.learners.ddpg:Ddpg")
    clock = Clock(monkeypatch, "aarch64", {True: 1.0, False: 1.0})
    choose_onednn(a_config("--algo", algo, "--batch_size", "96"))
    assert clock.sizes == [(encoder_named("canonical").width, (16, 8), 96)]
