"""What you read is what runs: one edited line of a loss, or a subclass of a learner, changes the weights of a run, on a
CPU and on a GPU, without any flag."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from helpers.training import LIMIT, finish, forked_call
from safetensors.torch import load_file

ROOT = Path(__file__).resolve().parent.parent
PLAIN = """
import sys
from marl.cli.main import main
sys.exit(main(sys.argv[1:]))
"""
EDIT = ("- entropy_coef * entropy", "- 2 * entropy_coef * entropy")
# Not a copy of the program with the edited file: it would compile everything once more.
EDITED = f"""
import importlib.util, sys, types
name = "marl.learners.ppo_loss"
text = importlib.util.find_spec(name).loader.get_source(name)
assert text.count({EDIT[0]!r}) == 1
module = sys.modules[name] = types.ModuleType(name)
exec(text.replace(*{EDIT!r}), module.__dict__)
{PLAIN}"""
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


def read_anew(program: str, *words: str) -> int:
    """Run a program in a forked process as if nothing of the trainer had been loaded there."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "marl"]:
        del sys.modules[name]
    sys.argv[1:] = words
    exec(program, {})
    return 0


def trained(runs: Path, device: str, *flags: str, program: str = PLAIN) -> torch.Tensor:
    """The weights of a small run."""
    few = ("--max_episodes", "16", "--eval_matches", "1", "--eval_opponents", "level0")
    words = ("train", "--config", "smoke", "--seed", SEED, "--runs_dir", str(runs), *few, "--device", device, *flags)
    if device == "cpu":
        with forked_call(read_anew, program, *words) as process:
            done = finish(process)
    else:  # in a process of its own: a GPU may not be asked for before a fork
        command = [sys.executable, "-c", program, *words]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0, done.stderr
    files = runs.glob("*/*/checkpoints/episode_*/weights.safetensors")
    file = max(files, key=lambda file: int(file.parent.name.removeprefix("episode_")))
    return torch.cat([tensor.flatten() for _, tensor in sorted(load_file(file).items())])


@pytest.mark.parametrize("device", DEVICES)
def test_an_edited_line_of_the_loss_counts(tmp_path, device) -> None:
    before = trained(tmp_path / "before", *device, "--algo", "ppo")
    after = trained(tmp_path / "after", *device, "--algo", "ppo", program=EDITED)
    assert (after - before).abs().max() > 1e-4, "more than rounding"


@GPU
@pytest.mark.parametrize("algo", LEARNERS)
def test_a_subclass_counts_on_a_gpu(tmp_path, algo) -> None:
    """On a CPU: tests/marl/fast/test_seam.py, for every method. What torch compiles is the text above, or the class."""
    module, base = LEARNERS[algo]
    own = tmp_path / "own.py"
    own.write_text(SUBCLASS.format(algo=algo, module=module, base=base))
    before = trained(tmp_path / "before", "cuda", "--algo", algo)
    after = trained(tmp_path / "after", "cuda", "--algo", algo, "--import", str(own))
    assert (after - before).abs().max() > 1e-4, "more than rounding"
