"""snakes doctor --ranks: a real launch of two ranks, the table to send, and faults."""

import json
import re

import pytest
from helpers.command import assert_one_line
from helpers.training import alone, here

from marl.bench import scaling
from marl.doctor import rank_table

SMALL = [
    *("--device", "cpu", "--matches", "16", "--body", "8", "--batch_size", "24", "--turns", "2", "--updates", "2"),
    *("--buffer_size", "960", "--warmup_turns", "8", "--algo", "ddpg"),
]


def test_two_ranks_by_the_command_line() -> None:
    result = alone("doctor", "--ranks", "2", "--seconds", "0.02", *SMALL)
    assert result.returncode == 0, result.stderr
    facts, table, checks, send = result.stdout.rstrip().split("\n\n")
    assert re.search(r"^CPU +.* cores, ", facts, re.MULTILINE)
    assert re.search(r"^command +.*doctor --ranks 2 --seconds 0\.02 .*--algo ddpg$", facts, re.MULTILINE)
    rows = [line.strip("|").split("|") for line in table.splitlines() if line.startswith("| ddpg")]
    assert [[cell.strip() for cell in row[:4]] for row in rows] == [
        ["ddpg", "1", "-", "16"], ["ddpg", "2", "shared memory", "16"],
    ]  # fmt: skip
    assert re.fullmatch(r"ok           ddpg, 2 ranks: the same parameters on all of them after [\d,]+ updates", checks)
    assert "Speed of ranks" in send


def measured(differing: int):
    def launch(_self, ranks: int) -> dict:
        row = {"ranks": ranks, "backend": None, "matches_per_rank": 8, "batch_per_rank": 24, "updates": 7}
        problem = "actor.0 on rank 1 of 4 differs from the other ranks" if ranks == differing else None
        return row | {"env_steps_per_second": 1000.0 * ranks, "out_of_sync": problem}

    return launch


@pytest.fixture
def report(monkeypatch):
    """doctor --ranks N --json with ranks that are not started; differing: the number of ranks that do not agree."""

    def run(ranks: int, *words: str, differing: int = 0):
        monkeypatch.setattr(scaling.ScalingBench, "_launch", measured(differing))
        result = here("doctor", "--json", "--ranks", str(ranks), "--device", "cpu", *words)
        return result.returncode, json.loads(result.stdout)

    return run


def test_both_learners_and_all_numbers_of_ranks(report) -> None:
    code, found = report(6)
    assert (code, found["ok"]) == (0, True)
    assert [part["algo"] for part in found["scaling"]] == ["ddpg", "ppo"]
    assert [row["ranks"] for row in found["scaling"][0]["rows"]] == [1, 2, 4, 6]
    assert [check["name"] for check in found["checks"][:3]] == ["ddpg, 2 ranks", "ddpg, 4 ranks", "ddpg, 6 ranks"]
    assert rank_table.numbers_of_ranks(8) == [1, 2, 4, 8]
    assert rank_table.numbers_of_ranks(1) == [1]


def test_ranks_that_do_not_agree_are_a_failure(report) -> None:
    code, found = report(4, "--algo", "ppo", differing=4)
    assert (code, found["ok"]) == (1, False)
    (failed,) = [check for check in found["checks"] if not check["ok"]]
    assert failed["name"] == "ppo, 4 ranks"
    assert failed["detail"].startswith("actor.0 on rank 1 of 4 differs")
    assert any("4 ranks: actor.0 on rank 1" in note for note in found["scaling"][0]["notes"])


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["--ranks", "0"], "--ranks"),
        (["--seconds", "2"], "--ranks, which is missing"),
        (["--ranks", "2", "--gama", "1"], "did you mean --gamma?"),
        (["--ranks", "2", "last"], "last"),
        (["--ranks", "2", "--device", "cpu", "--backend", "nccl"], "nccl"),
    ],
)
def test_mistakes_are_one_line(words, part) -> None:
    assert_one_line(here("doctor", *words), part)
