"""A filter of system calls (Linux's seccomp): what a process of the sandbox may ask of the kernel. All else is refused.

A submission computes, reads its files, writes to its scratch folder and starts threads. What Python, numpy and torch
call for that is in ALLOWED and RULES (syscall_table.py); they were found by running them. "Operation not permitted" is
the answer to what is known and refused (REFUSED); "function not implemented" to a call that is in no table, such as one
of a newer kernel, since that is what libraries expect of an older one. A filter cannot be taken off.

A process of a match has two of them, and the stricter answer counts: its own one, and that of the host. The latter has
a listener, which gets the calls that are in no table (UnknownCalls in host.py); so the former lets them pass.
"""

import ctypes
import errno
import os
import struct
import sys
from collections.abc import Iterable
from dataclasses import dataclass

from opponents.processes import PR_SET_NO_NEW_PRIVS, call, prctl
from opponents.sandbox.namespaces import CLONE_NEWNS
from opponents.sandbox.syscall_table import ALLOWED, HOST_ONLY, MACHINES, REFUSED, RULES, UNKNOWN_TO_LIBC, Numbers, Rule

ARCHITECTURE = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}  # as the kernel names them to a filter
X32 = 0x40000000  # calls of x86_64's 32-bit pointers have this bit
PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 22, 2
LOAD, EQUAL, GREATER_OR_EQUAL, ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
ALLOW, REFUSE, KILL, TELL = 0x7FFF0000, 0x00050000, 0x80000000, 0x7FC00000
SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER = 1, 8
NUMBER_AT, ARCHITECTURE_AT, ARGUMENTS_AT = 0, 4, 16  # bytes in the kernel's description of a call
ARGUMENT_BYTES, HALF_BYTES = 8, 4  # both machines have the lower half first
LONGEST = 4096  # instructions that Linux takes


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


_ALLOW, _REFUSE = _Step(RETURN, ALLOW), _Step(RETURN, REFUSE | errno.EPERM)
_UNKNOWN, _NOTIFY = _Step(RETURN, REFUSE | errno.ENOSYS), _Step(RETURN, TELL)


def install(has_host_filter: bool) -> None:
    """Filter the calls of a match's process and of its threads, for good."""
    _install(program(_machine(), os.getpid(), has_host_filter))


def install_in_host() -> int | None:
    """Filter the calls of the host and of all its children, for good; an open listener, or None before Linux 5.0."""
    try:
        return _install(host_program(_machine(), notifies=True), with_listener=True)
    except OSError:
        _install(host_program(_machine(), notifies=False))
        return None


def _machine() -> int:
    return MACHINES.index(os.uname().machine)


def _install(steps: list[_Step], with_listener: bool = False) -> int:
    text = b"".join(step.packed() for step in steps)
    kept = ctypes.create_string_buffer(text, len(text))
    described = struct.pack("@HP", len(steps), ctypes.addressof(kept))
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    zero = ctypes.c_ulong(0)
    if not with_listener:
        return call("prctl", PR_SET_SECCOMP, ctypes.c_ulong(SECCOMP_MODE_FILTER), described, zero, zero)
    number, flag = HOST_ONLY["seccomp"][_machine()], ctypes.c_ulong(SECCOMP_FILTER_FLAG_NEW_LISTENER)
    return call("syscall", ctypes.c_long(number), ctypes.c_ulong(SECCOMP_SET_MODE_FILTER), flag, described)


def program(machine: int, pid: int, has_host_filter: bool) -> list[_Step]:
    """The filter of the match's process with this id."""
    rules = {numbers[machine]: _checks(rule, pid) for numbers, rule in RULES.values()}
    return _program(machine, ALLOWED.values(), rules, _ALLOW if has_host_filter else _UNKNOWN)


def host_program(machine: int, notifies: bool) -> list[_Step]:
    """The filter of the host: it also starts and ends processes, and gives them their scratch folders and filters."""
    # Its own children, with ids of their own, are under this filter, too: their own one has the rules.
    allowed = [*ALLOWED.values(), *(numbers for numbers, _ in RULES.values()), *HOST_ONLY.values()]
    only_mounts = _checks(Rule(argument=0, values=(CLONE_NEWNS,)), 0)
    unshare = REFUSED["unshare"][machine]
    return _program(machine, allowed, {unshare: only_mounts}, _NOTIFY if notifies else _UNKNOWN)


def _program(
    machine: int, allowed: Iterable[Numbers], rules: dict[int | None, list[_Step]], others: _Step
) -> list[_Step]:
    steps = [
        _Step(LOAD, ARCHITECTURE_AT),
        _Step(EQUAL, ARCHITECTURE[MACHINES[machine]], if_true=1),
        _Step(RETURN, KILL),
        _Step(LOAD, NUMBER_AT),
    ]
    if MACHINES[machine] == "x86_64":
        steps += [_Step(GREATER_OR_EQUAL, X32, if_false=1), _UNKNOWN]
    verdicts = {numbers[machine]: [_ALLOW] for numbers in allowed} | rules
    for table, verdict in ((UNKNOWN_TO_LIBC, _UNKNOWN), (REFUSED, _REFUSE)):
        for numbers in table.values():
            verdicts.setdefault(numbers[machine], [verdict])
    verdicts.pop(None, None)
    for number, checks in verdicts.items():
        steps += [_Step(EQUAL, number, if_false=len(checks)), *checks]
    steps.append(others)
    assert len(steps) <= LONGEST
    return steps


def _checks(rule: Rule, pid: int) -> list[_Step]:
    """Instructions that end with a verdict on a call whose arguments must be as the rule says."""
    values = (*rule.values, pid) if rule.or_own_process else rule.values
    at = ARGUMENTS_AT + rule.argument * ARGUMENT_BYTES
    if rule.needed_bits:  # all of them: one comparison for each
        steps = [_Step(LOAD, at)]
        for place, bit in enumerate(rule.needed_bits):
            steps.append(_Step(ANY_BIT, bit, if_false=len(rule.needed_bits) - place))
        steps += [_ALLOW, _REFUSE]
    elif rule.refused_bits:  # all of them together
        steps = [_Step(LOAD, at)]
        for place, bit in enumerate(rule.refused_bits):
            steps.append(_Step(ANY_BIT, bit, if_false=len(rule.refused_bits) - place))
        steps += [_REFUSE, _ALLOW]
    elif rule.is_pointer:
        steps = [_Step(LOAD, at), _Step(EQUAL, 0, if_false=3), _Step(LOAD, at + HALF_BYTES)]
        steps += [_Step(EQUAL, 0, if_false=1), _ALLOW, _REFUSE]
    else:
        steps = [_Step(LOAD, at)]
        steps += [_Step(EQUAL, value, if_true=len(values) - place) for place, value in enumerate(values)]
        steps += [_REFUSE, _ALLOW]
    return steps
