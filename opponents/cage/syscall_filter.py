"""A filter of system calls (Linux's seccomp): what a match's process may not ask of the kernel.

A submission computes, reads its files and starts threads. It gets "Operation not permitted" for everything that reaches
other processes, the network, mounts, namespaces, or memory that no limit counts. The filter cannot be taken off.
"""

import ctypes
import errno
import os
import struct
import sys
from dataclasses import dataclass

from opponents.cage.namespaces import PR_SET_NO_NEW_PRIVS, PR_SET_PDEATHSIG, call, prctl

# name: (x86_64, aarch64); None: the processor has no such call
REFUSED: dict[str, tuple[int | None, int]] = {
    "socket": (41, 198),
    "fork": (57, None),
    "vfork": (58, None),
    "execve": (59, 221),
    "execveat": (322, 281),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "kcmp": (312, 272),
    "move_pages": (279, 239),
    "migrate_pages": (256, 238),
    "tkill": (200, 130),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "pidfd_send_signal": (424, 424),
    "pidfd_open": (434, 434),
    "pidfd_getfd": (438, 438),
    "setsid": (112, 157),
    "setpgid": (109, 154),
    "unshare": (272, 97),
    "setns": (308, 268),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "fanotify_init": (300, 262),
    "setpriority": (141, 140),
    "ioprio_set": (251, 30),
    "personality": (135, 92),
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "shmget": (29, 194),
    "msgget": (68, 186),
    "semget": (64, 190),
    "mq_open": (240, 180),
}
CLONE, CLONE3, PRCTL = (56, 220), (435, 435), (157, 167)
OF_OWN_PROCESS = {"kill": (62, 129), "tgkill": (234, 131)}
OF_OWN_PROCESS_OR_ZERO = {  # zero: the caller
    "prlimit64": (302, 261),
    "sched_setparam": (142, 118),
    "sched_setscheduler": (144, 119),
    "sched_setaffinity": (203, 122),
    "sched_setattr": (314, 274),
}
# By their second argument: whom the kernel signals about a file, and which signal; input for a terminal.
REFUSED_COMMANDS = {"fcntl": ((72, 25), (8, 10, 15)), "ioctl": ((16, 29), (0x8901, 0x8902, 0x5412))}

MACHINES = ("x86_64", "aarch64")
ARCHITECTURE = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}  # as the kernel names them to a filter
X32 = 0x40000000  # calls of x86_64's 32-bit pointers have this bit
CLONE_THREAD = 0x10000
PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 22, 2
LOAD, EQUAL, GREATER_OR_EQUAL, ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
ALLOW, REFUSE, KILL = 0x7FFF0000, 0x00050000, 0x80000000
NUMBER_AT, ARCHITECTURE_AT, FIRST_ARGUMENT_AT, SECOND_ARGUMENT_AT = (
    0,
    4,
    16,
    24,
)  # bytes in the kernel's description of a call


def is_known_here() -> bool:
    """Whether the numbers of this system's calls are in the tables."""
    return sys.platform == "linux" and os.uname().machine in MACHINES and sys.maxsize > 1 << 32


@dataclass(frozen=True)
class _Step:
    """One instruction: code, operand, and how many instructions to skip if a comparison holds or not."""

    code: int
    operand: int
    if_true: int = 0
    if_false: int = 0

    def packed(self) -> bytes:
        return struct.pack("=HBBI", self.code, self.if_true, self.if_false, self.operand)


def install() -> None:
    """Filter the calls of this process and of its threads, for good."""
    text = b"".join(step.packed() for step in _program(MACHINES.index(os.uname().machine), os.getpid()))
    kept = ctypes.create_string_buffer(text, len(text))
    program = struct.pack("@HP", len(text) // 8, ctypes.addressof(kept))
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    call("prctl", PR_SET_SECCOMP, ctypes.c_ulong(SECCOMP_MODE_FILTER), program, ctypes.c_ulong(0), ctypes.c_ulong(0))


def _program(machine: int, pid: int) -> list[_Step]:
    refuse, allow = _Step(RETURN, REFUSE | errno.EPERM), _Step(RETURN, ALLOW)
    unknown = _Step(RETURN, REFUSE | errno.ENOSYS)
    argument = _Step(LOAD, FIRST_ARGUMENT_AT)
    steps = [
        _Step(LOAD, ARCHITECTURE_AT),
        _Step(EQUAL, ARCHITECTURE[MACHINES[machine]], if_true=1),
        _Step(RETURN, KILL),
        _Step(LOAD, NUMBER_AT),
    ]
    if MACHINES[machine] == "x86_64":
        steps += [_Step(GREATER_OR_EQUAL, X32, if_false=1), unknown]
    for numbers in REFUSED.values():
        if numbers[machine] is not None:
            steps += [_Step(EQUAL, numbers[machine], if_false=1), refuse]
    steps += [_Step(EQUAL, CLONE3[machine], if_false=1), unknown]  # libc then uses clone, whose flags can be read
    steps += [_Step(EQUAL, CLONE[machine], if_false=4), argument, _Step(ANY_BIT, CLONE_THREAD, if_false=1)]
    steps += [allow, refuse]
    for numbers in OF_OWN_PROCESS.values():
        steps += [_Step(EQUAL, numbers[machine], if_false=4), argument, _Step(EQUAL, pid, if_false=1), allow, refuse]
    for numbers in OF_OWN_PROCESS_OR_ZERO.values():
        steps += [_Step(EQUAL, numbers[machine], if_false=5), argument, _Step(EQUAL, 0, if_true=1)]
        steps += [_Step(EQUAL, pid, if_false=1), allow, refuse]
    for numbers, commands in REFUSED_COMMANDS.values():
        steps += [_Step(EQUAL, numbers[machine], if_false=2 + len(commands) + 1), _Step(LOAD, SECOND_ARGUMENT_AT)]
        steps += [_Step(EQUAL, command, if_true=len(commands) - place) for place, command in enumerate(commands)]
        steps += [allow, refuse]
    steps += [_Step(EQUAL, PRCTL[machine], if_false=4), argument, _Step(EQUAL, PR_SET_PDEATHSIG, if_false=1)]
    steps += [refuse, allow]
    return [*steps, allow]
