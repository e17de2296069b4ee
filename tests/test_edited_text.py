"""What you read is what runs: in a copy of the program one edited line of a loss, or a subclass of a learner, changes
the weights of a whole run, on a CPU and on a GPU, without any flag."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("arena", "opponents", "marl", "configs")
EDIT = ("- entropy_coef * entropy", "- 2 * entropy_coef * entropy")
SUBCLASS = """
from marl import registry
from marl.learners.{module} import {base}

class Mine({base}):
    def losses(self, batch):
        loss, stats = super().losses(batch)
        return loss + 0.1 * sum(p.square().sum() for p in self.actor.parameters()), stats

registry.LEARNERS["{algo}"] = Mine
"""
LEARNERS = {"ppo": ("ppo", "Ppo"), "ddpg": ("ddpg", "Ddpg"), "qmix": ("q_learning", "QLearning")}
GPU = pytest.mark.needs_cuda
DEVICES = [["cpu"], pytest.param(["cuda"], marks=GPU), pytest.param(["cuda", "--compile", "on"], marks=GPU)]
SEED = "3"


def trained(program: Path, runs: Path, *flags: str) -> torch.Tensor:
    """The weights of a small run by the program in a folder."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join((str(program), os.environ["PYTHONPATH"]))}
    flags = ("--config", "smoke", "--seed", SEED, "--runs_dir", str(runs), *flags)
    command = [sys.executable, "-m", "marl", "train", *flags]
    done = subprocess.run(command, cwd=program, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    files = runs.glob("*/*/checkpoints/episode_*/weights.safetensors")
    file = max(files, key=lambda file: int(file.parent.name.removeprefix("episode_")))
    return torch.cat([tensor.flatten() for _, tensor in sorted(load_file(file).items())])


@pytest.mark.parametrize("device", DEVICES)
def test_an_edited_line_of_the_loss_counts(tmp_path, device) -> None:
    program = tmp_path / "program"
    for package in PACKAGES:
        shutil.copytree(ROOT / package, program / package)
    flags = ("--algo", "ppo", "--device", *device)
    before = trained(program, tmp_path / "before", *flags)
    loss = program / "marl" / "learners" / "ppo_loss.py"
    text = loss.read_text()
    assert text.count(EDIT[0]) == 1
    loss.write_text(text.replace(*EDIT))
    after = trained(program, tmp_path / "after", *flags)
    assert (after - before).abs().max() > 1e-4, "more than rounding"


@pytest.mark.parametrize("device", DEVICES[1:])
@pytest.mark.parametrize("algo", LEARNERS)
def test_a_subclass_counts_on_a_gpu(tmp_path, algo, device) -> None:
    """On a CPU: tests/marl/fast/test_seam.py, for every method."""
    module, base = LEARNERS[algo]
    own = tmp_path / "own.py"
    own.write_text(SUBCLASS.format(algo=algo, module=module, base=base))
    flags = ("--algo", algo, "--device", *device)
    before = trained(ROOT, tmp_path / "before", *flags)
    after = trained(ROOT, tmp_path / "after", *flags, "--import", str(own))
    assert (after - before).abs().max() > 1e-4, "more than rounding"
