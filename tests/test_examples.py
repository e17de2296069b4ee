"""examples/: short enough to read, and each runs where its library is installed."""

import importlib.util
import subprocess
import sys

import pytest
from helpers.command import ROOT

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
LIBRARY = {"sb3_ppo": "stable_baselines3", "torchrl_ppo": "torchrl"}
FEW_STEPS = "6144"


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_an_example_is_short_and_runs(file, tmp_path) -> None:
    text = file.read_text()
    assert text.count("\n") <= 60
    compile(text, str(file), "exec")
    if importlib.util.find_spec(LIBRARY[file.stem]) is None:
        pytest.skip(f"{LIBRARY[file.stem]} is not installed")
    call = [sys.executable, file, FEW_STEPS]
    done = subprocess.run(call, cwd=tmp_path, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("won ")
    assert "against level0" in done.stdout
