"""configs/: every file runs, if only for a moment, and quick.yaml is what a CPU does by default."""

from pathlib import Path

import pytest
import torch
import yaml
from helpers.command import ROOT
from helpers.short_matches import SHORT
from helpers.training import here, logged, the_run

from marl.config import autoscale, reader
from marl.config.train_config import read_config
from marl.errors import UserError
from marl.export import check
from marl.planning.planned_player import load_player
from marl.registry import LEARNERS
from opponents import match

CONFIGS = sorted((ROOT / "configs").glob("*.yaml"))
MOMENT = [
    "--device", "cpu", "--precision", "fp32", "--matches", "8", "--max_episodes", "8", "--log_interval", "4",
    "--batch_size", "48", "--eval_interval", "0", "--eval_matches", "2",
    "--no-eval_gif",
]  # fmt: skip
MOMENT_OF = {
    "ddpg": ["--buffer_size", "4800", "--warmup_turns", "4", "--turns", "20", "--updates", "2"],
    "ppo": ["--update_interval", "80"],
    "qlearning": ["--buffer_size", "4800", "--warmup_turns", "4", "--turns", "20", "--updates", "2"],
}


@pytest.mark.parametrize("file", CONFIGS, ids=lambda file: file.stem)
def test_every_configuration_runs(file, tmp_path, monkeypatch) -> None:
    for module, name in ((match, "TURNS"), (check, "MOVES")):  # compared with what is exported
        monkeypatch.setattr(module, name, SHORT)
    small = [] if file.stem == "smoke" else ["--body", "64,32"]
    moment = [*MOMENT, *MOMENT_OF[read_config(["--config", str(file)]).learner_section]]
    done = here("train", "--config", file, "--runs_dir", tmp_path, *moment, *small)
    assert done.returncode == 0, done.stderr
    run = the_run(tmp_path)
    assert [line["step"] for line in logged(run)] == [4, 8]
    assert (run / "checkpoints" / "last").read_text() == "episode_8\n"
    written = yaml.safe_load((run / "config.yaml").read_text())
    asked = reader.to_dict(read_config(["--config", str(file)]))
    for section in ("reward", "ddp"):
        assert written[section] == asked[section]
    assert written["schedule"]["strategy"] == asked["schedule"]["strategy"]
    for section, name in (
        *(("ddpg", name) for name in ("critic", "critic_form", "twin", "n_step", "gamma", "a_lr")),
        *(("ppo", name) for name in ("clip", "gamma", "gae_lambda", "lr", "entropy")),
        *(("schedule", name) for name in ("self_play", "easier_share")),
    ):
        assert asked[section][name] in (None, written[section][name])
    assert written["evaluation"]["eval_opponents"] == asked["evaluation"]["eval_opponents"]
    if file.stem in LEARNERS:
        assert_exports(file.stem, run, tmp_path)


def assert_exports(name: str, run: Path, folder: Path) -> None:
    """What is exported plays as the run does, and the network in the submission is that of the run; the command tries
    the submission, of one learner of each kind."""
    snapshot = folder / "team.safetensors"
    jidi = ["--jidi", folder / "jidi"] if name in ("mappo", "matd3", "qmix") else []
    done = here("export", run, "--safetensors", snapshot, *jidi)
    assert done.returncode == 0, done.stderr
    assert (folder / "jidi" / "submission.py").is_file() == bool(jidi)
    mine, its = (match.play(str(each), "level0", 4, loader=load_player) for each in (run, snapshot))
    assert (mine.home_score, mine.away_score) == (its.home_score, its.away_score)


@pytest.mark.parametrize("name", ["smoke", "smoke.yaml"])
def test_a_configuration_by_its_name_alone(name, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    by_path = read_config(["--config", str(ROOT / "configs" / "smoke.yaml")])
    assert read_config(["--config", name]) == by_path
    (tmp_path / name).write_text("matches: 2\n")
    assert read_config(["--config", name]).matches == 2, "a file of this name goes first"


def test_a_wrong_name_lists_the_right_ones() -> None:
    with pytest.raises(UserError) as error:
        read_config(["--config", "smok"])
    assert "smok: No such file, did you mean smoke?; by name there are: base, champion, champion_60s" in str(
        error.value
    )


def test_quick_is_what_a_cpu_does_by_default() -> None:
    cpu = torch.device("cpu")
    assert autoscale.resolve(read_config(["--config", str(ROOT / "configs/quick.yaml")]), cpu) == autoscale.resolve(
        read_config([]), cpu
    )


@pytest.mark.needs_cuda
def test_gpu_is_what_a_gpu_does_by_default() -> None:
    gpu = torch.device("cuda")
    assert autoscale.resolve(read_config(["--config", str(ROOT / "configs/gpu.yaml")]), gpu) == autoscale.resolve(
        read_config([]), gpu
    )


def test_there_is_one_for_every_purpose() -> None:
    assert {file.stem for file in CONFIGS} >= {
        *("smoke", "quick", "base", "large", "gpu", "ddpg_classic", "champion", "champion_60s"),
    }
