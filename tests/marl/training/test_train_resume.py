"""`snakes train` that resumes a run, loads a model, or is stopped."""

import json
import re
import shlex
import shutil
import signal

import pytest
import torch
import yaml
from helpers.command import assert_one_line
from helpers.training import SMOKE, TINY, assert_goes_on, files_of, finish, forked, here, logged, the_run, wait_for

# --- resume


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """A finished run of 16 episodes; tests that change it take a copy."""
    runs = tmp_path_factory.mktemp("tiny")
    done = here(*TINY, "--runs_dir", runs)
    assert done.returncode == 0, done.stderr
    return the_run(runs)


@pytest.fixture
def run(tiny, tmp_path):
    return shutil.copytree(tiny, tmp_path / "runs" / "snakes_3v3" / tiny.name)


def state_of(run, episode) -> dict:
    return torch.load(run / "checkpoints" / f"episode_{episode}" / "state.pt", weights_only=True)


def adam_of(state) -> dict:
    return state["learner"]["actor_optimizer"]["optimizer"]


def test_resume_needs_no_other_flag_than_more_episodes(run) -> None:
    done = here("train", "--resume", run, "--max_episodes", "32")
    assert done.returncode == 0, done.stderr
    assert f"resumed from    {run / 'checkpoints' / 'episode_16'} (episode 16)" in done.stdout
    assert "episode 20/32" in done.stdout
    assert re.search(r"^time +.* of training\) since it was resumed; .* of training in all$", done.stdout, re.MULTILINE)
    assert_goes_on(run, 32)
    before, after = state_of(run, 16), state_of(run, 32)
    for name in ("turns", "updates", "env_steps", "next_match", "seconds"):
        assert after["progress"][name] > before["progress"][name], name
    assert after["progress"]["episodes"] == 32
    steps = [adam_of(state)["state"][0]["step"].item() for state in (before, after)]
    assert steps == [before["progress"]["updates"], after["progress"]["updates"]]
    # What was played before counts on: epsilon follows from the episode, the schedule from the results.
    assert logged(run)[-1]["train/epsilon"] == pytest.approx(0.03 * 0.998**32)
    assert after["schedule"]["results"].keys() >= before["schedule"]["results"].keys()
    config = yaml.safe_load((run / "config.yaml").read_text())
    assert (config["matches"], config["schedule"]["max_episodes"]) == (8, 32)
    about = json.loads((run / "run.json").read_text())
    assert len(about["earlier"]) == 1
    assert [path.name for path in run.parent.iterdir()] == [run.name]


def test_resume_from_an_older_checkpoint_drops_what_came_after_it(run) -> None:
    done = here("train", "--resume", run / "checkpoints" / "episode_8", "--a_lr", "1e-5")
    assert done.returncode == 0, done.stderr
    assert_goes_on(run, 16)
    assert adam_of(state_of(run, 16))["param_groups"][0]["lr"] == pytest.approx(1e-5)


def test_the_tensorboard_curve_of_a_resumed_run_has_no_step_twice(run) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    assert here("train", "--resume", run / "checkpoints" / "episode_8").returncode == 0
    events = EventAccumulator(str(run))
    events.Reload()
    assert [event.step for event in events.Scalars("reward/total")] == [line["step"] for line in logged(run)]


def test_a_finished_run_is_left_as_it_is(run) -> None:
    before = files_of(run)
    assert_one_line(here("train", "--resume", run), "episode_16 has all its 16 episodes", "--max_episodes above 16")
    assert files_of(run) == before


@pytest.mark.parametrize("more", [(), ("--dry_run",)])
def test_a_limit_that_an_unfinished_run_has_passed_is_a_mistake(run, more) -> None:
    """It would end at once, after 16 of 12 episodes."""
    config = (run / "config.yaml").read_text()
    (run / "config.yaml").write_text(config.replace("max_episodes: 16", "max_episodes: 640"))
    before = files_of(run)
    done = here("train", "--resume", run, "--max_episodes", "12", *more)
    assert_one_line(done, "--max_episodes 12", "episode_16 has 16 episodes already", "--max_episodes above 16")
    assert files_of(run) == before


