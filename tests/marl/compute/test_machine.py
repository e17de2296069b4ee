"""Cores that a process may use: affinity, hyper-threads, and limits of control groups, all in made-up files."""

from pathlib import Path

import pytest

from marl.compute import machine
from marl.compute.machine import usable_cores


@pytest.fixture
def system(monkeypatch, tmp_path):
    """Makes a machine of files; returns the function for it."""

    def make(cpus: int, siblings: dict[int, str] | None = None, **files: str) -> Path:
        monkeypatch.setattr(machine.os, "sched_getaffinity", lambda _: set(range(cpus)), raising=False)
        for cpu, text in (siblings or {}).items():
            files[f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"] = text
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tmp_path

    return make


PAIRS = {cpu: f"{cpu % 4},{cpu % 4 + 4}\n" for cpu in range(8)}  # CPU 0 and 4 are one core, ...
V2, V1 = "0::/jobs/mine\n", "3:cpu,cpuacct:/docker/7\n1:name=systemd:/\n0::/\n"


@pytest.mark.parametrize(
    ("cpus", "siblings", "files", "cores"),
    [
        (6, None, {}, 6),
        (8, PAIRS, {}, 4),
        (4, PAIRS, {}, 4),  # taskset to one hyper-thread of each core
        (5, PAIRS, {}, 4),
        (2, {0: "0-1\n", 1: "0-1\n"}, {}, 1),
        (4, {0: "0\n", 1: "1\n"}, {}, 4),  # the others have no list
        (8, None, {"proc/self/cgroup": V2, "sys/fs/cgroup/cpu.max": "max 100000\n"}, 8),
        (8, None, {"proc/self/cgroup": V2, "sys/fs/cgroup/cpu.max": "350000 100000\n"}, 3),
        (8, None, {"proc/self/cgroup": V2, "sys/fs/cgroup/cpu.max": "50000 100000\n"}, 1),
        (8, None, {"proc/self/cgroup": V2, "sys/fs/cgroup/cpu.max": "1600000 100000\n"}, 8),
        (8, PAIRS, {"proc/self/cgroup": V2, "sys/fs/cgroup/jobs/mine/cpu.max": "200000 100000"}, 2),
        (8, None, {"proc/self/cgroup": V2, "sys/fs/cgroup/jobs/cpu.max": "500000 100000"}, 5),
        (8, None, {"proc/self/cgroup": V2, "sys/fs/cgroup/cpu.max": "many\n"}, 8),
        (8, None, {"proc/self/cgroup": "nonsense\n\n"}, 8),
        (
            8,
            None,
            {
                "proc/self/cgroup": V1,
                "sys/fs/cgroup/cpu/docker/7/cpu.cfs_quota_us": "200000\n",
                "sys/fs/cgroup/cpu/docker/7/cpu.cfs_period_us": "100000\n",
            },
            2,
        ),
        (
            8,
            None,
            {
                "proc/self/cgroup": V1,
                "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "-1\n",
                "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
            },
            8,
        ),
    ],
)
def test_usable_cores(cpus, siblings, files, cores, system) -> None:
    assert usable_cores(system(cpus, siblings, **files)) == cores


def test_without_affinity_all_cpus_count(system, monkeypatch) -> None:
    root = system(3)
    monkeypatch.delattr(machine.os, "sched_getaffinity")
    monkeypatch.setattr(machine.os, "cpu_count", lambda: 5)
    assert usable_cores(root) == 5


def test_this_machine_has_some() -> None:
    assert machine.processor()["cores"] == usable_cores() >= 1


def test_a_package_that_only_gpus_need_is_not_missing_elsewhere() -> None:
    assert machine.version_text("numba-cuda", None, has_gpu=False) == "not needed (no GPU)"
    assert machine.version_text("numba-cuda", None, has_gpu=True) == "missing"
    assert machine.version_text("numpy", None, has_gpu=False) == "missing"
    assert machine.version_text("numpy", "2.4", has_gpu=True) == "2.4"
