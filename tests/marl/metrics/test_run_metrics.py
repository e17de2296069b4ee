"""Metrics as TensorBoard and other readers find them."""

import contextlib
import errno
import inspect
import json
import math
import os
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from marl.errors import UserError
from marl.metrics import event_file
from marl.metrics import run_metrics as metrics
from marl.metrics.run_metrics import Metrics, Silent, gpu_gauges

ROOT = Path(__file__).resolve().parents[3]
GIF = b"GIF89a\x04\x00\x03\x00"  # the head of a file: 4 x 3 pixels


def events(folder: Path) -> EventAccumulator:
    """What TensorBoard shows of a run."""
    return EventAccumulator(str(folder), size_guidance={}).Reload()


def curve(folder: Path, tag: str) -> list[tuple[int, float]]:
    return [(event.step, event.value) for event in events(folder).Scalars(tag)]


def lines(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_values_come_back_from_both_files(tmp_path):
    sink = Metrics(tmp_path)
    sink.log(10, {"loss/actor": 0.5, "reward/total": torch.tensor(2.0)})
    sink.log(20, {"loss/actor": np.float32(0.25)})
    # Before close: what is logged is on the disk.
    assert curve(tmp_path, "loss/actor") == [(10, 0.5), (20, 0.25)]
    assert curve(tmp_path, "reward/total") == [(10, 2.0)]
    first, second = lines(tmp_path)
    assert (first["step"], first["loss/actor"], first["reward/total"]) == (10, 0.5, 2.0)
    assert (second["step"], second["loss/actor"]) == (20, 0.25)
    assert second["time"] >= first["time"] > 1.6e9
    sink.close()
    sink.close()


def test_the_main_curves_are_also_written_by_env_steps(tmp_path):
    sink = Metrics(tmp_path)
    for step in (10, 20, 30):
        sink.log(step, {"reward/total": step, "eval/win_rate_level0": 0.5, "losses/actor": 1.0}, 200 * step)
    tag = "by_env_steps/reward/total"
    assert curve(tmp_path, tag) == [(2000, 10), (4000, 20), (6000, 30)]
    by_env_steps = {each for each in events(tmp_path).Tags()["scalars"] if each.startswith("by_env_steps/")}
    assert by_env_steps == {tag, "by_env_steps/eval/win_rate_level0"}
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == [], "TensorBoard would list it as a run"
    for value in (300, 400):  # the second start reads what the first one has kept
        Metrics(tmp_path, resume_at=20, resume_env_steps=4000).log(30, {"reward/total": value}, 6000)
        assert curve(tmp_path, tag) == [(2000, 10), (4000, 20), (6000, value)]
        assert curve(tmp_path, "reward/total") == [(10, 10), (20, 20), (30, value)]


def test_resuming_reads_one_file_and_writes_no_more_points_than_tensorboard_shows(tmp_path, monkeypatch):
    monkeypatch.setattr(event_file, "SHOWN", 10)
    tag, sizes, opened = "by_env_steps/reward/total", [], []
    read = event_file.read_events
    monkeypatch.setattr(event_file, "read_events", lambda files: read(opened.extend(files) or files))
    for start in range(12):
        opened.clear()
        resumed = {"resume_at": start * 50, "resume_env_steps": start * 10_000} if start else {}
        sink = Metrics(tmp_path, **resumed)
        assert len(set(opened)) == min(start, 1)
        sizes.append(max(tmp_path.glob("*tfevents*")).stat().st_size)
        for step in range(start * 50 + 5, start * 50 + 51, 5):
            sink.log(step, {"reward/total": step}, 200 * step)
        points = curve(tmp_path, tag)
        assert [value for _, value in points] == [step / 200 for step, _ in points]
        assert points[-1] == (10_000 * (start + 1), 50 * (start + 1))
        assert len(points) <= 20
        assert points[0][0] <= 10_000, "its beginning stays"
    assert max(sizes[2:]) < 1.5 * sizes[2]
    assert curve(tmp_path, "reward/total") == [(step, step) for step in range(5, 601, 5)], "nothing is lost by episodes"


def test_a_start_from_an_older_checkpoint_reads_all_files(tmp_path):
    for start in (0, 20, 40):
        resumed = {"resume_at": start, "resume_env_steps": 200 * start} if start else {}
        sink = Metrics(tmp_path, **resumed)
        for step in (start + 10, start + 20):
            sink.log(step, {"reward/total": step}, step + 5)  # fewer env steps than a later start has episodes
    Metrics(tmp_path, resume_at=10, resume_env_steps=15).log(20, {"reward/total": 7}, 25)
    assert curve(tmp_path, "by_env_steps/reward/total") == [(15, 10), (25, 7)]


def test_curves_by_env_steps_of_an_earlier_version_move_to_the_events_of_the_run(tmp_path):
    Metrics(tmp_path).log(10, {"reward/total": 1.0})
    old = event_file.EventFile(tmp_path / "by_env_steps", 0)
    for step, value in ((5, 0.0), (2000, 10.0), (4000, 20.0)):
        old.add_scalars(step, {"by_env_steps/reward/total": value})
    Metrics(tmp_path, resume_at=10, resume_env_steps=2000)
    assert curve(tmp_path, "by_env_steps/reward/total") == [(5, 0), (2000, 10)]
    assert not (tmp_path / "by_env_steps").exists()


def test_a_resumed_run_of_an_earlier_version_keeps_its_folder_of_events(tmp_path):
    (tmp_path / "tensorboard").mkdir()
    Metrics(tmp_path, resume_at=0).log(1, {"loss": 1})
    assert curve(tmp_path / "tensorboard", "loss") == [(1, 1)]
    assert not list(tmp_path.glob("*tfevents*"))


def test_values_that_are_no_numbers_are_null(tmp_path):
    Metrics(tmp_path).log(1, {"nan": math.nan, "inf": -math.inf, "fine": 1.0})
    (line,) = lines(tmp_path)
    assert (line["nan"], line["inf"], line["fine"]) == (None, None, 1.0)
    assert math.isnan(curve(tmp_path, "nan")[0][1])
    assert curve(tmp_path, "inf") == [(1, -math.inf)]


def test_a_resumed_run_has_one_curve(tmp_path):
    sink = Metrics(tmp_path)
    for step in (10, 20, 30, 40):
        sink.log(step, {"loss": step, "only/before": step})
    sink.animation("best_match", GIF, 40)
    assert len(events(tmp_path).Images("best_match")) == 1
    sink.close()
    with open(tmp_path / "metrics.jsonl", "a") as file:
        file.write('{"step": 12, "lo')  # a kill
    resumed = Metrics(tmp_path, resume_at=20)
    resumed.log(30, {"loss": 300})
    assert curve(tmp_path, "loss") == [(10, 10), (20, 20), (30, 300)]
    assert curve(tmp_path, "only/before") == [(10, 10), (20, 20)]
    assert events(tmp_path).Tags()["images"] == ["best_match"]
    assert events(tmp_path).Images("best_match") == []
    assert [(line["step"], line["loss"]) for line in lines(tmp_path)] == [(10, 10), (20, 20), (30, 300)]

    Metrics(tmp_path, resume_at=10).log(11, {"loss": 1})
    assert curve(tmp_path, "loss") == [(10, 10), (11, 1)]
    assert [line["step"] for line in lines(tmp_path)] == [10, 11]


def test_a_new_start_in_the_same_folder_forgets_the_old_one(tmp_path):
    Metrics(tmp_path).log(0, {"loss": 1})
    Metrics(tmp_path).log(3, {"loss": 2})
    assert curve(tmp_path, "loss") == [(3, 2)]
    assert [line["step"] for line in lines(tmp_path)] == [3]


def test_an_event_cut_by_a_kill_does_not_hide_what_follows(tmp_path):
    sink = Metrics(tmp_path)
    sink.log(1, {"loss": 1})
    sink.log(2, {"loss": 2})
    (file,) = tmp_path.glob("*tfevents*")
    os.truncate(file, file.stat().st_size - 3)
    Metrics(tmp_path, resume_at=1).log(2, {"loss": 20})
    assert curve(tmp_path, "loss") == [(1, 1), (2, 20)]


@pytest.mark.parametrize("damage", ["cut", "zeros", "fifo"])
def test_what_is_before_the_damage_of_an_earlier_file_is_not_written_again(tmp_path, damage):
    sink = Metrics(tmp_path)
    sink.log(1, {"eval/points": 0.5})
    sink.log(2, {"eval/points": 0.25})
    (tmp_path / "metrics.jsonl").unlink()  # so the event file alone tells
    (file,) = tmp_path.glob("*tfevents*")
    fifo = tmp_path / "events.out.tfevents.0000000000.zzz"
    if damage == "cut":
        os.truncate(file, file.stat().st_size - 3)
    elif damage == "zeros":  # what a power cut may leave
        file.write_bytes(file.read_bytes() + bytes(40))
    else:
        os.mkfifo(fifo)
    resumed = Metrics(tmp_path, resume_at=1)
    resumed.log(1, {"eval/points": 0.5})
    resumed.log(2, {"eval/points": 0.75})
    fifo.unlink(missing_ok=True)
    assert curve(tmp_path, "eval/points") == [(1, 0.5), (2, 0.75)]


def test_files_are_read_in_the_order_written_whatever_the_clock_says(tmp_path, monkeypatch):
    for number, now in enumerate((2e9, 1e9, 1.5e9)):
        monkeypatch.setattr(event_file.time, "time", lambda now=now: now)
        Metrics(tmp_path, resume_at=number - 1).log(number, {"loss": number})
    assert curve(tmp_path, "loss") == [(0, 0), (1, 1), (2, 2)]


def test_lines_that_are_not_ours_are_dropped_at_resuming(tmp_path):
    (tmp_path / "metrics.jsonl").write_bytes(b'{"step": 1, "a": 2}\n\xff\xfe\n[]\n{"step": "x"}\n{}\n{"step": 2}\n')
    Metrics(tmp_path, resume_at=1)
    assert (tmp_path / "metrics.jsonl").read_bytes() == b'{"step": 1, "a": 2}\n'


def test_a_line_cut_before_its_end_does_not_run_into_the_next(tmp_path):
    (tmp_path / "metrics.jsonl").write_bytes(b'{"step": 1, "a": 2}\n{"step": 2, "a": 3}')
    Metrics(tmp_path, resume_at=2).log(3, {"a": 4})
    assert [(line["step"], line["a"]) for line in lines(tmp_path)] == [(1, 2), (3, 4)]


@pytest.mark.parametrize("end", [b'{"step": 3, "cut o', b"\xff\xfe\n", b"[]\n", b'{"step": "x"}\n', b"[" * 100_000])
def test_lines_that_are_no_metrics_are_left_out(tmp_path, end):
    (tmp_path / "metrics.jsonl").write_bytes(b'{"step": 1, "a": 2}\n{}\n{"step": 2}\n' + end)
    assert metrics.read_lines(tmp_path) == [{"step": 1, "a": 2}, {"step": 2}]
    assert metrics.lines_with(tmp_path, "a") == metrics.read_lines(tmp_path)
    assert metrics.lines_with(tmp_path, "b") == [{"step": 2}]
    assert metrics.last_line(tmp_path) == ({} if len(end) > metrics.TAIL else {"step": 2})


def test_a_run_without_metrics_has_no_lines(tmp_path):
    for make in (lambda _: None, os.mkfifo):
        make(tmp_path / "metrics.jsonl")
        assert (metrics.read_lines(tmp_path), metrics.last_line(tmp_path)) == ([], {})


def test_damage_far_before_the_end_is_no_obstacle_to_resuming(tmp_path):
    """Before the last lines only the begin of each is read."""
    later = b"".join(b'{"step": %d, "time": 1.0}\n' % (3 + i) for i in range(metrics.CHECKED))
    (tmp_path / "metrics.jsonl").write_bytes(b'{"step": 1, "time": dam}\n{"step": 2, "time": 1.0}\n' + later)
    Metrics(tmp_path, resume_at=2)
    assert metrics.read_lines(tmp_path) == [{"step": 2, "time": 1.0}]


def test_a_folder_that_was_removed_is_told_in_one_line(tmp_path):
    folder = tmp_path / "run"
    sink = Metrics(folder)
    folder.rename(tmp_path / "gone")
    for call in (lambda: sink.log(1, {"a": 1}), lambda: sink.animation("a", GIF, 1)):
        with pytest.raises(UserError, match="No such file") as error:
            call()
        assert "\n" not in str(error.value)
        assert str(tmp_path) in str(error.value)


def test_a_file_in_the_way_is_told_in_one_line(tmp_path):
    (tmp_path / "tensorboard").write_text("")
    with pytest.raises(UserError, match=str(tmp_path)) as error:
        Metrics(tmp_path)
    assert "\n" not in str(error.value)


def test_a_full_disk_is_told_by_the_very_call(tmp_path, monkeypatch):
    sink = Metrics(tmp_path)

    def full(file, _data):
        raise OSError(errno.ENOSPC, "No space left on device", str(file))

    monkeypatch.setattr(event_file, "append", full)
    with pytest.raises(UserError, match="No space left on device") as error:
        sink.log(1, {"loss": 1})
    assert "\n" not in str(error.value)


def test_a_full_disk_at_resuming_keeps_the_lines(tmp_path, monkeypatch):
    Metrics(tmp_path).log(5, {"loss": 1})
    before = b"damaged\n" + (tmp_path / "metrics.jsonl").read_bytes()  # so the file is written anew
    (tmp_path / "metrics.jsonl").write_bytes(before)

    def full(_handle):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UserError, match="No space left on device"):
        Metrics(tmp_path, resume_at=5)
    assert (tmp_path / "metrics.jsonl").read_bytes() == before


