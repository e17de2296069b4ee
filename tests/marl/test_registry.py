"""The tables of learners and networks: every entry can be loaded."""

import subprocess
import sys

import pytest
from helpers.command import ROOT

from marl.learners.ddpg import Ddpg
from marl.learners.ppo import Ppo
from marl.registry import LEARNERS, NETWORKS, load

LIGHT = "marl.registry, marl.rewards, marl.config"


@pytest.mark.parametrize(("name", "learner"), [("ddpg", Ddpg), ("ppo", Ppo), ("ppo_lstm", Ppo)])
def test_learners(name, learner) -> None:
    assert load(LEARNERS, name) is learner


@pytest.mark.parametrize("name", NETWORKS)
def test_networks(name) -> None:
    assert callable(load(NETWORKS, name))


def test_an_entry_may_be_the_object_itself() -> None:
    assert load({"mine": Ddpg}, "mine") is Ddpg


def test_the_tables_are_light() -> None:
    code = f"import sys, {LIGHT}; print({{'torch', 'numpy', 'yaml'}} & {{*sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.stdout == "set()\n", done.stderr
