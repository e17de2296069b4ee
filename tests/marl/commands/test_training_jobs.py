"""Trainings as jobs: how many fit at a time, what runs beside what, how each ends, and what is asked to stop."""

import signal
import sys
from pathlib import Path

import pytest

from marl.analysis.runs import RUNNING
from marl.commands import training_jobs
from marl.commands.training_jobs import (
    DONE,
    FAILED,
    STOPPED,
    WAITING,
    Room,
    TrainingJob,
    find_room,
    run_jobs,
    thread_limits,
)
from marl.config.train_config import read_config
from marl.training.resume_plan import plan_resume

# Stands for `python -m marl train`: ends with the code that is given, or waits for the request to stop.
FAKE = """
import signal, sys
if sys.argv[1] == "wait":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(int(sys.argv[2])))
    print("waits", flush=True)
    signal.pause()
print("snakes: the disk is full")
sys.exit(int(sys.argv[1]))
"""


@pytest.fixture
def fake(tmp_path, monkeypatch) -> Path:
    monkeypatch.setattr(training_jobs, "TRAIN", (sys.executable, "-S", "-c", FAKE))
    monkeypatch.setattr(training_jobs, "POLL", 0.01)
    return tmp_path


def job(folder: Path, name: str, *argv: str) -> TrainingJob:
    return TrainingJob(name, argv, folder / name, read_config([]))


def test_each_job_is_told_in_lines_and_a_failure_stops_no_other(fake, capsys) -> None:
    jobs = [job(fake, "a", "0"), job(fake, "b", "3"), job(fake, "c", "0")]
    assert run_jobs(jobs, Room(({},)), "jobs") == 0
    assert [each.state for each in jobs] == [DONE, FAILED, DONE]
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["a", "a", "b", "b", "c", "c"], "one after another"
    assert lines[0] == f"a: started, log in {fake / 'a.log'}"
    assert lines[1].startswith("a: done in ")
    assert lines[3] == f"b: failed with exit code 3, the disk is full (log: {fake / 'b.log'})"


@pytest.mark.parametrize(("code", "state"), [("143", STOPPED), ("1", FAILED), ("0", DONE)])
def test_when_it_is_over_running_jobs_are_asked_to_stop_and_no_other_starts(fake, code, state) -> None:
    jobs = [job(fake, name, "wait", code) for name in "abc"]
    began: list[str] = []

    def is_over() -> bool:
        return len(began) == 2 and all("waits" in each.log.read_text() for each in jobs[:2])

    def on_start(each: TrainingJob, _: str) -> str:
        began.append(each.name)
        assert each.state == RUNNING
        return ""

    assert run_jobs(jobs, Room(({}, {})), "jobs", on_start, is_over=is_over) == 0
    assert began == ["a", "b"], "side by side"
    assert [each.state for each in jobs] == [state, state, WAITING]
    assert [each.is_asked_to_stop for each in jobs] == [True, True, False]


def test_a_signal_stops_all_and_is_told_to_the_caller(fake, monkeypatch) -> None:
    jobs = [job(fake, name, "wait", "143") for name in "ab"]

    sent: list[int] = []

    def watch(running) -> float:
        if running and "waits" in running[0].log.read_text() and not sent:
            sent.append(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
        return 0.0

    monkeypatch.setattr(training_jobs, "WATCH_SECONDS", 0.0)
    assert run_jobs(jobs, Room(({},)), "jobs", watch=watch) == signal.SIGINT
    assert [each.state for each in jobs] == [STOPPED, WAITING]


@pytest.mark.parametrize(
    ("cores", "words", "environment", "asked", "places"),
    [
        (2, [], {}, None, [{}]),
        (2, ["--threads", "1"], {}, None, [thread_limits(1)] * 2),
        (8, [], {}, None, [thread_limits(2)] * 4),
        (8, [], {"OMP_NUM_THREADS": "4"}, None, [thread_limits(4)] * 2),
        (2, [], {}, 2, [{"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}] * 2),
        (1, [], {}, None, [{}]),
    ],
)
def test_room_is_cores_by_ranks_and_threads(cores, words, environment, asked, places, monkeypatch) -> None:
    monkeypatch.setattr(training_jobs.machine, "usable_cores", lambda: cores)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    plan = plan_resume(["--device", "cpu", *words])
    assert list(find_room({}, plan, asked).places) == places


@pytest.mark.parametrize(
    ("device", "visible", "places"),
    [
        ("auto", "", [{"CUDA_VISIBLE_DEVICES": "0"}, {"CUDA_VISIBLE_DEVICES": "1"}]),
        ("cuda", "3,5", [{"CUDA_VISIBLE_DEVICES": "3"}, {"CUDA_VISIBLE_DEVICES": "5"}]),
        ("cuda:1", "", [{}]),
    ],
)
def test_a_gpu_has_room_for_one_training(device, visible, places, monkeypatch) -> None:
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert list(find_room({}, plan_resume(["--device", device]), None).places) == places
