"""The texts of a run: its times add up, and a CPU that is used by mistake is named."""

from pathlib import Path

import pytest

from marl.config.train_config import read_config
from marl.training.checkpointing import CheckpointSize
from marl.training.summary import (
    _next_commands,
    _times,
    checkpoints_text,
    device_notes,
    memory_notes,
    schedule_notes,
)


def test_the_times_of_a_new_run() -> None:
    assert _times(9, 7, 0) == "9 s (7 s of training)"


def test_the_times_of_a_resumed_run_add_up() -> None:
    assert _times(7, 5, 22) == "7 s (5 s of training) since it was resumed; 27 s of training in all"


def test_a_run_on_the_cpu_that_was_meant_for_a_gpu_says_so(monkeypatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert device_notes(read_config(["--matches", "256"]), "cpu") == []
    champion = read_config(["--config", "champion_60s"])
    assert device_notes(champion, "cuda") == []
    assert "16,384 matches per rank are sized for a GPU" in device_notes(champion, "cpu")[0]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,3")
    assert device_notes(read_config([]), "cpu") == ["CUDA_VISIBLE_DEVICES is 2,3, but torch sees no GPU here"]
    assert device_notes(read_config(["--device", "cpu"]), "cpu") == []
    (note,) = device_notes(read_config(["--device", "cpu", "--threads", "100000"]), "cpu")
    assert note.startswith("100000 threads on ")


@pytest.mark.parametrize(
    ("free", "ranks", "told"),
    [(356 << 20, 1, None), (355 << 20, 1, "355 MiB of memory are free, and training may need 356 MiB more"),
     (712 << 20, 2, None), (711 << 20, 2, "711 MiB of memory are free, and training may need 712 MiB more")],
)  # fmt: skip
def test_too_little_memory_is_told_before_the_kernel_kills_the_run(free, ranks, told) -> None:
    notes = memory_notes(100 << 20, free, ranks)
    assert [note.partition(";")[0] for note in notes] == ([told] if told else [])


@pytest.mark.parametrize(
    ("size", "keep_last", "text"),
    [
        (CheckpointSize(900_000, 300_000, 0), 3,
         "1.2 MB each, the last 3 and the best are kept; a run resumes bit by bit"),
        (CheckpointSize(900_000, 118_000_000, 0), 0,
         "the newest up to 119 MB with matches and buffer, to resume bit by bit; older ones 900 kB, all are kept "
         "(--save_buffer 0: none has a buffer)"),
        (CheckpointSize(12_000_000, 0, 2_500_000_000), 1,
         "12 MB each, the last and the best are kept; without the buffer of 2.5 GB, which a resumed run fills again "
         "with new matches (--save_buffer 256)"),
    ],
)  # fmt: skip
def test_the_size_of_a_checkpoint_is_told(size, keep_last, text) -> None:
    assert checkpoints_text(size, keep_last, 256) == text


@pytest.mark.parametrize(("minutes", "more"), [("0.5", "2"), ("1.3", "3"), ("30", "60"), ("1000000", "2000000")])
def test_the_hint_to_resume_gives_a_run_more_whole_minutes_than_it_had(minutes, more) -> None:
    commands = dict(_next_commands(read_config(["--max_minutes", minutes]), Path("run"), "max_minutes"))
    assert commands["resume it"].endswith(f" train --resume run --max_minutes {more}")


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        ([], []),
        (["--max_minutes", "2"], ["ends after 2 min of training: opponents change by its minutes"]),
        (["--max_minutes", "2", "--strategy", "adaptive"], []),
        (["--max_minutes", "2", "--opponents", "level3:1"], []),
        (["--strategy", "evasive"], []),
        (["--strategy", "evasive", "--max_episodes", "40000"], ["never met: it begins at episode 40,000"]),
        (["--enable_opponent_evasion", "--max_minutes", "2", "--strategy", "league"], ["ends after 2 min"]),
    ],
    ids=" ".join,
)
def test_a_limit_that_changes_the_schedule_is_told(words, parts) -> None:
    notes = schedule_notes(read_config(["--max_episodes", "50000", *words]))
    assert len(notes) == len(parts)
    assert all(part in note for note, part in zip(notes, parts, strict=True))
