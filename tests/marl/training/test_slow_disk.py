"""A disk that is slower than the interval between checkpoints: training does not wait for it."""

import re

import pytest
from helpers.training import TINY, as_ranks, assert_goes_on, manifest, the_run


# Rank 0 writes four files of a checkpoint, rank 1 two: a checkpoint takes longer than the time limit of collectives.
@pytest.mark.parametrize(("rank", "seconds"), [(0, 1.5), (1, 3)])
def test_checkpoints_are_left_out_but_not_the_last_one(rank, seconds, tmp_path) -> None:
    words = [*TINY, "--matches", "4", "--save_interval", "4", "--keep_last", "0", "--timeout", "3"]
    words += ["--runs_dir", str(tmp_path / "runs"), "--run_name", "team", "--eval_interval", "0"]
    done = as_ranks(tmp_path, {"slow": [f"@{rank}:disk:{seconds}", *words]})["slow"]
    assert [(code, err) for code, _, err in done] == [(0, ""), (0, "")]
    told = done[0][1]
    left_out = re.findall(r"no checkpoint at episode (\d+): the last one is still being written\n", told)
    assert left_out == ["8", "12"]
    found = re.search(r"checkpoints +3 \(2 skipped: the disk was busy\); training waited ([\d.]+) s for them", told)
    assert float(found[1]) < 1
    run = the_run(tmp_path / "runs")
    there = sorted(int(path.name.removeprefix("episode_")) for path in (run / "checkpoints").glob("episode_*"))
    assert there == [4, 16]
    assert set(manifest(run, 16)["files"]) == {"weights.safetensors", "state.pt", "rank0.pt", "rank1.pt"}
    assert (run / "checkpoints" / "best").read_text() == "episode_16\n"
    assert_goes_on(run, 16)
