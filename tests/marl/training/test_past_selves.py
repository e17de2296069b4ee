"""The team against itself and its past selves: who is in the pool, who plays, and that a run goes on with them."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from helpers.training import TINY, here, logged, the_run

from arena.rules import DIRECTION, SNAKES
from marl.config.autoscale import resolve
from marl.config.train_config import read_config
from marl.errors import UserError
from marl.learners import factory
from marl.ranks.process_group import Solo
from marl.rollout.frozen_seats import PAST_SELVES
from marl.storage import checkpoint_writer, snapshot
from marl.storage.checkpoint_finder import episode_of, list_complete
from marl.storage.saved_player import load_player
from marl.storage.saver import Saver
from marl.training import past_selves
from marl.training.console import Quiet
from marl.training.metrics import Silent
from marl.training.past_selves import FOLDER, PastSelves, read_pool
from marl.training.trainer import Trainer
from opponents.players import find
from opponents.scheduler import LADDER

CPU = torch.device("cpu")
SEED = 17
RARE = 30.7  # chi-square, 3 degrees of freedom, that chance exceeds once in a million times
LEAGUE = ["--opponent_difficulty_strategy", "league"]


@pytest.fixture(autouse=True)
def seed_printed():
    print(f"seed {SEED}")


def a_trainer(folder: Path, *words: str, seed: int = SEED) -> Trainer:
    small = ["--matches", "16", "--body", "8", "--turns", "2", "--updates", "1", "--batch_size", "24"]
    small += ["--buffer_size", "2000", "--warmup_turns", "4", "--device", "cpu", "--seed", str(seed)]
    return Trainer(resolve(read_config([*small, *words]), CPU), Solo(CPU), folder, Silent(), Quiet())


def change(trainer: Trainer) -> dict[str, torch.Tensor]:
    """The team learns something; returns copies of its weights from then on."""
    actor = trainer.learner.actor
    with torch.no_grad():
        for parameter in actor.parameters():
            parameter.add_(1.0)
    return {name: tensor.clone() for name, tensor in actor.state_dict().items()}


def same(weights: dict[str, torch.Tensor], others: dict[str, torch.Tensor]) -> bool:
    return weights.keys() == others.keys() and all(
        torch.equal(tensor, others[name]) for name, tensor in weights.items()
    )


# --- the pool ---------------------------------------------------------------------------------------------------------


def test_who_joins_stays_as_it_was_while_the_team_learns_on(tmp_path) -> None:
    trainer = a_trainer(tmp_path, *LEAGUE)
    past, joined = trainer.past, {}
    for episode in (0, 100, 250):
        joined[f"past_{episode}"] = change(trainer)
        past.join(episode)
    past.join(250)  # twice is once
    change(trainer)
    past.write(tmp_path)
    assert trainer.scheduler.state_dict()["past_selves"] == list(joined)
    assert past.state_dict() == {"names": [""] * PAST_SELVES, "pool": list(joined), "chosen_at": []}
    read = read_pool(tmp_path, list(joined))
    assert all(same(read[name], weights) for name, weights in joined.items())
    player = snapshot.read(tmp_path / FOLDER / "past_100.safetensors", "past_100")
    assert same(dict(player.actor.state_dict()), joined["past_100"])
    assert player.encoder is trainer.encoder


def test_who_plays_stays_for_some_matches_and_the_team_joins_at_intervals(tmp_path) -> None:
    past = a_trainer(tmp_path, *LEAGUE).past
    assert past.renew(0, 0, 100), "at the start there must be somebody"
    assert set(past.names) == {"past_0"}
    assert not past.renew(past_selves.STAY - 1, 500, 100)
    assert past.renew(past_selves.STAY, 550, 100)
    assert past.renew(2 * past_selves.STAY, 599, 100), "others play, but nobody joins"
    assert past.state_dict()["pool"] == ["past_0", "past_550"]
    assert past.state_dict()["chosen_at"] == [2 * past_selves.STAY, 599]


def test_a_past_self_of_a_branch_that_was_left_is_written_over(tmp_path) -> None:
    trainer = a_trainer(tmp_path, *LEAGUE)
    change(trainer)
    trainer.past.join(16)
    trainer.past.write(tmp_path)
    again = a_trainer(tmp_path, *LEAGUE)
    weights = change(again)
    again.past.join(16)
    again.past.write(tmp_path)
    assert same(read_pool(tmp_path, ["past_16"])["past_16"], weights)


def test_a_full_pool_lets_the_one_go_that_is_beaten_most_surely(tmp_path) -> None:
    trainer = a_trainer(tmp_path, *LEAGUE, "--league_size", "2")
    past = trainer.past
    for episode, wins in ((0, 0), (1, 50), (2, 10)):
        change(trainer)
        past.join(episode)
        past.write(tmp_path)
        trainer.scheduler.record(f"past_{episode}", wins, 0, 60 - wins)
    assert past.state_dict()["pool"] == ["past_0", "past_2"]
    past.choose(5)
    assert set(past.names) <= {"past_0", "past_2"}
    files = sorted(file.name for file in (tmp_path / FOLDER).iterdir())
    assert files == [f"past_{episode}.safetensors" for episode in range(3)], "an older checkpoint may name the first"


def test_a_snapshot_that_is_gone_is_told_in_a_line(tmp_path) -> None:
    with pytest.raises(UserError, match=r"past_3\.safetensors: no such file$"):
        read_pool(tmp_path, ["past_3"])


# --- snapshots that no checkpoint needs any more ----------------------------------------------------------------------


def names_in(run: Path) -> list[str]:
    return sorted(file.stem for file in (run / FOLDER).iterdir())


def saved_with_pool(run: Path, episode: int, pool: list[str]) -> Path:
    """A checkpoint as training writes it, as far as past selves go."""
    state = {"past_selves": {"names": pool[:1], "pool": pool, "chosen_at": [0, 0]}, "learner": {"m": torch.ones(5)}}
    return checkpoint_writer.save(run, episode, {"actor.w": torch.ones(2)}, {"state": state}, {})


@pytest.fixture
def pruned(tmp_path) -> Path:
    """A run with the snapshots 0, 10, ... 60 and these pools: episode 20 has 0 and 20, 40 has 30 and 40."""
    (tmp_path / FOLDER).mkdir()
    for episode in range(0, 70, 10):
        (tmp_path / FOLDER / f"past_{episode}.safetensors").write_bytes(b"")
    saved_with_pool(tmp_path, 20, ["past_0", "past_20"])
    saved_with_pool(tmp_path, 40, ["past_30", "past_40"])
    return tmp_path


def test_a_snapshot_that_no_checkpoint_names_is_removed(pruned) -> None:
    past_selves.remove_unneeded(pruned, 40)
    assert names_in(pruned) == [f"past_{episode}" for episode in (0, 20, 30, 40, 50, 60)], "50 and 60 have joined since"
    saved_with_pool(pruned, 60, ["past_30", "past_60"])
    past_selves.remove_unneeded(pruned, 60)
    assert names_in(pruned) == [f"past_{episode}" for episode in (0, 20, 30, 40, 60)]


def test_all_snapshots_stay_if_a_checkpoint_cannot_be_read(pruned) -> None:
    before = names_in(pruned)
    (pruned / "checkpoints" / "episode_20" / "state.pt").write_bytes(b"no zip file")
    past_selves.remove_unneeded(pruned, 40)
    assert names_in(pruned) == before


def test_all_snapshots_stay_if_the_checkpoints_cannot_be_listed(pruned, monkeypatch) -> None:
    before = names_in(pruned)
    monkeypatch.setattr(past_selves, "list_all", lambda run: [])
    past_selves.remove_unneeded(pruned, 40)
    assert names_in(pruned) == before


def test_files_of_other_names_stay(pruned) -> None:
    for name in ("past_mine.safetensors", "champion.safetensors", "past_5.txt"):
        (pruned / FOLDER / name).write_bytes(b"")
    past_selves.remove_unneeded(pruned, 40)
    assert {"past_mine", "champion", "past_5"} <= set(names_in(pruned))


def test_a_run_without_past_selves_has_nothing_to_remove(tmp_path) -> None:
    saved_with_pool(tmp_path, 1, [])
    past_selves.remove_unneeded(tmp_path, 1)


@pytest.mark.parametrize("keep_last", [0, 1])
def test_snapshots_are_removed_only_when_checkpoints_are(keep_last, tmp_path) -> None:
    (tmp_path / FOLDER).mkdir()
    for episode in (0, 10, 20, 30):
        (tmp_path / FOLDER / f"past_{episode}.safetensors").write_bytes(b"")
    saver = Saver(keep_last, 0, past_selves.remove_unneeded)
    for episode, pool in ((10, ["past_0", "past_10"]), (20, ["past_10", "past_20"])):
        state = {"past_selves": {"pool": pool}}
        saver.save(tmp_path, episode, {"actor.w": torch.ones(2)}, {"state": state}, {}, best=False)
        saver.finish()
        if episode == 10:
            assert names_in(tmp_path) == ["past_0", "past_10", "past_20", "past_30"], "no checkpoint was removed"
    saver.close()
    left = (0, 10, 20, 30) if keep_last == 0 else (10, 20, 30)
    assert names_in(tmp_path) == [f"past_{episode}" for episode in left]


# --- who plays --------------------------------------------------------------------------------------------------------


def with_pool(folder: Path, seed: int = SEED) -> Trainer:
    """Four past selves, of which some are beaten more than others."""
    trainer = a_trainer(folder, *LEAGUE, seed=seed)
    for episode, wins in enumerate((0, 40, 80, 95)):
        change(trainer)
        trainer.past.join(episode)
        trainer.scheduler.record(f"past_{episode}", wins, 0, 100 - wins)
    return trainer


def test_hard_ones_play_more_often(tmp_path) -> None:
    """As often as the schedule's mix says, which leaves nobody out."""
    past = (trainer := with_pool(tmp_path)).past
    counts = Counter()
    for episode in range(500):
        past.choose(episode)
        counts.update(past.names)
    mix = {name: share for name, share in trainer.scheduler.mix(0).items() if name.startswith("past_")}
    total = sum(mix.values())
    expected = {name: 500 * PAST_SELVES * share / total for name, share in mix.items()}
    assert sum((counts[name] - count) ** 2 / count for name, count in expected.items()) < RARE, (counts, expected)
    assert counts["past_0"] > counts["past_1"] > counts["past_2"] > counts["past_3"] > 0