def test_silent_has_the_same_methods_and_writes_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, method in inspect.getmembers(Metrics, inspect.isfunction):
        if not name.startswith("_"):
            assert inspect.signature(getattr(Silent, name)) == inspect.signature(method)
    silent = Silent()
    silent.describe({"run/command": "snakes train"}, ["level0"])
    silent.log(1, {"a": 1.0}, 200)
    silent.summarise({"points": 1.0})
    silent.animation("a", GIF, 1)
    silent.close()
    assert list(tmp_path.iterdir()) == []


def test_importing_loads_neither_tensorboard_nor_torch():
    program = (
        "import sys, marl.metrics.run_metrics; sys.exit(any(name in sys.modules for name in ('tensorboard', 'torch')))"
    )
    assert subprocess.run([sys.executable, "-c", program], cwd=ROOT, timeout=300).returncode == 0


# GPUs


class NVMLError(Exception):
    """As in pynvml."""


def fake_nvml(monkeypatch, gpus: int, **changes) -> types.SimpleNamespace:
    def unsupported(*_):
        raise NVMLError("Not Supported")

    module = types.SimpleNamespace(
        NVMLError=NVMLError,
        NVML_TEMPERATURE_GPU=0,
        starts=0,
        nvmlDeviceGetCount=lambda: gpus,
        nvmlDeviceGetHandleByIndex=lambda i: i,
        nvmlDeviceGetUtilizationRates=lambda gpu: types.SimpleNamespace(gpu=50 + gpu),
        nvmlDeviceGetMemoryInfo=lambda gpu: types.SimpleNamespace(used=3 * 2**30),
        nvmlDeviceGetTemperature=unsupported,
        nvmlDeviceGetPowerUsage=lambda gpu: 123_456,
    )

    def init():
        module.starts += 1

    module.nvmlInit = init
    vars(module).update(changes)
    monkeypatch.setitem(sys.modules, "pynvml", module)
    metrics._nvml.cache_clear()
    return module


