"""scripts/size_ladder.py: trains and measures what is not done, and writes its table into the page."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers.fake_training import FAILS, train_falsely, trained
from helpers.script import load_script

from opponents.round_robin import Table

PAGE = "before\n<!-- size_ladder: begin -->\n<!-- size_ladder: end -->\nafter\n"
MATCHES = 10
GIVEN = ("--sizes", "0.1M,3M", "--minutes", "0.5", "--league-matches", str(MATCHES), "--runs-dir", "runs")


@pytest.fixture
def ladder(tmp_path, monkeypatch):
    """The script with false trainings, matches and times; the players of each league are kept in `leagues`."""
    module = load_script("size_ladder")
    train_falsely(tmp_path, monkeypatch)
    (tmp_path / "page.md").write_text(PAGE)
    leagues = []

    def play_round_robin(names, matches, device, **_) -> Table:
        """Every player wins all matches against those that are named after it, but for one draw."""
        leagues.append([Path(name).name for name in names])
        wins = (matches - 1) * np.triu(np.ones((len(names), len(names)), np.int64), 1)
        draws = np.ones_like(wins) - np.eye(len(names), dtype=np.int64)
        return Table(tuple(names), matches, wins, draws, np.zeros(len(names)), np.zeros(len(names)))

    def measure_times(name: str) -> dict[str, float]:
        return {"weights": 96005, "alone": 0.25, "planning": 1234.5}

    for name, value in (
        ("PAGE", tmp_path / "page.md"),
        ("play_round_robin", play_round_robin),
        ("measure_times", measure_times),
    ):
        monkeypatch.setattr(module, name, value)

    def run(*words: str) -> int:
        monkeypatch.setattr(sys, "argv", ["size_ladder.py", *words])
        return module.main()

    run.leagues = leagues
    return run


def test_each_step_is_done_once_and_the_table_becomes_the_page(ladder) -> None:
    assert ladder(*GIVEN, "--out", "out", "--seed", "7") == 0
    assert trained() == ["0.1M", "3M"]
    assert sorted(path.name for path in Path("runs/snakes_3v3").glob("*.log")) == ["0.1M.log", "3M.log"]
    assert ladder.leagues == [["0.1M", "3M", "champion", "champion_small", "level2", "evasive", "territory"]]
    assert Path("page.md").read_text() == PAGE, "left alone"
    assert ladder("--page", "out") == 0
    page = Path("page.md").read_text()
    assert page.startswith("before\n<!-- size_ladder: begin -->\n## Size ladder\n")
    assert page.endswith(" |\n<!-- size_ladder: end -->\nafter\n")
    assert "By `python scripts/size_ladder.py --minutes 0.5 --league-matches 10 --sizes 0.1M,3M --seed 7` on" in page
    small, large, champion, _ = [line for line in page.splitlines() if line.startswith("| ")][1:]
    shares = "| 90.0 (59.6-98.2) " * 3
    assert small.startswith("| 0.1M | `tactical` 256-256 | 0.002 | 30 s, 60 k turns | 96,005 " + shares)
    assert small.endswith(") | 0.2 | 1,234 |")
    assert large.startswith("| 3M | `tactical_board` 1536-768 | 0.00067 | "), "a third of the recipe's learning rate"
    assert champion.startswith("| `champion` | `tactical_board` 1024-256 | 0.005 | 386 s, 2 G turns | ")
    ratings = [int(line.split(" | ")[8].split()[0]) for line in (small, large, champion)]
    assert ratings == sorted(ratings, reverse=True)

    assert ladder(*GIVEN) == 0
    assert trained() == []
    assert len(ladder.leagues) == 1, "kept"
    assert ladder(*GIVEN, "--sizes", "0.1M,3M,10M") == 0
    assert trained() == ["10M"]
    assert "10M" in ladder.leagues[1]


def test_a_size_that_fails_is_left_out_and_trained_again(ladder) -> None:
    Path(FAILS).write_text("3M")
    assert ladder(*GIVEN) == 1
    assert "3M" not in ladder.leagues[0]
    assert "\n| 0.1M " in Path("page.md").read_text()
    Path(FAILS).unlink()
    assert ladder(*GIVEN) == 0
    assert trained() == ["0.1M", "3M"]
    assert "3M" in ladder.leagues[1]


def test_mistakes_are_told_in_one_line(ladder, capsys) -> None:
    assert ladder(*GIVEN, "--no-such-flag") == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert ladder("--sizes", "1M") == 2
    assert capsys.readouterr().err.endswith(": unknown size '1M'; known: 0.03M, 0.1M, 0.7M, 3M, 10M\n")


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")
def test_a_gpu_that_is_not_there_is_told_before_any_training(ladder, capsys) -> None:
    assert ladder("--sizes", "3M", "--device", "cuda") == 2
    assert capsys.readouterr().err.endswith(": --device cuda: torch sees no CUDA device here; use --device cpu\n")
    assert trained() == []