def test_who_plays_follows_from_seed_and_episode_alone(tmp_path) -> None:
    """So all ranks choose the same, and so does a run that goes on."""
    one, other = with_pool(tmp_path), with_pool(tmp_path, seed=SEED + 1)
    again = PastSelves(one.rollout, one.learner, one.learner._precision, one.scheduler, SEED)
    again._pool = one.past._pool
    chosen = []
    for episode in (900, 7, 350, 12, 44, 90):
        for past in (one.past, again, other.past):
            past.choose(episode)
        assert one.past.names == again.names
        chosen.append((one.past.names, other.past.names))
    assert any(mine != its for mine, its in chosen)


def test_who_is_chosen_plays_with_its_own_weights(tmp_path) -> None:
    trainer = with_pool(tmp_path)
    past = trainer.past
    for episode in range(5):
        past.choose(episode)
        for place, name in zip(past.places, past.names, strict=True):
            assert same(dict(place.actor.state_dict()), past._pool[name])
    assert len({id(place.actor) for place in past.places} | {id(trainer.learner.actor)}) == PAST_SELVES + 1


def test_only_matches_of_one_that_is_replaced_are_forgotten(tmp_path, monkeypatch) -> None:
    past, forgotten = with_pool(tmp_path).past, []
    monkeypatch.setattr(past._rollout, "forget", forgotten.append)
    for episode in range(20):
        before = list(past.names)
        forgotten.clear()
        past.choose(episode)
        assert forgotten == [place for place in range(PAST_SELVES) if past.names[place] != before[place]]


