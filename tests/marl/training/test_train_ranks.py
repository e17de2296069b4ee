"""`snakes train` in two real gloo ranks: by its own launcher, by torchrun, and forked with torchrun's environment."""

import json
import os
import re
import shlex
import shutil
import signal
from pathlib import Path

import pytest
import torch
from helpers.forking import Forked, torchrun
from helpers.processes import wait_until
from helpers.training import (
    SMOKE,
    TINY,
    as_ranks,
    assert_goes_on,
    compile_training,
    files_of,
    finish,
    forked,
    here,
    logged,
    manifest,
    needs_proc,
    ranks_of,
    started,
    the_run,
    tiny_disk,
    wait_for,
    without_ranks,
)
from safetensors.torch import load_file

from marl.ranks.exits import EXIT_LOST_RANK, EXIT_TOGETHER, GO_ON

RANKS = [*TINY, "--matches", "4"]  # two ranks x 4 are the matches of TINY
SYNC = ["--check_sync", "1"]
TORCHRUN = ["--standalone", "--nproc_per_node", "2", "-m", "marl"]
ENDLESS = ["--max_episodes", "1000000", "--max_minutes", "2", "--timeout", "4"]
HASTY = "0:patience:1 1:patience:1"


# --- by the launchers


@pytest.fixture(scope="module")
def launched(tmp_path_factory):
    """A finished training of two ranks by `--distributed`, all parameters compared after every update."""
    runs = tmp_path_factory.mktemp("launched")
    compile_training(tmp_path_factory.mktemp("compiled"))
    command = ["-m", "marl", *RANKS, "--distributed", "--runs_dir", runs, *SYNC]
    with started(command, NPROC="2") as process:
        done = finish(process)
    assert done.returncode == 0, done.stderr
    return the_run(runs), done


def test_two_ranks_make_one_run(launched) -> None:
    run, done = launched
    # In a fresh checkout this may be the first to compile, which is announced.
    assert [line for line in done.stderr.splitlines() if not line.startswith("snakes: compiling ")] == []
    assert re.fullmatch(r"run1_\d{8}_\d{6}", run.name)
    assert {"config.yaml", "run.json", "metrics.jsonl", "checkpoints", "best_match.jsonl"} <= {
        path.name for path in run.iterdir()
    }
    assert len(list(run.glob("*tfevents*"))) == 1
    assert json.loads((run / "run.json").read_text())["world_size"] == 2
    assert manifest(run, 16)["world_size"] == 2
    assert not [key for key in load_file(run / "checkpoints/episode_16/weights.safetensors") if "module." in key]
    assert done.stdout.count(f"run             {run}\n") == 1  # rank 0 alone prints
    assert "ranks           2 over shared memory\n" in done.stdout
    assert "4 per rank, 8 in all" in done.stdout
    assert "96 x 2 ranks = 192 snake transitions" in done.stdout
    assert done.stdout.count("| ranks 2") == 4
    assert_goes_on(run, 16)
    assert logged(run)[-1]["train/env_steps"] == pytest.approx(200 * 16, abs=20 * 8)  # those of both ranks


def test_speed_waiting_and_memory_of_each_rank(launched) -> None:
    run, done = launched
    for line in logged(run):
        for gauge in ("env_steps_per_second", "waited_percent", "memory_mib"):
            least, mean, most = (line[f"ranks/{gauge}_{which}"] for which in ("min", "mean", "max"))
            assert 0 < least <= mean <= most, gauge
            assert mean == pytest.approx((least + most) / 2), gauge
        assert line["ranks/waited_percent_max"] <= 100
        assert line["ranks/slowest"] in (0, 1)
    table = done.stdout[done.stdout.index("\nranks\n") :].splitlines()[2:6]
    assert [line.split("  ")[1] for line in table] == [
        "each rank", "env steps/s while playing", "waited for others", "memory",
    ]  # fmt: skip
    assert re.fullmatch(r"  env steps/s while playing( +[\d,]+)( +[\d,]+  rank \d){2}", table[1])
    assert re.fullmatch(r"  waited for others( +[\d.]+ %)( +[\d.]+ %  rank \d){2}", table[2])


