"""snakes bench arena: the rows, their names and what the clock is read around."""

import json
import re

import pytest
from helpers.command import assert_one_line
from helpers.training import alone

from marl.bench import command, timing
from opponents.sandbox.process import why_not_sandboxed


def test_json_has_every_row():
    words = ("--json", "--device", "cpu", "--matches", "1,64,256", "--threads", "1", "--seconds", "0.02")
    result = alone("bench", "arena", *words)
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    assert report["state_bytes_per_match"] > 0
    assert report["first_call_seconds"]["cpu"] > 0
    assert report["machine"]["cpu"]["cores"] >= 1
    rows = report["rows"]
    measured = {(row["matches"], row["what"]) for row in rows}
    whats = ("step", "step + features", "step + planes", "step + canonical")
    assert measured >= {(n, what) for n in (1, 64, 256) for what in whats}
    assert (1, "PettingZoo parallel step") in measured
    for row in rows:
        assert set(row) == {
            "device",
            "matches",
            "threads",
            "what",
            "match_turns_per_second",
            "snake_turns_per_second",
        }
        assert row["device"] == "cpu"
        assert row["match_turns_per_second"] > 0
        assert row["snake_turns_per_second"] == pytest.approx(6 * row["match_turns_per_second"])


def test_table_names_the_machine():
    result = alone("bench", "--device", "cpu", "--matches", "1", "--seconds", "0.02")
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("CPU: ")
    assert "torch " in result.stdout
    assert "match-turns/s" in result.stdout
    assert re.search(r"\nstate bytes per match: \d+\nfirst call seconds:\n  cpu +\d+\.\d\d\n$", result.stdout)


@pytest.mark.skipif(why_not_sandboxed() is not None, reason=f"this system cannot sandbox: {why_not_sandboxed()}")
def test_a_submission_in_its_sandbox_and_without():
    report = json.loads(alone("bench", "submission", "--json", "--matches", "2", "--seconds", "0.02").stdout)
    assert [row["what"] for row in report["rows"]] == ["submission in its sandbox + step", "uncaged submission + step"]
    assert all(value > 0 for value in report["microseconds_per_move"].values())
    assert_one_line(alone("bench", "submission", "--device", "cuda"), "leave --device out")


def test_facts_are_tables(capsys):
    command._print_fact("times slower", {"level0, 1024 matches, 1 thread": 1.5, "level4": 12.345})
    assert capsys.readouterr().out.splitlines() == [
        "times slower:",
        "  level0, 1024 matches, 1 thread      1.50",
        "  level4                             12.35",
    ]


def test_more_threads_than_the_machine_has():
    assert_one_line(alone("bench", "--threads", "100000"), "100000")


def test_the_best_window_counts(monkeypatch):
    clock = [0.0]
    costs = iter([9.0, 9.0, 3.0, 1.0, 2.0, 5.0])  # seconds of the warm-up, then of each window

    def turns(count):
        clock[0] += next(costs)

    monkeypatch.setattr(timing.time, "perf_counter", lambda: clock[0])
    assert timing.best_rate(turns, 10, seconds=1.0) == 10 / 1.0


def test_windows_grow_to_their_share_of_the_time(monkeypatch):
    clock, counts = [0.0], []

    def turns(count):
        counts.append(count)
        clock[0] += count * 1e-3

    monkeypatch.setattr(timing.time, "perf_counter", lambda: clock[0])
    assert timing.best_rate(turns, 20, seconds=1.0) == pytest.approx(1000)
    assert all(count % 20 == 0 for count in counts)
    assert counts[-timing.WINDOWS + 1 :] == [200] * (timing.WINDOWS - 1)
