"""The free memory of a process in a container: the least of the machine's and of all its control groups'."""

import pytest

from arena.control_groups import free_memory

MACHINE = {"proc/meminfo": "MemTotal: 9000 kB\nMemAvailable:    8000 kB\n"}
V2 = {"proc/self/cgroup": "0::/jobs/mine\n"}
V1 = {"proc/self/cgroup": "9:memory:/docker/7\n3:cpu,cpuacct:/docker/7\n"}
GROUP = "sys/fs/cgroup/jobs/mine/memory."
OLD_GROUP = "sys/fs/cgroup/memory/docker/7/memory."
USED = {f"{GROUP}current": "700000\n", f"{GROUP}stat": "anon 1\ninactive_file 100\nactive_file 20\n"}


@pytest.mark.parametrize(
    ("files", "free"),
    [
        ({}, 2**63),
        (MACHINE, 8_192_000),
        (MACHINE | V2, 8_192_000),
        (MACHINE | V2 | USED | {f"{GROUP}max": "max\n"}, 8_192_000),
        (MACHINE | V2 | USED | {f"{GROUP}max": "1000000\n"}, 300_120),
        (MACHINE | V2 | USED | {f"{GROUP}max": "600000\n"}, 0),
        (
            MACHINE | V2 | {"sys/fs/cgroup/jobs/memory.max": "500\n", "sys/fs/cgroup/jobs/memory.current": "100\n"},
            400,  # the limit of a group above
        ),
        (
            MACHINE | V1 | {f"{OLD_GROUP}limit_in_bytes": "1000\n", f"{OLD_GROUP}usage_in_bytes": "900\n",
                            f"{OLD_GROUP}stat": "inactive_file 1\ntotal_inactive_file 50\ntotal_active_file 5\n"},
            155,
        ),
    ],
)  # fmt: skip
def test_free_memory(files, free, tmp_path) -> None:
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert free_memory(tmp_path) == free
