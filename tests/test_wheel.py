"""The wheel: every file of the packages is in it, and it works outside the checkout.

Built by setuptools' `build_py`, which lays out what a wheel holds, without a build environment of its own.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.command import ROOT

PACKAGES = ("arena", "opponents", "marl")
CHECKOUT_ONLY = {"marl/configs/slurm/train.sbatch"}  # starts train_ddp.sh, which is in no wheel

# Without torch, which takes seconds to load.
ASK = """
import sys
import marl
from marl.config.named_configs import about_configs, find_config
print(marl.__file__)
print(find_config("smoke").read_text().count("matches: 16"))
print(",".join(about_configs()))
print("torch" in sys.modules)
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    """The folder of a wheel."""
    pytest.importorskip("setuptools")
    folder = tmp_path_factory.mktemp("wheel")
    words = ["-q", "egg_info", "--egg-base", folder, "build", "--build-base", folder / "build", "build_py"]
    call = [sys.executable, "-c", "from setuptools import setup; setup()", *words, "--build-lib", folder / "lib"]
    done = subprocess.run(call, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return folder / "lib"


def files_of(root: Path) -> set[str]:
    """Files of the three packages below a folder, without compiled code."""
    found = set()
    for package in PACKAGES:
        for folder, _, names in os.walk(root / package, followlinks=True):
            if "__pycache__" not in folder:
                found |= {str(Path(folder, name).relative_to(root)) for name in names}
    return found


def test_every_file_of_the_packages_is_in_the_wheel(built) -> None:
    there = files_of(built)
    assert files_of(ROOT) - there == CHECKOUT_ONLY
    assert {"marl/configs/champion_60s.yaml", "opponents/champions/champion.safetensors", "arena/py.typed"} <= there
    assert {"marl/export/play_page.html", "arena/render/viewer.js", "marl/bench/data/positions.npz"} <= there


def test_the_wheel_finds_its_data_outside_the_checkout(built, tmp_path) -> None:
    environment = os.environ | {"PYTHONPATH": str(built)}
    done = subprocess.run(
        [sys.executable, "-c", ASK], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    place, found, configs, torch_loaded = done.stdout.splitlines()
    assert Path(place).is_relative_to(built)
    assert (found, torch_loaded) == ("1", "False")
    assert configs.split(",") == sorted(file.stem for file in (ROOT / "configs").glob("*.yaml"))