def test_flags_that_do_not_fit_the_checkpoint_leave_the_run_as_it_is(run) -> None:
    before = files_of(run)
    for words in (["--body", "8,8"], ["--twin"], ["--critic", "team"], ["--encoder", "planes"]):
        done = here("train", "--resume", run, "--max_episodes", "32", *words)
        assert_one_line(done, "episode_16 holds other networks")
    assert files_of(run) == before


def test_another_strategy_may_go_on(run) -> None:
    done = here("train", "--resume", run, "--max_episodes", "24", "--opponent_difficulty_strategy", "adaptive")
    assert done.returncode == 0, done.stderr
    assert_goes_on(run, 24)


def test_a_run_name_goes_on_by_itself_and_never_does_not(tmp_path) -> None:
    words = [*TINY, "--runs_dir", tmp_path, "--run_name", "team"]
    assert here(*words, "--max_episodes", "8").returncode == 0
    assert here(*words).returncode == 0
    run = the_run(tmp_path)
    assert run.name == "team"
    assert_goes_on(run, 16)
    before = files_of(run)
    assert_one_line(here(*words, "--resume", "never"), f"run {run} exists already", "--resume", "--run_name")
    assert_one_line(here(*words, "--run_name", "a/b"), "a/b", "plain folder name")
    assert_one_line(here(*words, "--run_name", "last"), "--run_name last", "take another")
    assert files_of(run) == before


def test_a_run_without_a_checkpoint_starts_afresh_in_its_folder(run) -> None:
    shutil.rmtree(run / "checkpoints")
    assert here("train", "--resume", run).returncode == 0
    assert_goes_on(run, 16)


def test_load_model_starts_a_new_run_from_a_checkpoint(run) -> None:
    runs, before = run.parent.parent, files_of(run)
    load = ["train", "--runs_dir", runs, "--load_model"]
    done = here(*load, "--load_model_run", "1", "--load_model_run_episode", "8")
    assert done.returncode == 0, done.stderr
    (second,) = set(run.parent.iterdir()) - {run}
    assert second.name.startswith("run2_")
    assert f"resumed from    {run / 'checkpoints' / 'episode_8'}" in done.stdout
    assert [line["step"] for line in logged(second)] == [12, 16]
    assert (second / "checkpoints" / "best").is_file()
    assert files_of(run) == before
    # The newest run and its last checkpoint, in a run with a name, whose name the next one does not take over.
    done = here(*load, "--max_episodes", "24", "--run_name", "third")
    assert done.returncode == 0, done.stderr
    assert f"{second / 'checkpoints' / 'episode_16'}" in done.stdout
    done = here(*load, "--max_episodes", "32")
    assert done.returncode == 0, done.stderr
    assert f"{run.parent / 'third' / 'checkpoints' / 'episode_24'}" in done.stdout
    assert {path.name.partition("_")[0] for path in run.parent.iterdir()} == {"run1", "run2", "third", "run3"}


def test_what_cannot_be_loaded_is_told_with_where_and_what_is_there(run, tmp_path) -> None:
    runs = run.parent.parent
    load = ["train", "--runs_dir", runs, "--load_model"]
    assert_one_line(here(*load, "--load_model_run", "7"), "no run 7 (run7_*)", str(run.parent), f"there: {run.name}")
    done = here(*load, "--load_model_run", "1", "--load_model_run_episode", "9")
    assert_one_line(done, "no checkpoint of episode 9", str(run / "checkpoints"), "there: episode_8, episode_16")
    assert_one_line(here("train", "--load_model", "--runs_dir", tmp_path / "none"), "no run in", str(tmp_path / "none"))
    assert_one_line(here("train", "--resume", tmp_path / "none"), str(tmp_path / "none"), "no such run or checkpoint")
    assert_one_line(here("train", "--resume", tmp_path), "no run (with checkpoints/)", "there: runs")
    assert_one_line(here("train", "--load_model_run", "1"), "add --load_model")
    assert_one_line(here(*load, "--resume", run), "load_model and resume", "give one of them")


# --- stop