def test_a_pool_that_was_saved_goes_on_with_the_same_players(tmp_path) -> None:
    first, second = with_pool(tmp_path), a_trainer(tmp_path, *LEAGUE)
    first.past.write(tmp_path)
    first.past.choose(3)
    state = json.loads(json.dumps(first.past.state_dict()))
    second.scheduler.load_state_dict(first.scheduler.state_dict())
    second.past.load_state_dict(state, read_pool(tmp_path, state["pool"]))
    assert second.past.state_dict() == first.past.state_dict()
    for mine, its in zip(first.past.places, second.past.places, strict=True):
        assert same(dict(mine.actor.state_dict()), dict(its.actor.state_dict()))
    for past in (first.past, second.past):
        past.choose(4)
    assert first.past.names == second.past.names


# --- the team itself --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("both", [True, False])
def test_the_team_meets_itself_and_learns_on_one_side_or_both(both, tmp_path) -> None:
    trainer = a_trainer(tmp_path, "--self_play", "0.5", *([] if both else ["--no-learn_both_sides"]))
    rollout = trainer.rollout
    assert trainer.buffer.teams == rollout.assignment.teams == (24 if both else 16)
    assert (len(rollout.assignment.both), len(rollout.assignment.alone)) == ((8, 0) if both else (0, 8))
    assert len(trainer._places) == len(rollout.frozen_players) == (0 if both else 1)
    for place in trainer._places:
        assert place.actor is trainer.learner.actor, "the very network, whatever it learns"


