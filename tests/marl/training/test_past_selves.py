"""Past selves and self-play: the pool, its snapshots, the players drawn from it, and the team against itself."""

import json
from collections import Counter
from pathlib import Path
from unittest.mock import patch

import pytest
import torch
from helpers.training import names_in
from helpers.training_states import LEAGUE, SEED, small_state

from arena.rules import DIRECTION, SNAKES
from marl.errors import UserError
from marl.rollout.frozen_seats import PAST_SELVES
from marl.storage import checkpoint, checkpoint_writer, snapshot
from marl.storage.checkpoint_finder import list_all
from marl.storage.saver import Saver
from marl.training import past_selves
from marl.training.checkpointing import manifest_fields
from marl.training.past_selves import FOLDER, PastSelves, read_pool
from marl.training.training_state import TrainingState

RARE = 30.7  # chi-square, 3 degrees of freedom, that chance exceeds once in a million times


@pytest.fixture(autouse=True)
def seed_printed():
    print(f"seed {SEED}")


def change(team: TrainingState) -> dict[str, torch.Tensor]:
    """The team learns something; returns copies of its weights from then on."""
    actor = team.learner.actor
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
    team = small_state(*LEAGUE)
    past, joined = team.past_selves, {}
    for episode in (0, 100, 250):
        joined[f"past_{episode}"] = change(team)
        past.join(episode)
    past.join(250)  # twice is once
    change(team)
    past.write(tmp_path)
    assert team.scheduler.state_dict()["past_selves"] == list(joined)
    assert past.state_dict() == {"names": [""] * PAST_SELVES, "pool": list(joined), "chosen_at": []}
    read = read_pool(tmp_path, list(joined))
    assert all(same(read[name], weights) for name, weights in joined.items())
    player = snapshot.read(tmp_path / FOLDER / "past_100.safetensors", "past_100")
    assert same(dict(player.actor.state_dict()), joined["past_100"])
    assert player.encoder is team.encoder


def test_who_plays_stays_for_some_matches_and_the_team_joins_at_intervals() -> None:
    past = small_state(*LEAGUE).past_selves
    assert past.renew(0, 0, 100), "at the start there must be somebody"
    assert set(past.names) == {"past_0"}
    assert not past.renew(past_selves.STAY - 1, 500, 100)
    assert past.renew(past_selves.STAY, 550, 100)
    assert past.renew(2 * past_selves.STAY, 599, 100), "others play, but nobody joins"
    assert past.state_dict()["pool"] == ["past_0", "past_550"]
    assert past.state_dict()["chosen_at"] == [2 * past_selves.STAY, 599]


def test_a_past_self_of_a_branch_that_was_left_is_written_over(tmp_path) -> None:
    team = small_state(*LEAGUE)
    change(team)
    team.past_selves.join(16)
    team.past_selves.write(tmp_path)
    again = small_state(*LEAGUE)
    weights = change(again)
    again.past_selves.join(16)
    again.past_selves.write(tmp_path)
    assert same(read_pool(tmp_path, ["past_16"])["past_16"], weights)


def test_a_full_pool_lets_the_one_go_that_is_beaten_most_surely(tmp_path) -> None:
    team = small_state(*LEAGUE, "--league_size", "2")
    past = team.past_selves
    for episode, wins in ((0, 0), (1, 50), (2, 10)):
        change(team)
        past.join(episode)
        past.write(tmp_path)
        team.scheduler.record(f"past_{episode}", wins, 0, 60 - wins)
    assert past.state_dict()["pool"] == ["past_0", "past_2"]
    past.choose(5)
    assert set(past.names) <= {"past_0", "past_2"}
    files = sorted(file.name for file in (tmp_path / FOLDER).iterdir())
    assert files == [f"past_{episode}.safetensors" for episode in range(3)], "an older checkpoint may name the first"


def test_a_snapshot_that_is_gone_is_told_in_a_line(tmp_path) -> None:
    with pytest.raises(UserError, match=r"past_3\.safetensors: no such file$"):
        read_pool(tmp_path, ["past_3"])


# --- snapshots that no checkpoint needs any more ----------------------------------------------------------------------


def saved_with_pool(run: Path, episode: int, pool: list[str], **about: bool | list[str]) -> Path:
    """A checkpoint as training has written it, as far as past selves go; earlier versions named no pool in `about`."""
    state = {"past_selves": {"names": pool[:1], "pool": pool, "chosen_at": [0, 0]}, "learner": {"m": torch.ones(5)}}
    return checkpoint_writer.save(run, episode, {"actor.w": torch.ones(2)}, {"state": state}, about)


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


def test_the_manifest_of_a_checkpoint_names_its_pool(pruned, monkeypatch) -> None:
    state = small_state(*LEAGUE)
    state.past_selves.join(20)
    assert manifest_fields(state)[past_selves.POOL] == ["past_20"]
    for episode in (20, 40):
        saved_with_pool(pruned, episode, [], **{past_selves.POOL: ["past_30"]})
    monkeypatch.delattr(past_selves, "read_part")
    past_selves.remove_unneeded(pruned, 40)
    assert names_in(pruned) == ["past_30", "past_40", "past_50", "past_60"]


