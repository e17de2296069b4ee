"""Trainings from Python: the run that comes back, its callback, seeds, a dry run, and real signals."""

import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import yaml
from helpers import train_in_a_loop
from helpers.short_matches import staggered_at_once
from helpers.train_in_a_loop import TINY
from helpers.training import finish, forked_call, wait_for

import marl
from arena.errors import ArenaError
from marl.config.train_config import read_config
from marl.errors import UserError
from marl.train_api import as_flags


@pytest.fixture
def small(tmp_path, monkeypatch) -> Iterator[dict]:
    monkeypatch.chdir(tmp_path)
    with staggered_at_once():
        yield TINY | {"runs_dir": tmp_path / "runs with a blank"}


def test_the_run_that_comes_back(small, capsys, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)  # as if it were not installed
    run = marl.train("smoke", max_episodes=8, **small)
    assert capsys.readouterr().out != ""
    assert run.complete
    assert run.best is not None
    assert marl.load(run.best).name == str(run.best)
    metrics = run.metrics()
    assert {"step", "losses/policy", "eval/points"} <= metrics.keys()
    assert len({len(column) for column in metrics.values()}) == 1
    evaluations = run.evaluations()
    assert list(evaluations) == [
        *("episode", "points", "level0", "level0_low", "level0_high", "level1", "level1_low", "level1_high"),
    ]
    assert evaluations["episode"] == sorted(evaluations["episode"])
    assert evaluations["points"][-1] == [points for points in metrics["eval/points"] if points is not None][-1]
    longer = run.resume(max_episodes=12, device="cpu", quiet=True)
    assert longer == run
    assert longer.complete
    assert longer.evaluations()["episode"][-1] >= 12
    assert capsys.readouterr().out == "", "quiet"