def test_where_the_team_learns_on_one_side_the_other_plays_as_well(tmp_path) -> None:
    """Not a copy of the network: as soon as it has changed, the other side plays what it now thinks best."""
    trainer = a_trainer(tmp_path, "--self_play", "1", "--no-learn_both_sides", "--encoder", "features")
    rollout, head = trainer.rollout, trainer.learner.actor.tail.head
    rollout.start(trainer.learner.act)
    seats = rollout.self_play_seats.long()
    for best in (0, 3, 1):
        with torch.no_grad():
            head.weight.zero_()
            head.bias.copy_(1e4 * torch.eye(4)[best])
        directions = rollout.arena.state[:, DIRECTION : DIRECTION + SNAKES].flatten()[seats]
        rollout.play_turn(trainer.learner.act)
        legal = directions != best ^ 1
        assert legal.sum() >= 10
        assert (rollout.board_actions.flatten()[seats][legal] == best).all()


def test_what_players_remember_of_their_matches_goes_on(tmp_path) -> None:
    """Past selves, and the team itself where it does not learn: a network with a memory is in the middle of a match."""
    words = ["--algo", "ppo_lstm", "--lstm_size", "8", *LEAGUE, "--self_play", "0.25", "--no-learn_both_sides"]
    first, second = (a_trainer(tmp_path, *words) for _ in range(2))
    first.rollout.arena.start()
    for _ in range(4):
        first.rollout.play_turn(first.learner.act, first.learner.record_step)
    part = first._own_part()
    saved = SimpleNamespace(parts={"rank0": {}}, manifest={"world_size": 1}, part=lambda name: part)
    assert second._take_over_matches(saved)
    assert len(first._places) == PAST_SELVES + 1
    for mine, its in zip(first._places, second._places, strict=True):
        assert mine.memory.abs().sum() > 0
        assert torch.equal(mine.memory, its.memory)
    for trainer in (first, second):
        trainer.rollout.play_turn(trainer.learner.act, trainer.learner.record_step)
    for mine, its in zip(first._places, second._places, strict=True):
        assert torch.equal(mine.memory, its.memory)
    assert torch.equal(first.rollout.arena.state, second.rollout.arena.state)


# --- whole runs -------------------------------------------------------------------------------------------------------

# A past self every 4 episodes, of which two are kept; 8 episodes are one match of every slot. One or two places: less
# to play than with all of them.
RUN = [*TINY, *LEAGUE, "--self_play", "0.25", "--league_interval", "4", "--league_size", "2", "--run_name", "team"]
ALGOS = {
    "ddpg": (2, []),
    "ppo_lstm": (
        1,
        [
            *("--algo", "ppo_lstm", "--lstm_size", "8", "--messages"),
            *("--update_interval", "160", "--batch_size", "1000"),
            *(
                "--epochs",
                "1",
                "--lr_end",
                "1",
                "--entropy",
                "0.01",
                "--entropy_end",
                "0.01",
            ),  # else they follow the run's length
        ],
    ),
}
PART, WHOLE = 8, 12


