"""snakes runs: what it lists, compares, deletes and leaves alone, through the command line."""

import json
import os
import sys
import time
from pathlib import Path

import pytest
import torch
import yaml
from helpers.command import assert_one_line, in_fresh_process
from helpers.training import here
from PIL import Image

from marl.analysis.runs import read_summary
from marl.compute.process_identity import process_name
from marl.storage import checkpoint_writer, run_owner
from marl.storage.checkpoint import ENV_STEPS

ENDED = f"{os.uname().nodename} another-boot 1 1"


def make_run(
    runs_dir: Path, name: str, started: float, rates: list[float], algo: str = "ppo", limit: int = 300, **about: object
) -> Path:
    """A run as training writes it: evaluations every 100 episodes, a checkpoint at each of them."""
    folder = runs_dir / "snakes_3v3" / name
    folder.mkdir(parents=True)
    evaluation = {"eval_opponents": ["level0", "level2"], "eval_matches": 200}
    sections = {"schedule": {"max_episodes": limit}, "ppo": {"lr": 0.003}, "ddpg": {"tau": started}}
    config = {"algo": algo, "seed": int(started), "max_minutes": 0.0, "milestones": 0, **sections}
    (folder / "config.yaml").write_text(yaml.safe_dump(config | {"evaluation": evaluation}))
    (folder / "run.json").write_text(json.dumps({"started_unix": started, "process": ENDED, **about}))
    lines = []
    for i, rate in enumerate(rates, start=1):
        values = {"eval/win_rate_level0": 1.0, "eval/win_rate_level2": rate, "eval/points": (1 + rate) / 2}
        lines.append({"step": 100 * i, "time": started, **values})
        lines.append({"step": 100 * i, "time": started, "train/env_steps": 20_000.0 * i, "time/seconds": 6.0 * i})
    (folder / "metrics.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines) + '{"step": 400, "cut o')
    (folder / "checkpoints").mkdir()
    if rates:
        (folder / "checkpoints" / "last").write_text(f"episode_{100 * len(rates)}\n")
    return folder


@pytest.fixture
def runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make_run(tmp_path / "runs", "run1_20260101_120000", 1000, [0.2, 0.915, 0.9])
    make_run(tmp_path / "runs", "weak", 2000, [0.1, 0.2], algo="ddpg")
    make_run(tmp_path / "runs", "busy", 3000, [], process=process_name(os.getpid()))
    return tmp_path / "runs" / "snakes_3v3"


def test_episodes_and_env_steps_are_those_of_one_moment(runs):
    """A run that a signal stops saves a checkpoint without a log line."""
    weights, about = {"actor.w": torch.ones(2)}, {ENV_STEPS: 43_000}
    checkpoint_writer.save(runs / "weak", 215, weights, {"state": {}}, about)
    found = read_summary(runs / "weak")
    assert (found.episodes, found.env_steps) == (215, 43_000)
    found = read_summary(runs / "run1_20260101_120000")
    assert (found.episodes, found.env_steps, len(found.lines)) == (300, 60_000, 4), "evaluations, and the last line"
    assert found.curve("level2", "steps") == [(20_000, 0.2), (40_000, 0.915), (60_000, 0.9)]


def test_the_list(runs):
    done = here("runs")
    assert done.returncode == 0, done.stderr
    head, *rows, total = done.stdout.splitlines()
    assert head.split()[:3] == ["run", "algo", "episodes"]
    assert [row.split()[0] for row in rows] == ["busy", "weak", "run1_20260101_120000"], "newest first"
    assert "running" in rows[0]
    assert "ddpg" in rows[1]
    assert "level2 20.0% (15-26)" in rows[1]
    assert "unfinished" in rows[1]
    assert rows[2].split()[1:6] == ["ppo", "300", "60", "k", "level2"]
    assert "91.5% (87-95)" in rows[2]
    assert rows[2].endswith("  finished")
    assert total.startswith("3 runs, ")
    assert max(map(len, done.stdout.splitlines())) <= 100


def test_the_list_as_json(runs):
    found = {each["name"]: each for each in json.loads(here("runs", "list", "--json").stdout)}
    assert found["busy"]["best"] is None
    best = found["run1_20260101_120000"]["best"]
    assert (best["episode"], best["against"]["level2"]["win_rate"]) == (200, 0.915), "the most points: no `best`"
    assert found["weak"]["bytes"] > 0


def test_the_evaluation_before_the_first_update_is_not_the_best(runs):
    """No checkpoint has that team."""
    metrics = runs / "weak" / "metrics.jsonl"
    untrained = {"step": 0, "time": 1, "eval/win_rate_level0": 1, "eval/win_rate_level2": 1, "eval/points": 1}
    metrics.write_text(json.dumps(untrained) + "\n" + metrics.read_text())
    found = {each["name"]: each["best"] for each in json.loads(here("runs", "--json").stdout)}
    assert found["weak"]["episode"] == 200
    assert "level2 20.0% (15-26)" in here("runs").stdout


def test_the_evaluation_told_is_that_of_the_checkpoint_best(runs):
    checkpoints = runs / "run1_20260101_120000" / "checkpoints"
    (checkpoints / "episode_300").mkdir()
    (checkpoints / "best").write_text("episode_300\n")
    found = {each["name"]: each["best"] for each in json.loads(here("runs", "list", "--json").stdout)}
    assert found["run1_20260101_120000"]["against"]["level2"]["win_rate"] == 0.9


def test_a_run_without_metrics_has_the_episodes_of_its_newest_checkpoint(runs):
    """A run that was killed before its first metric line goes on from its checkpoint."""
    for episode in (90, 410):
        (runs / "busy" / "checkpoints" / f"episode_{episode}").mkdir()
    (runs / "weak" / "checkpoints" / "episode_100").mkdir()
    found = {each["name"]: each["episodes"] for each in json.loads(here("runs", "list", "--json").stdout)}
    assert (found["busy"], found["weak"]) == (410, 200)
    assert [row.split()[2] for row in here("runs").stdout.splitlines()[1:3]] == ["410", "200"]


def test_the_list_loads_no_torch(runs):
    code = "import sys\nfrom marl.cli.main import main\nmain(sys.argv[1:])\nprint('torch' in sys.modules)"
    *rows, loaded = in_fresh_process(code, "runs", "--runs_dir", str(runs.parent)).splitlines()
    assert (len(rows), loaded) == (5, "False")


def test_no_runs_at_all(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = here("runs")
    assert done.returncode == 0
    assert done.stdout.startswith("no runs in runs; train one: ")
    assert_one_line(here("runs", "last"), "no run in runs yet")
    assert_one_line(here("eval", "--home", "last", "--away", "level0"), "last: there is no run in runs/snakes_3v3 yet")


def test_best_and_last_print_a_path(runs):
    best = here("runs", "best")
    assert best.stdout == "runs/snakes_3v3/run1_20260101_120000\n"
    assert "95.8% points against level0, level2, the best of 2 runs" in best.stderr
    assert here("runs", "best", "--against", "level2").stdout == best.stdout
    assert_one_line(here("runs", "best", "--against", "level9"), "level9", "known: level0, level2")
    assert here("runs", "last").stdout == "runs/snakes_3v3/busy\n"


def test_the_best_is_one_of_the_runs_that_can_be_compared(runs):
    """Not the newest run, which met other opponents."""
    smoke = make_run(runs.parent, "smoke", 9000, [1.0])
    config = yaml.safe_load((smoke / "config.yaml").read_text())
    config["evaluation"]["eval_opponents"] = ["level0"]
    (smoke / "config.yaml").write_text(yaml.safe_dump(config))
    best = here("runs", "best")
    assert best.stdout == "runs/snakes_3v3/run1_20260101_120000\n"
    assert "the best of 2 runs; 1 run with other opponents not compared" in best.stderr


@pytest.mark.parametrize("by", ["episodes", "steps", "minutes"])
def test_compare(runs, by):
    done = here("runs", "compare", "--png", "c.png", "run1", "weak", "--by", by)
    assert done.returncode == 0, done.stderr
    rows = {words[0]: words[1:] for line in done.stdout.splitlines() if (words := line.split())}
    assert rows["algo"] == ["ppo", "ddpg"]
    assert not rows.keys() & {"ddpg.tau", "ppo.lr"}, "options of a learner that only one of them uses"
    assert "won against level2  91.5% (87-95)    20.0% (15-26)" in done.stdout
    with Image.open("c.png") as image:
        colours = {colour for _, colour in image.getcolors(10**6)}
    assert {(0, 114, 178), (230, 159, 0)} <= colours, "a curve for each run"


def test_compare_as_json(runs):
    found = json.loads(here("runs", "compare", "run1", "weak", "--json").stdout)
    assert found["settings"] == {"algo": ["ppo", "ddpg"], "seed": [1000, 2000]}
    assert [run["name"] for run in found["runs"]] == ["run1_20260101_120000", "weak"]


def test_delete(runs):
    assert_one_line(here("runs", "delete", "weak"), "add --yes")
    done = here("runs", "delete", "weak", "run1", "--yes")
    assert done.stdout.startswith("deleted 2 runs, "), done.stderr
    assert [path.name for path in runs.iterdir()] == ["busy"]


def test_prune_keeps_the_newest_and_best(runs):
    run = runs / "weak"
    for episode in (100, 200, 300, 400):
        saved = checkpoint_writer.save(run, episode, {"actor.w": torch.zeros(1)}, {"state": {}}, {})
        if episode == 200:
            checkpoint_writer.mark_best(run, saved)
    done = here("runs", "prune", "--keep", "1", "--yes")
    assert done.stdout.startswith("deleted 2 checkpoints, "), done.stderr
    assert sorted(path.name for path in (run / "checkpoints").glob("episode_*")) == ["episode_200", "episode_400"]
    assert here("runs", "prune", "--keep", "1", "--yes").stdout == "nothing to prune\n"


def test_a_running_training_is_never_touched(runs):
    for words in (["delete", "busy"], ["delete", "weak", "busy"], ["prune", "busy", "--keep", "1"]):
        assert_one_line(here("runs", *words, "--yes"), "runs/snakes_3v3/busy is still training", "nothing was deleted")
    done = here("runs", "prune", "--older_than", "0h", "--yes")
    assert done.returncode == 0, done.stderr
    assert [path.name for path in runs.iterdir()] == ["busy"], "without a name, running ones are passed over"


def test_a_run_of_another_machine_counts_as_running_while_it_is_written_to(runs):
    elsewhere = {"process": "elsewhere boot 1 1"}
    far = make_run(runs.parent, "far", 4000, [0.5], **elsewhere)
    assert_one_line(here("runs", "delete", "far", "--yes"), "still training")
    for file in far.rglob("*"):
        os.utime(file, (0, time.time() - 7200))
    assert here("runs", "delete", "far", "--yes").returncode == 0
    make_run(runs.parent, "done", 4000, [0.5, 0.5, 0.5], **elsewhere)
    assert here("runs", "delete", "done", "--yes").returncode == 0


def test_a_run_that_a_process_holds_is_never_touched(runs, monkeypatch):
    """Also when run.json does not tell of that process: it starts the run at this moment."""
    monkeypatch.setattr(run_owner, "GRACE_SECONDS", 0.0)
    checkpoints = [
        checkpoint_writer.save(runs / "weak", n, {"actor.w": torch.zeros(1)}, {"state": {}}, {}) for n in (1, 2)
    ]
    with run_owner.RunOwner() as owner:
        owner.take(runs / "weak")
        for words in (["delete", "weak"], ["prune", "weak", "--keep", "1"]):
            assert_one_line(here("runs", *words, "--yes"), "runs/snakes_3v3/weak is in use by process")
    assert all(path.is_dir() for path in checkpoints)


def test_the_user_is_asked(runs, monkeypatch):
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda prompt: "n")
    done = here("runs", "delete", "weak")
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1] == "nothing was deleted"
    assert (runs / "weak").is_dir()
    monkeypatch.setattr("builtins.input", lambda prompt: "y")
    assert here("runs", "delete", "weak").returncode == 0
    assert not (runs / "weak").exists()


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["lsit"], ["'lsit'", "known: list, compare"]),
        (["compare"], ["needs RUN RUN"]),
        (["compare", "weak", "weak"], ["two different runs"]),
        (["compare", "weak", "nothing"], ["nothing: no run", "there: busy, run1_20260101_120000, weak"]),
        (["list", "--png", "x.png"], ["--png is a flag of runs compare"]),
        (["list", "weak"], ["takes no run", "'weak'"]),
        (["prune"], ["--keep N", "--older_than AGE"]),
        (["prune", "--keep", "1", "--older-than", "3d"], ["one of them"]),
        (["prune", "--older-than", "soon"], ["'soon' is no age", "30d"]),
        (["prune", "--keep", "0"], ["--keep", "'0'"]),
        (["delete", "."], [".: no run"]),
    ],
)
def test_mistakes(runs, words, parts):
    assert_one_line(here("runs", *words), *parts)


