"""Stands for `python -m marl train` where scripts train: makes a run that is done, with two evaluations, at once."""

import sys
from pathlib import Path

import pytest

from marl.commands import training_jobs

CALLS = "calls"  # file with the name of each run, in the order of their ends
FAILS = "fails"  # file with the name of a run that fails
PROGRAM = """
import json, sys
from pathlib import Path
words = sys.argv[1:]
value = lambda name, default=0: words[len(words) - words[::-1].index(name)] if name in words else default
name, episodes, minutes = value("--run-name"), int(value("--max-episodes", 10**9)), float(value("--max-minutes"))
if Path("fails").exists() and Path("fails").read_text() == name:
    sys.exit("snakes: no memory")
folder = Path(value("--runs-dir")) / "snakes_3v3" / name
(folder / "checkpoints").mkdir(parents=True)
config = {"algo": value("--algo", "ppo"), "seed": int(value("--seed")), "max_minutes": minutes}
config |= {"schedule": {"max_episodes": episodes}, "ppo": {"lr": float(value("--lr"))}}
config["evaluation"] = {"eval_opponents": ["level3"], "eval_matches": 100}
(folder / "config.yaml").write_text(json.dumps(config))
(folder / "run.json").write_text(json.dumps({"processor": {"model": "Abacus", "cores": 2}}))
with open(folder / "metrics.jsonl", "w") as metrics:
    for step in (0, 300):
        line = {"step": step, "eval/win_rate_level3": step / 400, "eval/points": 0.5, "train/env_steps": 200 * step}
        print(json.dumps(line | {"time/seconds": step / 300 * minutes * 60}), file=metrics)
(folder / "checkpoints" / "last").write_text("episode_300\\n")
(folder / "checkpoints" / "weights").write_text("large")
print(name, file=open("calls", "a"))
"""


def train_falsely(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on trainings of scripts are false ones, and `folder` is the working directory."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(training_jobs, "TRAIN", (sys.executable, "-S", "-c", PROGRAM))
    monkeypatch.setattr(training_jobs, "POLL", 0.01)


def trained() -> list[str]:
    """The runs that were trained since the last call."""
    calls = Path(CALLS)
    found = calls.read_text().split() if calls.exists() else []
    calls.unlink(missing_ok=True)
    return found
