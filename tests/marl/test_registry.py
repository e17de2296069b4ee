"""The tables of learners and networks: every entry can be loaded."""

import subprocess
import sys
from dataclasses import fields

import pytest
from helpers.command import ROOT

from marl.config.train_config import TrainConfig
from marl.learners.ddpg import Ddpg
from marl.learners.ppo import Ppo
from marl.learners.ppo_lstm import PpoLstm
from marl.learners.q_learning import QLearning
from marl.registry import LEARNERS, NETWORKS, SECTIONS, load

# What is imported -> slow packages that it must not load. Compiled rewards need Numba, and so numpy and yaml.
LIGHT = {
    "marl.registry, marl.config": {"torch", "numba", "numpy", "yaml"},
    "marl.rewards, marl.config.train_config": {"torch"},
}


CLASSES = {"ddpg": Ddpg, "maddpg": Ddpg, "matd3": Ddpg, "ppo": Ppo, "ppo_lstm": PpoLstm, "mappo": Ppo}
CLASSES |= {"vdn": QLearning, "qmix": QLearning}


@pytest.mark.parametrize("name", LEARNERS)
def test_learners(name) -> None:
    assert load(LEARNERS, name) is CLASSES[name]


def test_every_section_is_one_of_the_configuration() -> None:
    sections = {field.name for field in fields(TrainConfig)}
    assert {*SECTIONS.values()} <= sections
    assert {*SECTIONS} <= {*LEARNERS} - sections


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