@pytest.fixture(autouse=True)
def _nvml_looked_for_again():
    yield
    metrics._nvml.cache_clear()


def test_gauges_of_all_gpus_where_there_are_some(monkeypatch):
    module = fake_nvml(monkeypatch, 2)
    expected = {
        "system/gpu0_util_percent": 50.0, "system/gpu0_memory_allocated_gb": 3.0, "system/gpu0_power_w": 123.456,
        "system/gpu1_util_percent": 51.0, "system/gpu1_memory_allocated_gb": 3.0, "system/gpu1_power_w": 123.456,
    }  # fmt: skip
    assert gpu_gauges() == expected
    assert gpu_gauges() == expected
    assert module.starts == 1


def test_no_gauges_without_a_driver_or_the_package(monkeypatch):
    def no_driver():
        raise NVMLError("Driver Not Loaded")

    fake_nvml(monkeypatch, 2, nvmlInit=no_driver)
    assert gpu_gauges() == {}
    monkeypatch.setitem(sys.modules, "pynvml", None)
    metrics._nvml.cache_clear()
    assert gpu_gauges() == {}


def test_gauges_of_this_machine():
    for name, value in gpu_gauges().items():
        assert name.startswith("system/gpu")
        assert value >= 0


@pytest.mark.needs_cuda
def test_gauges_of_a_real_gpu():
    gauges = gpu_gauges()
    assert gauges["system/gpu0_memory_allocated_gb"] > 0
    assert 0 <= gauges["system/gpu0_util_percent"] <= 100