@pytest.fixture(scope="module", params=ALGOS)
def runs(request, tmp_path_factory) -> Iterator[tuple[Path, Path]]:
    """One run of so many episodes, and one of fewer that was gone on with."""
    places, words = ALGOS[request.param]
    folders = [tmp_path_factory.mktemp(name) for name in ("whole", "parts")]
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(factory, "PAST_SELVES", places)
        patch.setattr(past_selves, "STAY", 0)  # others play after every log line
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
    monkeypatch.setattr(factory, "PLACES", 1)
    monkeypatch.setattr(past_selves, "STAY", 0)
    train(*RUN, "--runs_dir", tmp_path, "--max_episodes", "40", "--keep_last", "1")
    run = the_run(tmp_path)
    for episodes in (None, "44"):
        if episodes:
            train("train", "--resume", run, "--max_episodes", episodes)
        folders = list_complete(run)
        pools = [_saved(folder / "state.pt")["past_selves"]["pool"] for folder in folders]
        needed = {name for pool in pools for name in pool}
        assert all(len(read_pool(run, pool)) == 2 for pool in pools)
        joined_since = {f"past_{episode}" for episode in range(episode_of(folders[0]), 45)}
        assert needed <= set(names_in(run)) <= needed | joined_since


def test_a_run_that_began_with_another_ones_team_can_go_on(tmp_path) -> None:
    """Its first checkpoint names past selves of the other run: they must be in its own folder by then."""
    other = [*RUN, "--runs_dir", tmp_path]
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
    names = {file.stem for file in (run / FOLDER).iterdir()}
    state = _saved(run / "checkpoints" / _last(run) / "state.pt")
    assert len(state["past_selves"]["pool"]) == 2, "as many as are kept"
    assert state["schedule"]["past_selves"] == state["past_selves"]["pool"]
    assert set(state["past_selves"]["names"]) <= set(state["past_selves"]["pool"]) < names
    assert len(names) >= 4
    assert find(str(run / FOLDER / "past_0.safetensors"), load_player).encoder.name == "features"


def test_a_league_that_goes_on_is_the_run_that_never_stopped(runs) -> None:
    """To the bit: what was logged, the pool, who plays, all matches, the learner."""
    whole, parts = runs
    assert _without_times(whole) == _without_times(parts)
    assert _last(whole) == _last(parts)
    folders = [run / "checkpoints" / _last(run) for run in runs]
    mine, its = ({file.name for file in folder.iterdir()} for folder in folders)
    assert mine == its
    for name in mine:
        if name.endswith(".pt"):
            _assert_equal(*(_saved(folder / name) for folder in folders), name)
    weights = [(folder / "weights.safetensors").read_bytes() for folder in folders]
    assert weights[0] == weights[1]
    files = [{file.name: file.read_bytes() for file in (run / FOLDER).iterdir()} for run in runs]
    assert files[0] == files[1]


def _last(run: Path) -> str:
    return max((run / "checkpoints").glob("episode_*"), key=lambda folder: int(folder.name[8:])).name


def _without_times(run: Path) -> dict[int, dict[str, float]]:
    """Episode -> what was logged in training."""
    return {line["step"]: {name: v for name, v in line.items() if not name.startswith("time")} for line in logged(run)}


def _saved(file: Path) -> dict:
    """Without times, and without what was best: a shorter run has one evaluation more, at its end."""
    parts = torch.load(file, weights_only=True)
    for counters in ("progress", "first", "logged"):
        for name in ("seconds", "best"):
            parts.get(counters, {}).pop(name, None)
    return parts


def _assert_equal(found, expected, where: str) -> None:
    if isinstance(expected, dict):
        assert found.keys() == expected.keys(), where
        for key in expected:
            _assert_equal(found[key], expected[key], f"{where}/{key}")
    elif isinstance(expected, list | tuple):
        assert len(found) == len(expected), where
        for i, each in enumerate(expected):
            _assert_equal(found[i], each, f"{where}/{i}")
    elif isinstance(expected, torch.Tensor):
        assert torch.equal(found, expected), where
    else:
        assert found == expected, where
