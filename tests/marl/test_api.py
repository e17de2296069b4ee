"""The program from Python: a training, its player, matches, and mistakes as exceptions."""

import os
import subprocess
import sys
from collections.abc import Iterator

import numba
import pytest
import torch
from helpers.command import ROOT

import marl
from marl.errors import UserError

SMALL = {"device": "cpu", "precision": "fp32", "max_episodes": 8, "eval_matches": 2, "eval_interval": 0, "threads": 1}


@pytest.fixture
def torch_settings() -> Iterator[None]:
    """A training sets threads and oneDNN for its process; afterwards they are as before."""
    environment, onednn = dict(os.environ), torch.backends.mkldnn.enabled
    torch_threads, numba_threads = torch.get_num_threads(), numba.get_num_threads()
    yield
    os.environ.clear()
    os.environ.update(environment)
    torch.set_num_threads(torch_threads)
    numba.set_num_threads(numba_threads)
    torch.backends.mkldnn.enabled = onednn


@pytest.mark.usefixtures("torch_settings")
def test_train_load_play(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    folder = marl.train("smoke", runs_dir=tmp_path / "runs", run_name="api", body=(8, 8), **SMALL)
    assert folder == tmp_path / "runs" / "snakes_3v3" / "api"
    assert (folder / "checkpoints" / "last").is_file()
    assert str(folder) in capsys.readouterr().out
    again = {"runs_dir": tmp_path / "runs", "run_name": "api", **SMALL}
    assert marl.train("smoke", body=(8, 8), **again) == folder, "finished already"
    with pytest.raises(UserError, match="has all its 8 episodes"):
        marl.train(resume=folder, runs_dir=tmp_path / "runs")
    player = marl.load("last")
    try:
        assert marl.play(player, "level0", matches=2).matches == 2
    finally:
        player.close()
    results = marl.play(folder, "level0", matches=2, seed=3, record=True)
    assert results.matches == results.wins + results.draws + results.losses == 2
    assert set(results.replays) == {"first", "closest", "worst", "best"}


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
