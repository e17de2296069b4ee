"""What a command loads before it says anything, in fresh processes: seconds of every start."""

from helpers.command import in_fresh_process
from helpers.training import TINY

from marl.cli.main import COMMANDS

# Prints the exit code of a mistake and whether it has loaded torch; then the commands up to the first one whose help
# loads it.
WITHOUT_TORCH = """
import io, sys
from contextlib import redirect_stdout, suppress
from marl.cli.main import COMMANDS, main
print(main(["train", "--nonsense"]), 'torch' in sys.modules)
for name in COMMANDS:
    with redirect_stdout(io.StringIO()), suppress(SystemExit):  # argparse
        main([name, "--help"])
    print(name, 'torch' in sys.modules)
    if 'torch' in sys.modules:
        break
"""
# Loads a team, trains, and prints the modules that are loaded when the training prints its first line of progress;
# before them, whether Numba alone has loaded scipy.
TRAIN = """
import os, sys
import numba
print("scipy" in sys.modules)
import marl
from marl.cli.main import main
marl.load("champion_small")
from marl.metrics.console import Console
def line(*_, **__):
    os.write(1, " ".join(["", *sys.modules, ""]).encode())
    os._exit(0)
Console.line = line
sys.exit(main(sys.argv[1:]))
"""
# Packages, and parts of them, that no training needs before its first line. Some are large, some bring many others.
NOT_NEEDED = (
    "PIL",
    "imageio",
    "matplotlib",
    "networkx",
    "numpy.f2py",
    "numpy.testing",
    "onnx",
    "optuna",
    "pandas",
    "pettingzoo",
    "pygame",
    "rich",
    "scipy",
    "sympy",
    "tensorflow",
    "torch._dynamo",
    "torch._inductor",
    "torch.utils.tensorboard",
    "wandb",
)


def test_no_help_and_no_mistake_in_the_words_of_train_loads_torch() -> None:
    found = dict(line.split() for line in in_fresh_process(WITHOUT_TORCH).splitlines())
    assert found == dict.fromkeys(["2", *COMMANDS], "False")


def test_what_a_loaded_team_and_a_training_do_without_before_its_first_line(tmp_path) -> None:
    words = [*map(str, TINY), "--device", "cpu", "--log_interval", "1", "--runs_dir", str(tmp_path)]
    printed = in_fresh_process(TRAIN, *words)
    loaded = printed.rpartition("\n")[2].split()
    assert "marl.training.trainer" in loaded
    found = {name for name in NOT_NEEDED for module in loaded if f"{module}.".startswith(f"{name}.")}
    if printed.startswith("True"):
        found -= {"scipy", "numpy.f2py", "numpy.testing"}  # Numba loads scipy where it is installed
    assert not found
