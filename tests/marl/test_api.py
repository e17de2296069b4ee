"""The program from Python: a training, its player, matches, and mistakes as exceptions."""

import doctest
import inspect
import io
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path

import pytest
from helpers.command import ROOT

import marl
from arena.errors import ArenaError
from marl.errors import UserError
from opponents.submission import Submission

SMALL = {"device": "cpu", "precision": "fp32", "max_episodes": 8, "eval_matches": 2, "eval_interval": 0, "threads": 1}


def test_train_load_play(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    run = marl.train("smoke", runs_dir=tmp_path / "runs", run_name="api", body=(8, 8), **SMALL)
    folder = run.path
    assert folder == tmp_path / "runs" / "snakes_3v3" / "api"
    assert (folder / "checkpoints" / "last").is_file()
    assert str(folder) in capsys.readouterr().out
    again = {"runs_dir": tmp_path / "runs", "run_name": "api", **SMALL}
    assert marl.train("smoke", body=(8, 8), **again) == run, "finished already"
    with pytest.raises(UserError, match="has all its 8 episodes"):
        marl.train(resume=folder, runs_dir=tmp_path / "runs")
    best = folder / "checkpoints" / "best"
    for name in ("last", "runs/last", "api", run, folder, best, "plan=1x1:last", Path("runs") / "last"):
        player = marl.load(name)
        if name == "last":
            assert marl.play(player, "level0", matches=2).matches == 2
        player.close()
    results = marl.play(run, "level0", matches=2, seed=3, record=True)
    assert results.matches == results.wins + results.draws + results.losses == 2
    assert set(results.replays) == {"first", "closest", "worst", "best"}


@pytest.mark.parametrize("name", ["train", "load", "play", "team_env"])
def test_the_examples_of_a_docstring(name, tmp_path, monkeypatch) -> None:
    """They run; where an example states what it shows, it shows that."""
    monkeypatch.chdir(tmp_path)
    names = {each: getattr(marl, each) for each in marl.__all__}
    examples = doctest.DocTestParser().get_examples(inspect.getdoc(getattr(marl, name)))
    assert len(examples) >= 1
    for example in examples:
        shown = io.StringIO()
        with redirect_stdout(shown):
            exec(compile(example.source, f"example of {name}", "single"), names)
        if example.want:
            assert shown.getvalue() == example.want


def test_a_submission_by_its_path(tmp_path) -> None:
    file = tmp_path / "submission.py"
    file.write_text(
        "def my_controller(observation, action_space, is_act_continuous=False):\n    return [[1, 0, 0, 0]]\n"
    )
    for name in (file, tmp_path):
        player = marl.load(name)
        assert isinstance(player, Submission)
        player.close()
    with pytest.raises(UserError, match=r"a submission plays whole matches; it cannot be the opponent of team_env"):
        marl.team_env(file)
    with pytest.raises(ArenaError, match="unknown player 'champoin', did you mean champion"):
        marl.load("champoin")


def test_mistakes_are_exceptions() -> None:
    with pytest.raises(UserError, match="unknown flag --max_episode, did you mean --max_episodes"):
        marl.train("smoke", max_episode=3)
    with pytest.raises(UserError, match="smok: No such file, did you mean smoke"):
        marl.train("smok")
    with pytest.raises(AttributeError, match="no attribute 'trian'"):
        _ = marl.trian


def test_the_package_loads_no_torch() -> None:
    code = "import marl, sys; assert 'torch' not in sys.modules; print(marl.__version__)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout == f"{marl.__version__}\n", done.stderr