def test_term_saves_and_says_how_to_go_on(tmp_path) -> None:
    endless = [*TINY, "--runs_dir", tmp_path, "--max_episodes", "1000000", "--max_minutes", "1"]
    with forked(endless) as process:
        wait_for(process, "episode ")
        process.send_signal(signal.SIGTERM)
        done = finish(process)
    assert done.returncode == 128 + signal.SIGTERM
    assert done.stderr == ""
    run = the_run(tmp_path)
    last = done.stdout.splitlines()[-1]
    found = re.fullmatch(r"stopped by a signal at episode ([\d,]+); resume with: .* -m marl (train --resume .+)", last)
    episode = int(found[1].replace(",", ""))
    assert (run / "checkpoints" / "last").read_text() == f"episode_{episode}\n"
    again = here(*shlex.split(found[2]), "--max_episodes", str(episode + 8))
    assert again.returncode == 0, again.stderr
    assert_goes_on(run, logged(run)[-1]["step"])
    assert logged(run)[-1]["step"] >= episode + 8


@pytest.mark.needs_cuda
@pytest.mark.parametrize("algo", ["ddpg", "ppo", "ppo_lstm", "qmix"])
@pytest.mark.parametrize("devices", [("cpu", "cuda"), ("cuda", "cpu")], ids=" to ".join)
def test_a_run_goes_on_on_another_device(algo, devices, tmp_path) -> None:
    words = ["--config", SMOKE, "--algo", algo, "--precision", "fp32", "--matches", "8", "--max_episodes", "16"]
    words += ["--log_interval", "4", "--eval_matches", "1", "--eval_opponents", "level0", "--runs_dir", tmp_path]
    done = here("train", *words, "--device", devices[0])
    assert done.returncode == 0, done.stderr
    done = here("train", "--resume", the_run(tmp_path), "--max_episodes", "32", "--device", devices[1])
    assert done.returncode == 0, done.stderr
    assert logged(the_run(tmp_path))[-1]["step"] >= 32


def test_term_while_the_buffer_is_filled_ends_at_once(tmp_path) -> None:
    with forked([*TINY, "--runs_dir", tmp_path], PLANTED="0:term:1") as process:
        done = finish(process)
    assert (done.returncode, done.stderr) == (128 + signal.SIGTERM, "")
    run = the_run(tmp_path)
    assert not list(run.glob("checkpoints/*"))
    words = re.search(r"resume with: .* -m marl (train --resume .+)", done.stdout)[1]
    again = here(*shlex.split(words))
    assert (again.returncode, again.stderr) == (0, "")
    assert_goes_on(run, 16)


def test_ctrl_c_in_this_process_leaves_its_handlers_as_they_were(tmp_path) -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    assert here(*TINY, "--runs_dir", tmp_path, "--max_episodes", "4").returncode == 0
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_max_minutes_ends_a_run_in_good_order(tmp_path) -> None:
    done = here(*TINY, "--runs_dir", tmp_path, "--max_episodes", "1000000", "--max_minutes", "0.01")
    assert done.returncode == 0, done.stderr
    run = the_run(tmp_path)
    episode = int((run / "checkpoints" / "last").read_text().strip().removeprefix("episode_"))
    assert 0 < episode < 1_000_000
    assert "at the end" in done.stdout
    assert_one_line(here("train", "--resume", run), "minutes; resume with a higher --max_minutes")
    done = here("train", "--resume", run, "--max_minutes", "0", "--max_episodes", str(episode + 8))
    assert done.returncode == 0, done.stderr


def test_a_run_that_ends_by_time_is_evaluated_once_at_its_end(tmp_path) -> None:
    times = ["--max_episodes", "1000000", "--max_minutes", "0.01"]
    due = ["--turns", "50", "--eval_interval", "1"]  # after every cycle: in so many turns some matches end
    done = here(*TINY, "--runs_dir", tmp_path, *times, *due)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in (the_run(tmp_path) / "metrics.jsonl").read_text().splitlines()]
    evaluated = [line["step"] for line in lines if "eval/points" in line]
    assert len(evaluated) == len(set(evaluated)) > 1