def test_two_ranks_then_one_then_two_by_torchrun(launched, tmp_path) -> None:
    run = shutil.copytree(launched[0], tmp_path / "run")
    alone = here("train", "--resume", run, "--max_episodes", "24", "--matches", "8")
    assert alone.returncode == 0, alone.stderr
    resuming = ["train", "--resume", str(run), "--max_episodes", "32", "--matches", "4", *SYNC]
    done = finish(Forked(torchrun, *TORCHRUN, *resuming, environment=without_ranks()))
    assert done.returncode == 0, done.stderr
    assert "ranks           2 over shared memory\n" in done.stdout
    assert [manifest(run, episode)["world_size"] for episode in (16, 24, 32)] == [2, 1, 2]
    assert_goes_on(run, 32)
    assert [start["world_size"] for start in json.loads((run / "run.json").read_text())["earlier"]] == [2, 1]
    assert done.stdout.count(f"resumed from    {run / 'checkpoints' / 'episode_24'} ") == 1


@needs_proc
def test_a_killed_rank_is_named(tmp_path) -> None:
    with forked([*RANKS, "--distributed", "--runs_dir", tmp_path, *ENDLESS], NPROC="2", PLANTED=HASTY) as process:
        wait_for(process, "episode 12/")
        wait_until((the_run(tmp_path) / "checkpoints" / "last").exists, 60, "the checkpoint of episode 8 is written")
        os.kill(ranks_of(process.pid)[1], signal.SIGKILL)
        done = finish(process)
    assert done.returncode == 128 + signal.SIGKILL
    assert done.stderr == f"snakes: rank 1 was killed by SIGKILL (out of memory?); {GO_ON}\n"
    run = the_run(tmp_path)
    episode = int(last(run).removeprefix("episode_"))
    assert episode >= 8
    again = here("train", "--resume", run, "--matches", "8", "--max_episodes", str(episode + 4))
    assert again.returncode == 0, again.stderr
    assert_goes_on(run, logged(run)[-1]["step"])


@needs_proc
def test_a_rank_that_hangs_is_named_within_the_timeout(tmp_path) -> None:
    with forked([*RANKS, "--distributed", "--runs_dir", tmp_path, *ENDLESS], NPROC="2", PLANTED=HASTY) as process:
        wait_for(process, "episode 4/")
        stopped = ranks_of(process.pid)[1]
        os.kill(stopped, signal.SIGSTOP)
        line = process.stderr.readline()
        os.kill(stopped, signal.SIGKILL)  # torch would give it half a minute
        done = finish(process)
    assert line.startswith("snakes: rank 1 of 2 stopped answering during ")
    assert line.endswith(f"; {GO_ON}\n")
    assert (done.returncode, done.stderr) == (EXIT_LOST_RANK, "")


def test_term_to_the_launcher_saves_once_and_goes_on(tmp_path) -> None:
    with forked([*RANKS, "--distributed", "--runs_dir", tmp_path, *ENDLESS], NPROC="2") as process:
        wait_for(process, "episode ")
        process.terminate()
        done = finish(process)
    assert done.returncode == 128 + signal.SIGTERM
    assert done.stderr == "snakes: stopped by SIGTERM\n"
    run = the_run(tmp_path)
    assert done.stdout.count("stopped by a signal at episode") == 1
    assert done.stdout.endswith(f" -m marl {shlex.join(('train', '--resume', str(run)))}\n")
    last = (run / "checkpoints" / "last").read_text().strip()
    assert f"at episode {int(last.removeprefix('episode_')):,};" in done.stdout


# --- with the environment of torchrun, many in one process


