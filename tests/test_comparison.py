"""scripts/comparison.py: trains what is not done, packs what `report` reads, and writes the page, here or elsewhere."""

import importlib.util
import sys
import tarfile
from pathlib import Path

import pytest
from helpers.training import here

from marl.commands import training_jobs

ROOT = Path(__file__).resolve().parent.parent
# Stands for `python -m marl train`: a finished run with two evaluations.
FAKE = """
import json, sys
from pathlib import Path
words = sys.argv[1:]
value = lambda name: words[words.index(name) + 1]
folder = Path(value("--runs-dir")) / "snakes_3v3" / value("--run-name")
(folder / "checkpoints").mkdir(parents=True)
print(value("--run-name"), file=open("calls", "a"))
config = {"algo": value("--algo"), "seed": int(value("--seed")), "schedule": {"max_episodes": 300}}
config["evaluation"] = {"eval_opponents": ["level3"], "eval_matches": 100}
(folder / "config.yaml").write_text(json.dumps(config))
(folder / "run.json").write_text(json.dumps({"processor": {"model": "Abacus", "cores": 2}}))
with open(folder / "metrics.jsonl", "w") as metrics:
    for step in (0, 300):
        line = {"step": step, "eval/win_rate_level3": step / 400, "eval/points": 0.5, "train/env_steps": 200 * step}
        print(json.dumps(line), file=metrics)
(folder / "checkpoints" / "last").write_text("episode_300\\n")
(folder / "checkpoints" / "weights").write_text("large")
"""
GIVEN = ("--learners", "ppo", "--episodes", "300", "--seeds", "1-2", "--side-by-side", "2", "--runs-dir", "runs")


@pytest.fixture
def comparison(tmp_path, monkeypatch):
    """The script's module, with a page and a training of its own."""
    spec = importlib.util.spec_from_file_location("comparison", ROOT / "scripts" / "comparison.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setattr(training_jobs, "TRAIN", (sys.executable, "-S", "-c", FAKE))
    page = tmp_path / "page.md"
    page.write_text(f"before\n{module.BEGIN}\nold\n{module.END}\nafter\n")
    for name, value in (("ROOT", tmp_path), ("PAGE", page), ("PICTURES", tmp_path)):
        monkeypatch.setattr(module, name, value)

    def run(*words: str) -> int:
        monkeypatch.setattr(sys, "argv", ["comparison.py", *words])
        return module.main()

    return run


def test_results_travel_and_become_the_page(comparison) -> None:
    assert comparison(*GIVEN, "--out", "out") == 0
    assert sorted(Path("calls").read_text().split()) == ["ppo_seed1", "ppo_seed2"]
    assert sorted(path.name for path in Path("out").iterdir()) == [
        "comparison.png", "learners.md", "marl_eval.json", "runs.tar.gz",
    ]  # fmt: skip
    assert "old" in Path("page.md").read_text(), "left alone"
    assert comparison("--page", "out") == 0
    page = Path("page.md").read_text()
    assert page.startswith("before\n")
    assert page.endswith("\nafter\n")
    assert "--seeds 1-2 --episodes 300 --learners ppo`" in page
    assert "2 runs in 1 group; Abacus, 2 cores" in page, "the machine of the runs"
    assert "75.0 (75.0-75.0)" in page
    with tarfile.open("out/runs.tar.gz") as archive:
        assert not [name for name in archive.getnames() if "weights" in name]
        archive.extractall("elsewhere", filter="data")
    assert here("report", "ppo", "--runs_dir", "elsewhere").stdout.strip() in page
    Path("calls").unlink()
    assert comparison(*GIVEN[:5], "1-3", *GIVEN[6:]) == 0
    assert Path("calls").read_text().split() == ["ppo_seed3"], "the others are done"
    assert "3 runs in 1 group" in Path("page.md").read_text()
