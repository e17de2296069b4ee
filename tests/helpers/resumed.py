"""Comparison of a run that was stopped and resumed with a run that was not stopped; words and output of such runs."""

import hashlib
import json
from pathlib import Path
from typing import Any

import torch

from marl.metrics.run_metrics import of_run


def measured(run: Path) -> dict[tuple[int, bool], dict[str, float]]:
    """(episode, whether it is an evaluation) -> all metrics except those of the machine."""
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    found = {}
    for line in lines:
        key = (line["step"], "eval/points" in line)
        assert key not in found, f"{key} is there twice"
        found[key] = of_run(line)
    return found


def saved(run: Path, episode: int) -> dict[str, Any]:
    """The whole contents of a checkpoint, times left out."""
    folder = run / "checkpoints" / f"episode_{episode}"
    parts = {file.stem: torch.load(file, weights_only=True) for file in sorted(folder.glob("*.pt"))}
    for counters in ("progress", "first", "logged"):
        parts["state"][counters].pop("seconds")
    parts["weights"] = hashlib.sha256((folder / "weights.safetensors").read_bytes()).hexdigest()
    return parts


def assert_equal(found: Any, expected: Any, where: str = "") -> None:
    if isinstance(expected, dict):
        assert found.keys() == expected.keys(), where
        for key in expected:
            assert_equal(found[key], expected[key], f"{where}/{key}")
    elif isinstance(expected, torch.Tensor):
        assert torch.equal(found, expected), where
    elif isinstance(expected, list | tuple):
        assert len(found) == len(expected), where
        for i, each in enumerate(expected):
            assert_equal(found[i], each, f"{where}/{i}")
    else:
        assert found == expected, where


def resuming(world: int, run: Path, *words: str) -> list[str]:
    """The words for train_as_ranks.py that resume a run, in one process or in two ranks."""
    return [*["@1"][: world == 1], "train", "--resume", str(run), *words]


def in_order(done: dict[str, list[tuple[int, str, str]]], name: str) -> str:
    """The output of rank 0 of a training of as_ranks(); all ranks must have ended without an error."""
    for code, _, err in done[name]:
        assert (code, err) == (0, ""), (name, code, err)
    return done[name][0][1]