def test_an_evaluation_that_a_resumed_run_repeats_is_written_once(tmp_path) -> None:
    """A run that was killed after its last evaluation and before its last checkpoint makes that evaluation again."""
    log = Metrics(tmp_path)
    log.log(20, {"loss": 1.0, "time/seconds": 3.0})
    log.log(20, {"eval/points": 0.5, "time/seconds": 4.0})
    resumed = Metrics(tmp_path, resume_at=20)
    resumed.log(20, {"eval/points": 0.5, "time/seconds": 5.0})
    resumed.log(20, {"eval/points": 0.25})  # of other matches
    resumed.log(21, {"eval/points": 0.5})
    values = [(line["step"], line.get("eval/points")) for line in metrics.read_lines(tmp_path)]
    assert values == [(20, None), (20, 0.5), (20, 0.25), (21, 0.5)]


@pytest.mark.parametrize("written", range(5))
def test_an_evaluation_that_a_kill_cut_off_is_completed(tmp_path, written, monkeypatch) -> None:
    """written: how many of its parts were: events by episodes, events by env steps, the JSON line, the animation."""
    loss = {"reward/total": 2.0, "time/seconds": 3.0}
    evaluation = {"eval/points": math.nan, "eval/win_rate_level0": 0.3, "time/seconds": 4.0}
    log, files = Metrics(tmp_path), []
    log.log(20, loss, 4000)
    append = event_file.append

    def killed(file: Path, data: bytes) -> None:
        if len(files) == written:
            raise KeyboardInterrupt
        files.append(file)
        append(file, data)

    with monkeypatch.context() as patch, contextlib.suppress(KeyboardInterrupt):
        patch.setattr(event_file, "append", killed)
        patch.setattr(metrics, "append", killed)
        log.log(20, evaluation, 4000)
        log.animation("eval/best_match", GIF, 20)
    assert len(files) == written
    for _ in range(2):  # the second time nothing is missing
        resumed = Metrics(tmp_path, resume_at=20, resume_env_steps=4000)
        resumed.log(20, evaluation | {"time/seconds": 5.0}, 4000)
        resumed.animation("eval/best_match", GIF, 20)
        assert curve(tmp_path, "reward/total") == [(20, 2.0)]
        assert curve(tmp_path, "eval/win_rate_level0") == [(20, np.float32(0.3))]
        assert curve(tmp_path, "by_env_steps/eval/win_rate_level0") == [(4000, np.float32(0.3))]
        assert [line.get("eval/win_rate_level0") for line in lines(tmp_path)] == [None, 0.3]
        assert [image.step for image in events(tmp_path).Images("eval/best_match")] == [20]


