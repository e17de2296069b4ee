"""snakes bench --save and --compare: intervals, exit codes, files, and a user's mistakes."""

import json
import random

import pytest
from helpers.command import ROOT, assert_one_line
from helpers.training import alone

from marl.analysis.statistics import Rates, ratios_of_pairs, ratios_of_sets
from marl.bench import compare
from marl.cli.main import main

SEED = 11
FLAGS = ("arena", "--device", "cpu", "--matches", "1", "--threads", "1", "--seconds", "0.02")


def rounds(mean: float, count: int, spread: float, rng: random.Random) -> list[Rates]:
    return [{"step": mean * rng.lognormvariate(0, spread)} for _ in range(count)]


@pytest.mark.parametrize("ratios", [ratios_of_pairs, ratios_of_sets])
def test_the_interval_holds_the_true_ratio_about_as_often_as_it_says(ratios) -> None:
    """200 comparisons of a program that is 5 % slower, with 2 % of noise: 95 % +- 3 standard errors."""
    rng = random.Random(SEED)
    hits = 0
    for _ in range(200):
        (found,) = ratios(rounds(1000, 4, 0.02, rng), rounds(950, 4, 0.02, rng))
        hits += found.low <= 0.95 <= found.high
    assert hits >= 180, f"seed {SEED}"
    assert found.low < found.ratio < found.high


def test_one_round_says_nothing_about_the_spread() -> None:
    (found,) = ratios_of_pairs([{"step": 100.0}], [{"step": 50.0}])
    assert (found.ratio, found.low) == (pytest.approx(0.5), 0.0)
    assert not compare.is_below(found, 0.97)


def test_the_rounds_of_two_checkouts_alternate(monkeypatch, tmp_path) -> None:
    (tmp_path / "marl").mkdir()
    (tmp_path / "marl/__main__.py").touch()
    order = []
    monkeypatch.setattr(compare, "measure_round", lambda words, root: order.append(root) or {"step": 1.0})
    compare.compare(str(tmp_path), ["arena"], 4)
    theirs, ours = tmp_path, ROOT
    assert order == [theirs, ours, ours, theirs, theirs, ours, ours, theirs]


def test_a_file_knows_its_flags(monkeypatch, tmp_path) -> None:
    file, measured = tmp_path / "speeds.json", []
    monkeypatch.setattr(compare, "measure_round", lambda words, root: measured.append(list(words)) or {"step": 1.0})
    for words in (FLAGS, ("arena",), ("train", "--algo", "ppo"), ("train",)):
        task = "--compare" if len(words) == 1 else "--save"
        assert main(["bench", *words, task, str(file), "--rounds", "1"]) == 0
    assert measured == [[*FLAGS], [*FLAGS], ["train", "--algo", "ppo"], ["train", "--algo", "ppo"]]


def test_save_compare_and_the_exit_code(monkeypatch, tmp_path, capsys) -> None:
    file, speed, rng = tmp_path / "speeds.json", [1000.0], random.Random(SEED)
    monkeypatch.setattr(
        compare, "measure_round", lambda words, root: {"step": speed[0] * rng.lognormvariate(0, 0.001), "other": 5.0}
    )
    words = ["bench", *FLAGS]
    assert main([*words, "--save", str(file)]) == 0
    assert capsys.readouterr().out == f"{file}: 2 rows, 4 rounds\n"
    assert json.loads(file.read_text())["words"] == list(FLAGS)
    for speed[0], code in ((1000.0, 0), (1200.0, 0), (900.0, 1)):
        assert main([*words, "--compare", str(file)]) == code, f"seed {SEED}"
    lines = capsys.readouterr().out.splitlines()
    assert lines[-2].startswith("step ")
    assert lines[-2].endswith("  below 0.97")
    assert not lines[-1].endswith("below 0.97")
    assert main([*words, "--compare", str(file), "--least", "0.8"]) == 0
    for wrong, part in (
        (["bench", "opponents", "--compare", str(file)], "compare it with the same flags"),
        ([*words, "--compare", str(ROOT / "docs")], "neither a file of bench --save nor a checkout"),
        ([*words, "--compare", str(ROOT / "pyproject.toml")], "no file of bench --save"),
        ([*words, "--compare", str(tmp_path / "none")], "cannot be read"),
        ([*words, "--rounds", "2"], "either --save FILE or --compare FILE"),
        (["bench", "start", "--algo", "ppo", "--save", str(file)], "--save"),
        (["bench", "positions", "--save", str(file)], "has no speeds to save"),
    ):
        capsys.readouterr()
        assert main(wrong) == 2
        assert part in capsys.readouterr().err


def test_a_real_round(tmp_path) -> None:
    done = alone("bench", *FLAGS, "--save", str(tmp_path / "speeds.json"), "--rounds", "1")
    assert done.returncode == 0, done.stderr
    document = json.loads((tmp_path / "speeds.json").read_text())
    assert document["rounds"][0]["step, cpu, 1 matches, 1 threads"] > 0
    assert document["machine"]["cpu"]["cores"] >= 1
    assert_one_line(alone("bench", *FLAGS, "--save", str(tmp_path / "none/speeds.json")), "none")
