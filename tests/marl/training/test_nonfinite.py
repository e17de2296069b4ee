"""Numbers that are not finite, in training: their updates are skipped by all ranks, and many of them end the run."""

import re
import shlex

import pytest
import torch
from helpers.resumed import in_order, saved
from helpers.training import RANKS, as_ranks, assert_goes_on, logged, the_run

from marl.training.training_state import SKIPS_IN_A_ROW


@pytest.fixture(scope="module")
def spoilt(tmp_path_factory):
    folder = tmp_path_factory.mktemp("spoilt")
    words = [*RANKS, "--updates", "4", "--run_name", "team", "--runs_dir"]
    trainings = {
        "few": ["@1:nan:9-11", *words, str(folder / "few")],
        "many": ["@1:nan:9-999", *words, str(folder / "many")],
        "steps": ["@0:nan:9-999", *words, str(folder / "steps"), "--sync_freq", "2"],
        "alone": ["@1", "@0:nan:9-11", *words, str(folder / "alone")],
    }
    return folder, as_ranks(folder, *({name: words} for name, words in trainings.items()))


@pytest.mark.parametrize("name", ["few", "alone"])
def test_batches_that_are_not_finite_on_one_rank_are_skipped_by_all_ranks(spoilt, name) -> None:
    folder, done = spoilt
    told = in_order(done, name)  # with all parameters compared after every update
    assert "3 updates were skipped: their gradients were not finite\n" in told
    run = the_run(folder / name)
    lines = logged(run)
    updates = [0, *(line["train/updates"] for line in lines)]
    skipped = [line["updates/skipped"] * (b - a) for line, a, b in zip(lines, updates, updates[1:], strict=False)]
    assert skipped == pytest.approx([3, 0, 0, 0])
    state = saved(run, 16)["state"]
    steps = state["learner"]["critic_optimizer"]["optimizer"]["state"][0]["step"].item()
    assert steps == state["progress"]["updates"] - 3
    assert not (run / "not_finite.pt").exists()
    assert_goes_on(run, 16)


@pytest.mark.parametrize(("name", "rank"), [("many", 1), ("steps", 0)])
def test_many_in_a_row_stop_all_ranks_and_leave_the_batch(spoilt, name, rank) -> None:
    folder, done = spoilt
    run = the_run(folder / name)
    assert [code for code, _, _ in done[name]] == [4, 4]  # EXIT_TOGETHER
    assert done[name][1][2] == ""
    where = re.escape(shlex.quote(str(run)))
    said = rf"snakes: the gradient of (\d+) updates in a row \(last batch: not_finite.pt\) .*--resume {where} .*\n"
    found = re.fullmatch(said, done[name][0][2])
    assert int(found[1]) >= SKIPS_IN_A_ROW
    batches = torch.load(run / "not_finite.pt", weights_only=True)
    assert [bool(batches[each]["returns"].isnan().any()) for each in (0, 1)] == [rank == 0, rank == 1]
    assert batches[rank].keys() >= {"obs", "actions", "returns", "discounts", "next_obs"}
