"""How many evaluations a run has, and of how many matches: the rule, --dry_run, and a run."""

import json

import pytest
from helpers.training import TINY, here, the_run

from marl.config.evaluation_plan import FIXED, describe_plan, plan_evaluations
from marl.config.train_config import read_config


@pytest.mark.parametrize(
    ("words", "evaluations", "matches"),
    [
        (["--max_episodes", "50000"], 11, 200),  # the default run
        (["--max_episodes", "13200"], 11, 200),
        (["--max_episodes", "10000"], 11, 120),
        (["--max_episodes", "6600"], 11, 50),
        (["--max_episodes", "3000"], 5, 50),
        (["--max_episodes", "600"], 2, 50),
        (["--max_episodes", "1"], 2, 50),  # the first and the last stay
        (["--max_episodes", "3000", "--eval_opponents", "level0"], 11, 170),
        (["--max_episodes", "1e9", "--max_minutes", "1"], 11, 100),
        (["--max_episodes", "600", "--max_minutes", "60"], 2, 50),
        (["--max_episodes", "600", "--eval_matches", "200"], 2, 200),  # what the user gives stays
        (["--max_episodes", "6000", "--eval_matches", "7"], 11, 7),
        (["--max_episodes", "600", "--eval_interval", "50"], 1, 50),
        (["--max_episodes", "1200", "--eval_interval", "0"], 1, 200),
        (["--max_episodes", "600", "--eval_interval", "50", "--eval_matches", "300"], 1, 300),
    ],
)
def test_the_rule(words, evaluations, matches):
    plan = plan_evaluations(read_config(words), "cpu")
    assert (plan.at_start + max(1, plan.in_run), plan.matches) == (evaluations, matches)
    assert plan.at_start == ("--eval_interval" not in words)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_the_default_run_is_measured_in_full_and_evaluations_stay_affordable(device):
    def of(episodes):
        return plan_evaluations(read_config(["--max_episodes", str(episodes)]), device)

    assert (of(50_000).in_run, of(50_000).matches) == (10, 200)
    plans = {episodes: of(episodes) for episodes in (9_000, 10_000, 20_000, 30_000, 40_000)}
    for episodes, plan in plans.items():
        assert 4 * (plan.in_run + 1) * (plan.matches + FIXED[device]) <= episodes


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--max_episodes", "3000"], "before the first update and 4 times in the run, 50 matches each: level0, level1"),
        (["--max_episodes", "600"], "before the first update and at the end, 50 matches each: level0, level1"),
        (["--eval_interval", "0", "--eval_matches", "1", "--max_episodes", "9"], "at the end, 1 match each: level0, "),
        (["--eval_interval", "5000", "--max_episodes", "50000"], "every 5,000 episodes, 200 matches each: level0, "),
    ],
)
def test_the_words_for_it(words, expected):
    config = read_config(words)
    assert describe_plan(plan_evaluations(config, "cpu"), config).startswith(expected)


def test_the_dry_run_tells_the_plan(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = here("train", "--dry_run", "--algo", "ppo", "--device", "cpu", "--body", "8,8", "--max_episodes", "3000")
    expected = "evaluation      before the first update and 4 times in the run, 50 matches each: level0, level1, "
    assert expected in done.stdout, done.stderr


def test_a_short_run_is_evaluated_first_and_last(tmp_path):
    words = ["--eval_interval", "auto", "--eval_matches", "auto", "--runs_dir", str(tmp_path)]
    done = here(*TINY, *words)
    assert done.returncode == 0, done.stderr
    assert "evaluation      before the first update and at the end, 50 matches each: level0" in done.stdout
    run = the_run(tmp_path)
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    rates = {line["step"]: line["eval/win_rate_level0"] for line in lines if "eval/win_rate_level0" in line}
    assert list(rates) == [0, 16]
    assert all((50 * rate) == pytest.approx(round(50 * rate)) for rate in rates.values())
    listed = json.loads(here("runs", "--runs_dir", tmp_path, "--json").stdout)[0]["best"]["against"]["level0"]
    assert listed["high"] - listed["low"] < 0.3, "the interval of 50 matches"