@pytest.fixture(scope="module")
def results(launched, tmp_path_factory):
    """Folder of each training, then (exit code, stdout, stderr) of its ranks."""
    folder = tmp_path_factory.mktemp("ranks")
    damaged = shutil.copytree(launched[0], folder / "damaged" / "run")
    for file in damaged.glob("checkpoints/episode_*/state.pt"):
        file.write_bytes(b"")
    (folder / "file").write_text("")
    still = ["--a_lr", "0", "--c_lr", "0"]
    joined = ["--critic_form", "joined", "--critic", "team", "--twin"]
    every = ["--updates", "4", "--max_episodes", "8"]
    trainings = {
        "still": [*RANKS, *still, *SYNC],
        "sync1": [*RANKS, *every, *SYNC],
        "sync4": [*RANKS, *every, *SYNC, "--sync_freq", "4"],
        "ending": [*RANKS, *SYNC, "--lr_end", "0", "--max_episodes", "1000000", "--max_minutes", "0.002"],
        "joined": [*RANKS, *SYNC, "--max_episodes", "8", *joined, "--lr_scaling", "sqrt", "--lr_warmup", "5"],
        "beyond fp32": [*RANKS, "--c_lr", "1e30", "--updates", "10"],  # products of weights
        "finished": ["train", "--resume", str(launched[0])],
        "damaged": ["train", "--resume", str(damaged), "--max_episodes", "32"],
        "no folder": [*RANKS, "--runs_dir", str(folder / "file" / "runs")],
        "no buffer": [*RANKS, "--buffer_size", "10"],
        "no backend": [*RANKS, "--backend", "nccl"],
        "no network": ["train", "--resume", str(launched[0]), "--max_episodes", "32", "--body", "8"],
        "no flag": [*RANKS, "--speed", "9"],
    }
    for name, words in trainings.items():
        if "--runs_dir" not in words:
            words += ["--runs_dir", str(folder / name)]
    before = files_of(launched[0])
    done = as_ranks(folder, *({name: words} for name, words in trainings.items()))
    assert files_of(launched[0]) == before
    return folder, done


@pytest.mark.parametrize("name", ["still", "sync1", "sync4", "ending", "joined"])
def test_ranks_hold_the_same_parameters_after_every_update(results, name) -> None:
    folder, done = results
    for code, _, err in done[name]:
        assert code == 0, err
        assert err == ""
    assert done[name][1][1].splitlines() == done[name][0][1].splitlines()[-1:]  # the count of exchanges, nothing else
    run = the_run(folder / name)
    assert all(t.isfinite().all() for t in load_file(run / "checkpoints" / last(run) / "weights.safetensors").values())


def last(run: Path) -> str:
    return (run / "checkpoints" / "last").read_text().strip()


def test_two_ranks_play_the_matches_of_one_with_twice_as_many(results, tmp_path) -> None:
    alone = here(*TINY, "--runs_dir", tmp_path, "--a_lr", "0", "--c_lr", "0")
    assert alone.returncode == 0, alone.stderr
    mine, theirs = logged(the_run(tmp_path)), logged(the_run(results[0] / "still"))
    assert [line["step"] for line in mine] == [line["step"] for line in theirs] == [4, 8, 12, 16]
    for one, two in zip(mine, theirs, strict=True):
        played = [name for name in one if name.startswith(("win_rate/", "reward/", "train/"))]
        assert played == [name for name in two if name.startswith(("win_rate/", "reward/", "train/"))]
        for name in played:
            assert one[name] == pytest.approx(two[name], rel=1e-5, abs=1e-6), name


AUTOMATIC = [
    "train", "--config", SMOKE, "--device", "cpu", "--matches", "auto", "--batch_size", "auto", "--buffer_size", "auto",
    "--eval_matches", "1", "--eval_opponents", "level0", "--max_episodes", "128", "--log_interval", "64",
    "--save_interval", "1000", "--turns", "50", "--updates", "1",
]  # fmt: skip


