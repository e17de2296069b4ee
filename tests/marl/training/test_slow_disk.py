"""A disk that is slower than the interval between checkpoints: training does not wait for it."""

import re

import pytest
from helpers.training import TINY, as_ranks, assert_goes_on, manifest, the_run

# Rank 0 writes four files of a checkpoint, rank 1 two: a checkpoint takes longer than the time limit of collectives.
SLOW = {"rank 0": "@0:disk:1.5", "rank 1": "@1:disk:3"}


@pytest.fixture(scope="module")
def slow(tmp_path_factory):
    """The folder of the runs, and the output of each."""
    folder = tmp_path_factory.mktemp("slow")
    words = [*TINY, "--matches", "4", "--save_interval", "4", "--keep_last", "0", "--timeout", "3"]
    words += ["--run_name", "team", "--eval_interval", "0", "--runs_dir"]
    return folder, as_ranks(folder, *({name: [fault, *words, str(folder / name)]} for name, fault in SLOW.items()))


@pytest.mark.parametrize("name", SLOW)
def test_checkpoints_are_left_out_but_not_the_last_one(name, slow) -> None:
    folder, done = slow[0], slow[1][name]
    assert [(code, err) for code, _, err in done] == [(0, ""), (0, "")]
    told = done[0][1]
    left_out = re.findall(r"no checkpoint at episode (\d+): the last one is still being written\n", told)
    assert left_out == ["8", "12"]
    found = re.search(r"checkpoints +3 \(2 skipped: the disk was busy\); training waited ([\d.]+) s for them", told)
    assert float(found[1]) < 1
    run = the_run(folder / name)
    there = sorted(int(path.name.removeprefix("episode_")) for path in (run / "checkpoints").glob("episode_*"))
    assert there == [4, 16]
    assert set(manifest(run, 16)["files"]) == {"weights.safetensors", "state.pt", "rank0.pt", "rank1.pt"}
    assert (run / "checkpoints" / "best").read_text() == "episode_16\n"
    assert_goes_on(run, 16)
