"""Whole runs of the league with self-play: log lines, snapshots of past selves, and resuming."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from helpers.resumed import assert_equal
from helpers.training import TINY_ANY, here, logged, names_in, the_run
from helpers.training_states import LEAGUE

from marl.learners import factory
from marl.metrics.run_metrics import of_run
from marl.storage.checkpoint_finder import episode_of, list_complete
from marl.storage.saved_player import load_policy
from marl.training import past_selves
from marl.training.past_selves import FOLDER, read_pool
from opponents.players import find
from opponents.scheduler import LADDER

# A new past self every 4 episodes, two are kept; 8 episodes are one match of every slot.
RUN = [*TINY_ANY, *LEAGUE, "--self_play", "0.25", "--league_interval", "4", "--league_size", "2", "--run_name", "team"]
# Learner -> number of past selves that play at a time (fewer than by default: faster), and flags.
ALGOS = {
    "ddpg": (2, ["--turns", "20", "--updates", "1"]),
    "ppo_lstm": (
        1,
        [
            *("--algo", "ppo_lstm", "--optimizer", "muon", "--lstm_size", "8", "--messages"),
            *("--update_interval", "160", "--batch_size", "1000", "--epochs", "1"),
            *(
                "--lr_end",
                "1",
                "--entropy",
                "0.01",
                "--entropy_end",
                "0.01",
            ),  # annealing depends on the length
        ],
    ),
}
PART, WHOLE = 8, 12


@pytest.fixture(scope="module", params=ALGOS)
def runs(request, tmp_path_factory) -> Iterator[tuple[Path, Path]]:
    """A run of WHOLE episodes, and a run of PART episodes that was resumed up to WHOLE."""
    players, words = ALGOS[request.param]
    folders = [tmp_path_factory.mktemp(name) for name in ("whole", "parts")]
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(factory, "PAST_SELVES", players)
        patch.setattr(past_selves, "STAY", 0)  # new players at every log line
        for folder, episodes in zip(folders, (WHOLE, PART), strict=True):
            train(*RUN, *words, "--runs_dir", folder, "--max_episodes", episodes)
        whole, parts = (the_run(folder) for folder in folders)
        train("train", "--resume", parts, "--max_episodes", WHOLE)
    yield whole, parts
    torch.set_num_threads(threads)


def train(*words) -> None:
    done = here(*words)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr


def test_a_run_keeps_the_snapshots_that_its_checkpoints_need_and_no_others(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(factory, "PAST_SELVES", 1)
    monkeypatch.setattr(past_selves, "STAY", 0)
    words = [*RUN, *ALGOS["ddpg"][1], "--runs_dir", tmp_path]
    train(*words, "--max_episodes", "24", "--keep_last", "1")
    run = the_run(tmp_path)
    for episodes in (None, "28"):
        if episodes:
            train("train", "--resume", run, "--max_episodes", episodes)
        folders = list_complete(run)
        pools = [_saved(folder / "state.pt")["past_selves"]["pool"] for folder in folders]
        needed = {name for pool in pools for name in pool}
        assert all(len(read_pool(run, pool)) == 2 for pool in pools)
        joined_since = {f"past_{episode}" for episode in range(episode_of(folders[0]), 29)}
        assert needed <= set(names_in(run)) <= needed | joined_since


def test_a_run_begun_with_load_model_can_be_resumed(tmp_path) -> None:
    """Its first checkpoint names past selves of the other run: they must be in its own folder by then."""
    other = [*RUN, *ALGOS["ddpg"][1], "--runs_dir", tmp_path]
    train(*other, "--max_episodes", "4")
    train(*other, "--max_episodes", "8", "--load_model", "--run_name", "heir")
    run = tmp_path / "snakes_3v3" / "heir"
    assert "past_0" in names_in(run)
    train("train", "--resume", run, "--max_episodes", "12")


def test_a_league_with_self_play_is_logged_by_name(runs) -> None:
    lines = logged(runs[0])
    assert lines[-1]["step"] == WHOLE
    rates = {name for line in lines for name in line if name.startswith("win_rate/")}
    assert "win_rate/past_0" in rates
    assert "win_rate/level0" in rates
    assert rates <= {f"win_rate/{name}" for name in (*LADDER, *(f"past_{e}" for e in range(0, WHOLE + 1, 4)))}
    assert all(0 <= line[name] <= 1 for line in lines for name in rates & line.keys())


def test_past_selves_are_in_the_run_folder(runs) -> None:
    run = runs[0]
    names = set(names_in(run))
    state = _saved(run / "checkpoints" / _last(run) / "state.pt")
    assert len(state["past_selves"]["pool"]) == 2, "as many as are kept"
    assert state["schedule"]["past_selves"] == state["past_selves"]["pool"]
    assert set(state["past_selves"]["names"]) <= set(state["past_selves"]["pool"]) < names
    assert len(names) >= 4
    assert find(str(run / FOLDER / "past_0.safetensors"), load_policy).encoder.name == "features"


def test_a_resumed_league_equals_the_run_that_was_not_stopped(runs) -> None:
    """To the bit: log lines, pool, players, all matches and the learner."""
    whole, parts = runs
    assert _without_times(whole) == _without_times(parts)
    assert _last(whole) == _last(parts)
    folders = [run / "checkpoints" / _last(run) for run in runs]
    mine, its = ({file.name for file in folder.iterdir()} for folder in folders)
    assert mine == its
    for name in mine:
        if name.endswith(".pt"):
            assert_equal(*(_saved(folder / name) for folder in folders), name)
    weights = [(folder / "weights.safetensors").read_bytes() for folder in folders]
    assert weights[0] == weights[1]
    files = [{file.name: file.read_bytes() for file in (run / FOLDER).iterdir()} for run in runs]
    assert files[0] == files[1]


def _last(run: Path) -> str:
    return max((run / "checkpoints").glob("episode_*"), key=lambda folder: int(folder.name[8:])).name


def _without_times(run: Path) -> dict[int, dict[str, float]]:
    """Episode -> values of its log line, times left out."""
    return {line["step"]: of_run(line) for line in logged(run)}


def _saved(file: Path) -> dict:
    """A part of a checkpoint without times and without the best points: a shorter run has one evaluation more."""
    parts = torch.load(file, weights_only=True)
    for counters in ("progress", "first", "logged"):
        for name in ("seconds", "best"):
            parts.get(counters, {}).pop(name, None)
    return parts