def test_tables_are_those_of_pandas_where_it_is_installed(small, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", SimpleNamespace(DataFrame=lambda rows: ("frame", rows)))
    run = marl.train("smoke", max_episodes=2, quiet=True, **small)
    kind, rows = run.evaluations()
    assert kind == "frame"
    assert rows[-1].keys() >= {"episode", "points", "level1"}
    assert run.metrics()[0] == "frame"


def test_a_callback_sees_every_log_line_and_evaluation(small, capsys) -> None:
    seen = []
    run = marl.train("smoke", max_episodes=8, quiet=True, callback=seen.append, **small)
    assert run.complete, "None is no wish to stop"
    assert capsys.readouterr().out == ""
    assert {values["event"] for values in seen} == {"log", "evaluation"}
    assert all(type(value) in (int, float, str) for values in seen for value in values.values())
    evaluated = [values["episode"] for values in seen if values["event"] == "evaluation"]
    assert evaluated == list(run.evaluations()["episode"])
    assert all("eval/win_rate_level1" in values for values in seen if values["event"] == "evaluation")
    logged = [values for values in seen if values["event"] == "log"]
    assert [values["env_steps"] for values in logged] == sorted(values["env_steps"] for values in logged)
    assert all("losses/policy" in values for values in logged)


def test_a_callback_stops_the_run_which_is_saved(small, capsys) -> None:
    run = marl.train("smoke", max_episodes=500, callback=lambda values: values["episode"] < 4, **small)
    assert not run.complete
    assert "stopped by the callback at episode" in capsys.readouterr().out
    assert marl.play(run, "level0", matches=2).matches == 2, "it is saved"
    before = list(run.metrics()["step"])[-1]  # a column of pandas, or a list
    assert 4 <= before < 500
    assert run.resume(max_episodes=before + 2, device="cpu", quiet=True).complete


def test_a_mistake_of_the_callback_reaches_the_caller(small) -> None:
    with pytest.raises(ZeroDivisionError):
        marl.train("smoke", max_episodes=8, quiet=True, callback=lambda values: 1 / 0, **small)


def test_a_dry_run_writes_nothing(small, tmp_path, capsys) -> None:
    config = marl.train("smoke", dry_run=True, max_episodes=8, **small)
    assert config["schedule"]["max_episodes"] == 8
    assert config["network"]["body"] == [8, 8]
    assert config["matches"] == 2
    assert "dry run: nothing was started or written" in capsys.readouterr().out
    del small["seed"]
    assert marl.train("smoke", dry_run=True, quiet=True, seeds="3-4", **small)["seed"] == 3
    assert not (tmp_path / "runs with a blank").exists()
    assert capsys.readouterr().out == ""
    with pytest.raises(ArenaError, match="unknown player 'level9'"):
        marl.train("smoke", dry_run=True, **small | {"eval_opponents": ["level9"]})


def test_several_seeds_are_several_runs(small, capsys) -> None:
    del small["seed"]
    here = marl.train("smoke", seed=3, max_episodes=2, run_name="both_seed3", quiet=True, **small)
    runs = marl.train("smoke", seeds=(3, 4), max_episodes=2, run_name="both", quiet=True, **small)  # 4 in a process
    assert runs[0] == here
    assert [run.path.name for run in runs] == ["both_seed3", "both_seed4"]
    assert all(run.complete for run in runs)
    assert yaml.safe_load((runs[1].path / "config.yaml").read_text())["seed"] == 4
    assert marl.train("smoke", seeds="3-4", max_episodes=2, run_name="both", **small) == runs
    assert "done already" in capsys.readouterr().out
    with pytest.raises(UserError, match="callback does not go with seeds"):
        marl.train("smoke", seeds=[1], callback=print, **small)


# --- signals ----------------------------------------------------------------------------------------------------------

WITH_CTRL_C = (signal.SIGINT, "none", ["raised KeyboardInterrupt", "cleaned up"], 1)  # as of any exception
WITH_TERM = (signal.SIGTERM, "none", ["raised SystemExit 143", "cleaned up"], 143)
WITH_HANDLER = (signal.SIGTERM, "own", ["handled 15", "returned first False", "cleaned up"], 0)


@pytest.mark.parametrize(
    ("number", "handler", "said", "code"), [WITH_CTRL_C, WITH_TERM, WITH_HANDLER], ids=["ctrl-c", "term", "handler"]
)
def test_a_signal_saves_and_reaches_the_caller(number, handler, said, code, tmp_path) -> None:
    with forked_call(train_in_a_loop.main, tmp_path / "runs", handler) as process:
        wait_for(process, "episode ")
        process.send_signal(number)
        done = finish(process)
    assert done.returncode == code, done
    lines = [line.strip() for line in done.stdout.splitlines()]
    assert any(line.startswith("stopped by a signal") for line in lines), "it was saved first"
    assert [line for line in lines if line.startswith(("raised", "handled", "returned", "cleaned"))] == said, done
    (run,) = (tmp_path / "runs" / "snakes_3v3").iterdir()
    assert run.name == "first", "the second training is not started"
    assert not marl.TrainResult(run).complete
    assert marl.play(run, "level0", matches=2).matches == 2


def test_a_signal_that_comes_when_all_is_trained_is_not_lost(small) -> None:
    """The run is complete, and the loop of the caller ends all the same."""

    sent = []

    def interrupt(values) -> None:
        if values["episode"] >= 8 and not sent:  # a second one would end this process at once
            sent.append(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        marl.train("smoke", max_episodes=8, run_name="whole", quiet=True, callback=interrupt, **small)
    assert marl.TrainResult(small["runs_dir"] / "snakes_3v3" / "whole").complete


@pytest.mark.parametrize(
    ("options", "path", "value"),
    [
        ({"body": [32, 16]}, "network.body", (32, 16)),
        ({"body": (32, 16)}, "network.body", (32, 16)),
        ({"body": np.array([32, 16])}, "network.body", (32, 16)),
        ({"network": {"body": [8]}}, "network.body", (8,)),
        ({"eval_opponents": ["level0", "level1"]}, "evaluation.eval_opponents", ("level0", "level1")),
        ({"opponents": {"level3": 0.4, "level3:0.2": 0.1}}, "schedule.opponents", ("level3:0.4", "level3:0.2:0.1")),
        ({"opponents": []}, "schedule.opponents", ()),
        ({"opponents": {}}, "schedule.opponents", ()),
        ({"algo": "ppo", "ppo": {"lr": 1e-3}}, "ppo.lr", 0.001),
        ({"algo": "ppo", "ppo.lr": np.float64(1e-3)}, "ppo.lr", 0.001),
        ({"algo": "ppo", "lr": torch.tensor(0.5)}, "ppo.lr", 0.5),
        ({"schedule": {"max_episodes": np.int64(7)}}, "schedule.max_episodes", 7),
        ({"max_episodes": 5e3}, "schedule.max_episodes", 5000),
        ({"max_minutes": 2}, "max_minutes", 2.0),
        ({"graphs": False}, "graphs", False),
        ({"graphs": np.bool_(False)}, "graphs", False),
        ({"matches": None}, "matches", None),
        ({"runs_dir": Path("a folder, odd")}, "runs_dir", "a folder, odd"),
    ],
    ids=str,
)
def test_a_value_of_python_is_that_value(options, path, value) -> None:
    config = read_config(as_flags(options))
    for name in path.split("."):
        config = getattr(config, name)
    assert config == value
    assert type(config) is type(value)


def test_an_item_with_a_comma_is_no_two_items() -> None:
    with pytest.raises(UserError, match=r"^eval_opponents: 'a,b/submission.py' holds a comma"):
        as_flags({"eval_opponents": ["level0", "a,b/submission.py"]})


def test_what_is_no_value_is_told() -> None:
    with pytest.raises(UserError, match=r"--body is .*; allowed: a list, every item a whole number"):
        read_config(as_flags({"body": ["wide"]}))
    with pytest.raises(UserError, match=r"unknown flag --ppo\.learning_rate"):
        read_config(as_flags({"algo": "ppo", "ppo": {"learning_rate": 1}}))
