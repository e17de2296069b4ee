"""The tables of learners and networks: every entry can be loaded."""

import subprocess
import sys

import pytest
from helpers.command import ROOT

from marl.learners.ddpg import Ddpg
from marl.learners.ppo import Ppo
from marl.learners.ppo_lstm import PpoLstm
from marl.registry import LEARNERS, NETWORKS, load

# What is imported -> slow packages that it must not load. Compiled rewards need Numba, and so numpy and yaml.
LIGHT = {
    "marl.registry, marl.config": {"torch", "numba", "numpy", "yaml"},
    "marl.rewards, marl.config.train_config": {"torch"},
}


@pytest.mark.parametrize(("name", "learner"), [("ddpg", Ddpg), ("ppo", Ppo), ("ppo_lstm", PpoLstm)])
def test_learners(name, learner) -> None:
    assert load(LEARNERS, name) is learner


@pytest.mark.parametrize("name", NETWORKS)
def test_networks(name) -> None:
    assert callable(load(NETWORKS, name))


def test_an_entry_may_be_the_object_itself() -> None:
    assert load({"mine": Ddpg}, "mine") is Ddpg


@pytest.mark.parametrize("modules", LIGHT)
def test_the_tables_are_light(modules) -> None:
    code = f"import sys, {modules}; print({LIGHT[modules]} & {{*sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.stdout == "set()\n", done.stderr
