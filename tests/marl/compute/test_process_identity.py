"""Names of processes: a running one, an ended one, one of another machine or boot."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from marl.compute.process_identity import is_running, process_name

needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="Linux's /proc tells start times")


@needs_proc
def test_a_process_runs_until_it_ends():
    name = process_name(os.getpid())
    assert is_running(name) is True
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    child = process_name(process.pid)
    assert is_running(child) is True
    process.communicate()
    assert is_running(child) is False


@needs_proc
def test_a_reused_process_id_or_another_boot_is_another_process():
    host, boot, pid, since = process_name(os.getpid()).split(" ")
    assert is_running(f"{host} {boot} {pid} {int(since) + 1}") is False
    assert is_running(f"{host} another-boot {pid} {since}") is False


@pytest.mark.parametrize("name", ["", "elsewhere boot 1 2", f"{os.uname().nodename}  1 launch"])
def test_what_cannot_be_known(name):
    assert is_running(name) is None
