"""`train --profile`: a trace of some cycles of each rank, and a training that is the same with it."""

import gzip
import json
import re
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.training import RANKS, TINY, as_ranks, here, the_run, weights_digest

from marl.ranks.process_group import Solo
from marl.training import profiling
from marl.training.profiling import CPU_SKIPPED, CYCLES, CycleProfile

CPU = torch.device("cpu")


def events(file: Path) -> dict[str, list[dict[str, Any]]]:
    """The complete events of a trace, by name."""
    with gzip.open(file, "rt", encoding="utf-8") as text:
        trace = json.load(text)
    found: dict[str, list[dict[str, Any]]] = {}
    for event in trace["traceEvents"]:
        if event.get("ph") == "X":
            found.setdefault(event["name"], []).append(event)
    return {name: sorted(each, key=lambda event: event["ts"]) for name, each in found.items()}


def test_a_few_cycles_are_recorded_and_training_is_the_same(tmp_path) -> None:
    plain = here(*TINY, "--runs_dir", tmp_path / "plain")
    done = here(*TINY, "--profile", "--runs_dir", tmp_path / "profiled")
    assert (plain.returncode, done.returncode, done.stderr) == (0, 0, "")
    run = the_run(tmp_path / "profiled")
    found = events(run / "profile" / "rank0.json.gz")
    assert len(found["playing"]) == len(found["learning"]) == CYCLES
    assert any(name.startswith("aten::") for name in found)
    ends = [event["ts"] + event["dur"] for event in found["playing"]]
    assert all(end <= learn["ts"] for end, learn in zip(ends, found["learning"], strict=True)), "in turn"
    assert f"profile: {run / 'profile'} (open a file of it at https://ui.perfetto.dev)" in done.stdout
    assert re.search(rf"^profile +{re.escape(str(run / 'profile' / 'rank0.json.gz'))} ", done.stdout, re.MULTILINE)
    assert not re.search(r"^profile", plain.stdout, re.MULTILINE)
    assert weights_digest(run) == weights_digest(the_run(tmp_path / "plain"))
    again = here("train", "--resume", run, "--max_episodes", "24")
    assert again.returncode == 0, again.stderr
    assert not re.search(r"^profile", again.stdout, re.MULTILINE), "it is for one start"


def test_every_rank_has_its_file(tmp_path) -> None:
    done = as_ranks(tmp_path, {"two": [*RANKS, "--profile", "--runs_dir", str(tmp_path), "--run_name", "team"]})
    assert [code for code, _, _ in done["two"]] == [0, 0], done
    folder = tmp_path / "snakes_3v3" / "team" / "profile"
    assert sorted(file.name for file in folder.iterdir()) == ["rank0.json.gz", "rank1.json.gz"]
    for file in folder.iterdir():
        assert len(events(file)["learning"]) == CYCLES


def test_a_run_of_few_cycles_writes_what_it_has_or_says_that_it_has_nothing(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(profiling, "CYCLES", 1000)
    assert here(*TINY, "--profile", "--runs_dir", tmp_path / "some").returncode == 0
    assert len(events(the_run(tmp_path / "some") / "profile" / "rank0.json.gz")["learning"]) > CYCLES
    monkeypatch.setattr(profiling, "CPU_SKIPPED", 1000)
    done = here(*TINY, "--profile", "--runs_dir", tmp_path / "none")
    assert done.returncode == 0, done.stderr
    assert re.search(r"^profile +none: the run had too few cycles$", done.stdout, re.MULTILINE)


@pytest.mark.parametrize("is_on", [True, False])
def test_a_disk_problem_is_one_line_and_what_is_off_does_nothing(is_on, tmp_path) -> None:
    (tmp_path / "profile").write_text("no folder")
    notes: list[str] = []
    profile = CycleProfile(is_on, tmp_path, Solo(CPU), nullcontext, lambda text, warning=False: notes.append(text))
    with profile.cycles():
        for _ in range(CPU_SKIPPED + CYCLES):
            profile.cycle(lambda: None)
    assert [note.startswith(f"cannot write the profile {profile.file}: ") for note in notes] == [True] * is_on
    assert "\n" not in "".join(notes)
    assert not profile.is_written


def test_a_run_that_fails_while_it_is_recorded_writes_nothing(tmp_path) -> None:
    profile = CycleProfile(True, tmp_path, Solo(CPU), nullcontext, lambda text, warning=False: None)

    def train() -> None:
        with profile.cycles():
            for i in range(CPU_SKIPPED + 2):
                profile.cycle(lambda i=i: 1 / (CPU_SKIPPED + 1 - i))

    with pytest.raises(ZeroDivisionError):
        train()
    assert not (tmp_path / "profile").exists()
    with torch.profiler.profile():  # there can be only one at a time
        pass
