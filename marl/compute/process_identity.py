"""Which process it is, also over machines, reboots and reused process ids; and whether it runs. By Linux's /proc."""

import os
import socket
from pathlib import Path


def process_name(pid: int, unknown_start: str = "") -> str:
    """Host, boot, process id and start time. `unknown_start` stands for the start time where there is no /proc."""
    boot, since = boot_id(), started(pid)
    if not boot or not since:  # not Linux
        boot, since = "", unknown_start
    return f"{socket.gethostname()} {boot} {pid} {since}"


def is_running(name: str) -> bool | None:
    """Whether the process of this name runs; None if that cannot be known here: another machine, or no /proc."""
    host, boot, pid, since = (*name.split(" "), "", "", "", "")[:4]
    if not (boot and pid.isdecimal() and since) or host != socket.gethostname() or not boot_id():
        return None
    return boot == boot_id() and started(int(pid)) == since


def boot_id() -> str:
    """The present boot of this machine; empty where there is no /proc."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return ""


def pid_namespace() -> str:
    """In which process ids have their meaning; empty where there is no /proc."""
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def started(pid: int) -> str:
    """Start time of a process, in ticks from the boot; empty if there is no such process."""
    try:
        state, *fields = Path(f"/proc/{pid}/stat").read_text("utf-8", errors="replace").rpartition(")")[2].split()
    except (OSError, ValueError):
        return ""
    return "" if state in "ZX" else fields[18]