def test_a_save_costs_no_more_the_more_milestones_there_are(tmp_path) -> None:
    (tmp_path / FOLDER).mkdir()
    saver, costs = Saver(1, past_selves.remove_unneeded), []
    saver.start = saver.prepare(tmp_path)
    for episode in range(1, 9):
        verified = patch.object(checkpoint, "manifest_sha256", wraps=checkpoint.manifest_sha256)
        with verified as manifests, patch.object(torch, "load", wraps=torch.load) as parts:
            about = {"milestone": episode % 2 == 0}
            saver.save(tmp_path, episode, {"actor.w": torch.ones(2)}, {"state": {}}, about, best=False)
            saver.finish()
        costs.append((manifests.call_count, parts.call_count))
    saver.close()
    assert len(list_all(tmp_path)) == 4
    assert costs[3::2] == costs[3:4] * 3, "manifests that are verified and parts that are read"
    assert costs[2::2] == costs[2:3] * 3


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
    saver = Saver(keep_last, past_selves.remove_unneeded)
    saver.start = saver.prepare(tmp_path)
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


def with_pool(seed: int = SEED) -> TrainingState:
    """Four past selves, of which some are beaten more than others."""
    team = small_state(*LEAGUE, seed=seed)
    for episode, wins in enumerate((0, 40, 80, 95)):
        change(team)
        team.past_selves.join(episode)
        team.scheduler.record(f"past_{episode}", wins, 0, 100 - wins)
    return team


def test_hard_ones_play_more_often() -> None:
    """As often as the schedule's mix says, which leaves nobody out."""
    past = (team := with_pool()).past_selves
    counts = Counter()
    for episode in range(500):
        past.choose(episode)
        counts.update(past.names)
    mix = {name: share for name, share in team.scheduler.mix(0).items() if name.startswith("past_")}
    total = sum(mix.values())
    expected = {name: 500 * PAST_SELVES * share / total for name, share in mix.items()}
    assert sum((counts[name] - count) ** 2 / count for name, count in expected.items()) < RARE, (counts, expected)
    assert counts["past_0"] > counts["past_1"] > counts["past_2"] > counts["past_3"] > 0


def test_who_plays_follows_from_seed_and_episode_alone() -> None:
    """So all ranks choose the same, and so does a run that goes on."""
    one, other = with_pool(), with_pool(SEED + 1)
    again = PastSelves(one.rollout, one.learner, one.learner.precision, one.scheduler, SEED)
    pool = one.past_selves.state_dict()
    again.load_state_dict(pool, one.past_selves._pool)
    chosen = []
    for episode in (900, 7, 350, 12, 44, 90):
        for past in (one.past_selves, again, other.past_selves):
            past.choose(episode)
        assert one.past_selves.names == again.names
        chosen.append((one.past_selves.names, other.past_selves.names))
    assert any(mine != its for mine, its in chosen)


def test_who_is_chosen_plays_with_its_own_weights() -> None:
    team = with_pool()
    past = team.past_selves
    for episode in range(5):
        past.choose(episode)
        for frozen, name in zip(past.frozen, past.names, strict=True):
            assert same(dict(frozen.actor.state_dict()), past._pool[name])
    assert len({id(frozen.actor) for frozen in past.frozen} | {id(team.learner.actor)}) == PAST_SELVES + 1


def test_only_matches_of_a_replaced_past_self_are_voided(monkeypatch) -> None:
    past, voided = with_pool().past_selves, []
    monkeypatch.setattr(past._rollout, "void_matches", voided.append)
    for episode in range(20):
        before = list(past.names)
        voided.clear()
        past.choose(episode)
        assert voided == [i for i in range(PAST_SELVES) if past.names[i] != before[i]]


def test_a_pool_that_was_saved_goes_on_with_the_same_players(tmp_path) -> None:
    first, second = with_pool(), small_state(*LEAGUE)
    first.past_selves.write(tmp_path)
    first.past_selves.choose(3)
    state = json.loads(json.dumps(first.past_selves.state_dict()))
    second.scheduler.load_state_dict(first.scheduler.state_dict())
    second.past_selves.load_state_dict(state, read_pool(tmp_path, state["pool"]))
    assert second.past_selves.state_dict() == first.past_selves.state_dict()
    for mine, its in zip(first.past_selves.frozen, second.past_selves.frozen, strict=True):
        assert same(dict(mine.actor.state_dict()), dict(its.actor.state_dict()))
    for past in (first.past_selves, second.past_selves):
        past.choose(4)
    assert first.past_selves.names == second.past_selves.names


# --- the team itself --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("both", [True, False])
def test_the_team_meets_itself_and_learns_on_one_side_or_both(both) -> None:
    team = small_state("--self_play", "0.5", *([] if both else ["--no-learn_both_sides"]))
    assignment = team.rollout.assignment
    assert team.buffer.teams == assignment.teams == (24 if both else 16)
    assert (len(assignment.self_play_both), len(assignment.self_play_one)) == ((8, 0) if both else (0, 8))
    assert len(team.frozen_seats) == len(team.rollout.frozen_players) == (0 if both else 1)
    for frozen in team.frozen_seats:
        assert frozen.actor is team.learner.actor, "the very network, whatever it learns"


def test_where_the_team_learns_on_one_side_the_other_plays_as_well() -> None:
    """Not a copy of the network: as soon as it has changed, the other side plays what it now thinks best."""
    team = small_state("--self_play", "1", "--no-learn_both_sides", "--encoder", "features")
    rollout, head = team.rollout, team.learner.actor.tail.head
    rollout.start(team.learner.act)
    seats = rollout.self_play_seats.long()
    for best in (0, 3, 1):
        with torch.no_grad():
            head.weight.zero_()
            head.bias.copy_(1e4 * torch.eye(4)[best])
        directions = rollout.arena.state[:, DIRECTION : DIRECTION + SNAKES].flatten()[seats]
        rollout.play_turn(team.learner.act)
        legal = directions != best ^ 1
        assert legal.sum() >= 10
        assert (rollout.board_actions.flatten()[seats][legal] == best).all()
