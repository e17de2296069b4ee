"""snakes bench scaling: the table, a real launch of two ranks, and a user's mistakes."""

import json

import pytest
from helpers.command import assert_one_line
from helpers.training import alone, here

from marl.bench import command, scaling
from marl.cli import main as cli

SMALL = [
    *("--device", "cpu", "--matches", "16", "--body", "8", "--batch_size", "24", "--turns", "2", "--updates", "2"),
    *("--buffer_size", "960", "--warmup_turns", "8"),
]


def test_one_and_two_ranks_by_the_command_line():
    result = alone("bench", "scaling", "--ranks", "2", "--seconds", "0.02", "--json", *SMALL)
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    assert report["machine"]["cpu"]["cores"] >= 1
    assert (report["algo"], report["device"], report["scaling"]) == ("ddpg", "cpu", "strong")
    one, two = report["rows"]
    assert (one["ranks"], two["ranks"]) == (1, 2)  # one rank is always measured
    assert (one["backend"], two["backend"]) == (None, "shared memory")
    assert (one["out_of_sync"], two["out_of_sync"]) == (None, None)
    assert min(one["env_steps_per_second"], two["env_steps_per_second"]) > 0
    assert [(row["matches_per_rank"], row["batch_per_rank"]) for row in report["rows"]] == [(16, 24), (16, 24)]
    assert any("as given for every rank" in note for note in report["notes"])


def test_speedup_and_efficiency(monkeypatch):
    def measured(_self, ranks: int) -> dict:
        row = {"ranks": ranks, "backend": None, "matches_per_rank": 8, "batch_per_rank": 24}
        row |= {"updates": 5, "out_of_sync": "a weight differs" if ranks == 4 else None}
        return row | {"env_steps_per_second": {1: 1000.0, 4: 3000.0}[ranks]}

    monkeypatch.setattr(scaling.ScalingBench, "_launch", measured)
    report = scaling.ScalingBench(["--device", "cpu"], [4], 1.0).report()
    assert [(row["speedup"], row["efficiency"]) for row in report["rows"]] == [(1, 1), (3, 0.75)]
    printed = scaling.table(report)
    assert printed.splitlines()[4].split() == ["4", "8", "24", "3,000", "3.00", "75.0%"]
    assert "4 ranks: a weight differs" in report["notes"]
    assert all(f"note: {note}" in printed for note in report["notes"])


def test_notes_and_default_ranks(monkeypatch):
    monkeypatch.setattr(scaling.machine, "usable_cores", lambda: 2)
    notes = scaling.ScalingBench(["--device", "cpu"], [1, 3, 8], 1.0).notes
    assert "3 ranks do not divide ddpg.batch_size 1,024: they have 1,008 in all" in notes
    assert "3 ranks do not divide matches 256: they have 258 in all" in notes
    assert any(note.startswith("3, 8 ranks share 2 cores") for note in notes)
    assert scaling.ScalingBench(["--device", "cpu"], None, 1.0)._ranks == [1, 2, 4, 8]
    weak = scaling.ScalingBench(["--scaling", "weak", "--device", "cpu"], [3], 1.0).notes
    assert not any("divide" in note for note in weak)


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["scaling", "--ranks", "0"], ["--ranks", "'0'"]),
        (["scaling", "--ranks", "2,x"], ["--ranks", "'2,x'"]),
        (["scaling", "--device", "cpu", "--ranks", "200"], ["200 ranks cannot share 256 matches"]),
        (["scaling", "--device", "cpu", "--backend", "nccl"], ["--backend nccl", "CPU"]),
        (["scaling", "--gama", "1"], ["--gama", "did you mean --gamma?"]),
        (["scaling", "--matches", "7"], ["matches is 7", "even"]),
        (["train", "--ranks", "2"], ["--ranks"]),
        (["arena", "--ranks", "2"], ["--ranks", "bench scaling"]),
        (["start"], ["'start'", "known: arena"]),
    ],
)
def test_mistakes_are_one_line(words, parts):
    assert_one_line(here("bench", *words), *parts)


def test_not_below_torchrun(monkeypatch, capsys):
    monkeypatch.setenv("RANK", "0")
    assert cli.main(["bench", "scaling"]) == 2
    assert "without torchrun" in capsys.readouterr().err


def test_words_that_go_on_to_the_configuration():
    words = ["scaling", "--ranks", "1,2", "--algo", "ppo", "--seconds=2", "--json", "--run-name", "scaling"]
    own = ["scaling", "--ranks", "1,2", "--seconds=2", "--json"]
    assert command.set_aside(words) == (own, ["--algo", "ppo", "--run-name", "scaling"])