def test_an_evaluation_that_an_earlier_resume_dropped_is_written_again(tmp_path) -> None:
    Metrics(tmp_path).log(20, {"eval/points": 0.5})
    Metrics(tmp_path, resume_at=10).log(
        20, {"reward/total": 2.0}
    )  # it drops the evaluation, and is killed before its own
    Metrics(tmp_path, resume_at=20).log(20, {"eval/points": 0.5})
    assert curve(tmp_path, "eval/points") == [(20, 0.5)]
    assert len(lines(tmp_path)) == 2


def test_a_resumed_run_cuts_its_lines_off_and_writes_none_again(tmp_path) -> None:
    file = tmp_path / "metrics.jsonl"
    lines = [json.dumps({"step": step, "time": 0.5, "a": 1.0}) + "\n" for step in range(1, 301)]
    file.write_text("".join(lines) + '{"step": 301, "ti')
    before = file.stat().st_ino
    for first, kept in ((400, 300), (251, 250), (101, 100), (1, 0)):
        Metrics(tmp_path, resume_at=first - 1)
        assert file.read_text() == "".join(lines[:kept])
        assert file.stat().st_ino == before  # not written as a whole
    file.write_text("x\n" + "".join(lines))
    Metrics(tmp_path, resume_at=200)
    assert file.read_text() == "".join(lines[:200])
