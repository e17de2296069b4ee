"""What you read is what runs: one edited line of a loss, or a subclass of a learner, changes the weights of a run, on a
CPU and on a GPU, without any flag."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

ROOT = Path(__file__).resolve().parent.parent
EDIT = ("- entropy_coef * entropy", "- 2 * entropy_coef * entropy")
# Not a copy of the program with the edited file: it would compile everything once more.
EDITED = f"""
import importlib, importlib.util, sys, types
from marl.cli.main import main
name = "marl.learners.ppo_loss"
text = importlib.util.find_spec(name).loader.get_source(name)
assert text.count({EDIT[0]!r}) == 1
module = sys.modules[name] = types.ModuleType(name)
exec(text.replace(*{EDIT!r}), module.__dict__)
sys.exit(main(sys.argv[1:]))
"""
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


def trained(runs: Path, *flags: str, program: Sequence[str] = ("-m", "marl")) -> torch.Tensor:
    """The weights of a small run."""
    few = ("--max_episodes", "16", "--eval_matches", "1", "--eval_opponents", "level0")
    flags = ("--config", "smoke", "--seed", SEED, "--runs_dir", str(runs), *few, *flags)
    command = [sys.executable, *program, "train", *flags]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    files = runs.glob("*/*/checkpoints/episode_*/weights.safetensors")
    file = max(files, key=lambda file: int(file.parent.name.removeprefix("episode_")))
    return torch.cat([tensor.flatten() for _, tensor in sorted(load_file(file).items())])


@pytest.mark.parametrize("device", DEVICES)
def test_an_edited_line_of_the_loss_counts(tmp_path, device) -> None:
    flags = ("--algo", "ppo", "--device", *device)
    before = trained(tmp_path / "before", *flags)
    after = trained(tmp_path / "after", *flags, program=("-c", EDITED))
    assert (after - before).abs().max() > 1e-4, "more than rounding"


@GPU
@pytest.mark.parametrize("algo", LEARNERS)
def test_a_subclass_counts_on_a_gpu(tmp_path, algo) -> None:
    """On a CPU: tests/marl/fast/test_seam.py, for every method. What torch compiles is the text above, or the class."""
    module, base = LEARNERS[algo]
    own = tmp_path / "own.py"
    own.write_text(SUBCLASS.format(algo=algo, module=module, base=base))
    before = trained(tmp_path / "before", "--algo", algo, "--device", "cuda")
    after = trained(tmp_path / "after", "--algo", algo, "--device", "cuda", "--import", str(own))
    assert (after - before).abs().max() > 1e-4, "more than rounding"