def test_two_ranks_share_the_automatic_sizes_of_one(tmp_path) -> None:
    alone = here(*AUTOMATIC, "--runs_dir", tmp_path / "1")
    assert alone.returncode == 0, alone.stderr
    (code, out, err), _ = as_ranks(tmp_path, {"2": [*AUTOMATIC, "--runs_dir", str(tmp_path / "2")]})["2"]
    assert code == 0, err
    assert "matches         256\n" in alone.stdout
    assert "matches         128 per rank, 256 in all\n" in out
    assert "504 x 2 ranks = 1,008 snake transitions" in out
    assert re.search(r"buffer +499,\d+ transitions, .* per rank, 99\d,\d+ transitions in all\n", out)
    one, two = (logged(the_run(tmp_path / ranks)) for ranks in "12")
    for name in ("step", "train/env_steps", "train/updates"):
        assert [line[name] for line in one] == [line[name] for line in two], name
    assert one[-1]["train/updates"] > 0

    # The run is resumed in one process: its sizes are those of the whole run again, but for a size that is given.
    run = the_run(tmp_path / "2")
    assert json.loads((run / "run.json").read_text())["whole_run"] == {
        "matches": 256, "ddpg.batch_size": 1024, "ddpg.buffer_size": 1_000_000,
    }  # fmt: skip
    again = here("train", "--resume", run, "--max_episodes", "129", "--batch_size", "96")
    assert again.returncode == 0, again.stderr
    assert "matches         256\n" in again.stdout
    assert "batch           96 snake transitions" in again.stdout
    assert json.loads((run / "run.json").read_text())["whole_run"] == {"matches": 256, "ddpg.buffer_size": 1_000_000}


def test_sync_freq_4_exchanges_a_quarter_as_often(results) -> None:
    folder, done = results
    counts = {
        name: [int(out.splitlines()[-1].removeprefix("exchanges ")) for _, out, _ in done[name]]
        for name in ("sync1", "sync4")
    }
    assert counts["sync1"] == [4 * count for count in counts["sync4"]]
    assert min(counts["sync4"]) > 0
    steps, updates = {}, {}
    for name in counts:
        run = the_run(folder / name)
        state = torch.load(run / "checkpoints" / last(run) / "state.pt", weights_only=True)
        steps[name] = state["learner"]["critic_optimizer"]["optimizer"]["state"][0]["step"].item()
        updates[name] = state["progress"]["updates"]
    assert updates["sync1"] == updates["sync4"]
    assert steps["sync1"] == updates["sync1"] == 4 * steps["sync4"]
    assert "96 x 2 ranks x sync_freq 4 = 768 snake transitions" in done["sync4"][0][1]


def test_numbers_that_are_not_finite_end_all_ranks_together(results) -> None:
    _, done = results
    assert [code for code, _, _ in done["beyond fp32"]] == [EXIT_TOGETHER] * 2
    said = r"snakes: the gradient of \d+ updates in a row .* is not finite .*--resume .*\n"
    assert re.fullmatch(said, done["beyond fp32"][0][2])
    assert done["beyond fp32"][1][2] == ""


def test_learning_rates_follow_the_ranks(results) -> None:
    run = the_run(results[0] / "joined")
    state = torch.load(run / "checkpoints" / last(run) / "state.pt", weights_only=True)
    rate = state["learner"]["actor_optimizer"]["optimizer"]["param_groups"][0]["lr"]
    warm = min(1, state["progress"]["updates"] / 5)
    assert rate == pytest.approx(2e-3 * 2**0.5 * warm)


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("finished", "has all its 16 episodes"),
        ("damaged", "state.pt is damaged"),
        ("no folder", "cannot make the run folder"),
        ("no buffer", "ddpg.buffer_size is 10"),
        ("no backend", "nccl needs a GPU" if not torch.cuda.is_available() else "nccl"),
        ("no network", "holds other networks"),
        ("no flag", "unknown flag --speed"),
    ],
)
def test_a_mistake_is_told_once_by_all_ranks_together(results, name, part) -> None:
    folder, done = results
    assert [code for code, _, _ in done[name]] == [2, 2], done[name]
    assert [out for _, out, _ in done[name]] == ["exchanges 0\n"] * 2
    assert done[name][1][2] == ""
    assert done[name][0][2].startswith("snakes: ")
    assert done[name][0][2].count("\n") == 1
    assert part in done[name][0][2]
    assert not (folder / name / "snakes_3v3").exists()


def test_a_full_disk_ends_all_ranks_together(tmp_path) -> None:
    with tiny_disk(tmp_path / "disk", "128k") as disk:
        done = as_ranks(tmp_path, {"full": [*RANKS, "--config", SMOKE, "--runs_dir", str(disk)]})["full"]
    assert [code for code, _, _ in done] == [2, 2], done
    assert done[0][2].count("\n") == 1
    assert "No space left on device" in done[0][2]
    assert done[1][2] == ""