def saved_run(runs, name: str) -> Path:
    run = runs / name
    for episode in (100, 200, 300):
        checkpoint_writer.save(run, episode, {"actor.w": torch.zeros(1)}, {"state": {}}, {})
    return run


def test_an_alias_bomb_in_a_configuration_stops_no_command(runs):
    lines = [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 10)]
    (runs / "weak" / "config.yaml").write_text("\n".join(["a0: &a0 x", *lines]))
    assert here("runs").returncode == 0
    done = here("runs", "compare", "weak", "run1")
    assert (done.returncode, len(done.stdout) < 10_000) == (0, True)
    for words in (["--resume", "weak"], ["--config", str(runs / "weak" / "config.yaml")]):
        assert_one_line(here("train", *words, "--dry_run"), "config.yaml", "more than 10,000 values")


def test_prune_never_follows_a_link_out_of_a_run(runs, tmp_path):
    """Neither a linked folder of all checkpoints nor a linked checkpoint."""
    elsewhere = saved_run(runs, "weak")
    (elsewhere / "checkpoints").rename(tmp_path / "mine")
    (elsewhere / "checkpoints").symlink_to(tmp_path / "mine")
    other = saved_run(runs, "run1_20260101_120000") / "checkpoints"
    (other / "episode_100").rename(tmp_path / "episode_100")
    (other / "episode_100").symlink_to(tmp_path / "episode_100")
    before = sorted(path for path in tmp_path.rglob("*") if "runs" not in path.parts)
    done = here("runs", "prune", "--keep", "1", "--yes")
    assert done.stdout.startswith("deleted 1 checkpoint, "), done
    assert sorted(path for path in tmp_path.rglob("*") if "runs" not in path.parts) == before
    assert sorted(path.name for path in other.iterdir()) == ["episode_100", "episode_300", "last"]


def test_prune_clears_what_a_killed_one_left(runs, tmp_path):
    checkpoints = saved_run(runs, "weak") / "checkpoints"
    (checkpoints / ".trash-episode_7").mkdir()
    (tmp_path / "mine").mkdir()
    (checkpoints / ".trash-episode_8").symlink_to(tmp_path / "mine")
    assert here("runs", "prune", "--keep", "9", "--yes").returncode == 0
    assert sorted(path.name for path in checkpoints.iterdir()) == ["episode_100", "episode_200", "episode_300", "last"]
    assert (tmp_path / "mine").is_dir()


def test_of_a_linked_run_only_the_link_is_deleted(runs, tmp_path):
    (runs / "weak").rename(tmp_path / "far")
    (runs / "weak").symlink_to(tmp_path / "far")
    (runs / ".deleted-old").mkdir()
    assert here("runs", "delete", "weak", "run1", "--yes").returncode == 0
    assert (tmp_path / "far" / "config.yaml").is_file()
    assert [path.name for path in runs.iterdir()] == ["busy"], "no link that leads nowhere, and no leftover"
