"""The filter's program, run here instead of in the kernel: what it refuses on both processors."""

import errno
import re
from pathlib import Path

import pytest

from opponents.sandbox.namespaces import CLONE_NEWNS, CLONE_NEWUSER, PIVOT_ROOT
from opponents.sandbox.syscall_filter import (
    ALLOW,
    ANY_BIT,
    ARCHITECTURE,
    ARCHITECTURE_AT,
    ARGUMENT_BYTES,
    ARGUMENTS_AT,
    EQUAL,
    GREATER_OR_EQUAL,
    HALF_BYTES,
    KILL,
    LOAD,
    REFUSE,
    RETURN,
    TELL,
    X32,
    host_program,
    program,
)
from opponents.sandbox.syscall_table import (
    ALLOWED,
    CLONE_THREAD,
    DEVICE_COMMANDS,
    FILE_COMMANDS,
    HOST_ONLY,
    MACHINES,
    PROCESS_OPTIONS,
    REFUSED,
    RULES,
    UNKNOWN_TO_LIBC,
)

OWN = 77  # process id
REFUSAL, UNKNOWN = REFUSE | errno.EPERM, REFUSE | errno.ENOSYS
NUMBERS = ALLOWED | REFUSED | UNKNOWN_TO_LIBC | {name: numbers for name, (numbers, _) in RULES.items()}
READ = ALLOWED["read"]
# Where packages put the kernel's own tables; Debian's linux-libc-dev-amd64-cross has that of x86_64 for any machine.
HEADERS = {
    "x86_64": [
        "/usr/include/x86_64-linux-gnu/asm/unistd_64.h",
        "/usr/x86_64-linux-gnu/include/asm/unistd_64.h",
        "/usr/include/asm/unistd_64.h",
    ],
    "aarch64": ["/usr/include/asm-generic/unistd.h"],
}


def verdict(machine: int, number: int, *arguments: int, architecture: int | None = None, host: bool = False) -> int:
    """What the program says about a call with these arguments."""
    shown = ARCHITECTURE[MACHINES[machine]] if architecture is None else architecture
    fields = {0: number, ARCHITECTURE_AT: shown}
    for place in range(6):
        value = arguments[place] if place < len(arguments) else 0
        at = ARGUMENTS_AT + place * ARGUMENT_BYTES
        fields |= {at: value & 0xFFFFFFFF, at + HALF_BYTES: value >> 32 & 0xFFFFFFFF}
    comparisons = {EQUAL: int.__eq__, GREATER_OR_EQUAL: int.__ge__, ANY_BIT: lambda a, b: a & b != 0}
    steps, at, loaded = host_program(machine, True) if host else program(machine, OWN, has_host_filter=False), 0, 0
    while steps[at].code != RETURN:
        step = steps[at]
        at += 1
        if step.code == LOAD:
            loaded = fields[step.operand]
        else:
            at += step.if_true if comparisons[step.code](loaded, step.operand) else step.if_false
    return steps[at].operand


def asked(machine: int, name: str, *arguments: int) -> int:
    return verdict(machine, NUMBERS[name][machine], *arguments)


@pytest.mark.parametrize("machine", range(len(MACHINES)), ids=MACHINES)
def test_what_the_filter_says(machine) -> None:
    for name, numbers in REFUSED.items():
        if numbers[machine] is not None:
            assert verdict(machine, numbers[machine]) == REFUSAL, name
    for name, numbers in ALLOWED.items():
        if numbers[machine] is not None:
            assert verdict(machine, numbers[machine], OWN + 1, 99, 99, 0x31, 99, 99) == ALLOW, name
    known = {numbers[machine] for numbers in NUMBERS.values()}
    assert {verdict(machine, number) for number in range(1200) if number not in known} == {UNKNOWN}
    assert asked(machine, "clone", 17) == REFUSAL  # a fork
    assert asked(machine, "clone", CLONE_THREAD | 0x3D0F00) == ALLOW
    assert asked(machine, "clone3") == UNKNOWN
    for name in ("kill", "tgkill"):
        assert asked(machine, name, OWN) == ALLOW
        assert {asked(machine, name, other) for other in (0, 1, OWN + 1, 2**32 - 1)} == {REFUSAL}
    for name in ("prlimit64", "sched_setaffinity"):
        assert [asked(machine, name, pid) for pid in (0, OWN, 1)] == [ALLOW, ALLOW, REFUSAL]
    for name, commands in (("fcntl", FILE_COMMANDS), ("ioctl", DEVICE_COMMANDS)):
        assert {asked(machine, name, 3, command) for command in commands} == {ALLOW}
    refused = (5, 6, 7, 8, 10, 15, 37, 1024, 1026, 1031)  # locks, owners, signals, leases, notices, size of a pipe
    assert {asked(machine, "fcntl", 3, command) for command in refused} == {REFUSAL}
    assert {asked(machine, "ioctl", 3, command) for command in (0x8901, 0x8902, 0x5412)} == {REFUSAL}
    assert {asked(machine, "prctl", option) for option in PROCESS_OPTIONS} == {ALLOW}
    assert {asked(machine, "prctl", option) for option in (1, 4, 22, 24, 38, 47)} == {REFUSAL}
    assert [asked(machine, "mmap", 0, 9, 3, flags) for flags in (0x22, 0x1, 0x21, 0x23)] == [ALLOW, ALLOW] + [
        REFUSAL
    ] * 2
    assert [asked(machine, "socketpair", family) for family in (1, 2, 30)] == [ALLOW, REFUSAL, REFUSAL]
    assert [asked(machine, "sendto", 3, 9, 9, 0, at) for at in (0, 9, 9 << 32)] == [ALLOW, REFUSAL, REFUSAL]
    assert verdict(machine, READ[machine], architecture=ARCHITECTURE[MACHINES[1 - machine]]) == KILL


@pytest.mark.parametrize("machine", range(len(MACHINES)), ids=MACHINES)
def test_what_the_filter_of_the_host_says(machine) -> None:
    for name, numbers in (ALLOWED | HOST_ONLY).items():
        if numbers[machine] is not None:
            assert verdict(machine, numbers[machine], host=True) == ALLOW, name
    for name in REFUSED.keys() - HOST_ONLY.keys():
        if REFUSED[name][machine] is not None:
            assert verdict(machine, REFUSED[name][machine], host=True) == REFUSAL, name
    flags = (CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWUSER | CLONE_NEWNS)
    said = [verdict(machine, REFUSED["unshare"][machine], flag, host=True) for flag in flags]
    assert said == [ALLOW, REFUSAL, REFUSAL]
    assert verdict(machine, 999, host=True) == TELL
    assert host_program(machine, notifies=False)[-1].operand == UNKNOWN
    # The filter of the match leaves it to that of the host.
    assert program(machine, OWN, has_host_filter=True)[-1].operand == ALLOW


@pytest.mark.parametrize("machine", range(len(MACHINES)), ids=MACHINES)
def test_the_numbers_are_those_of_the_kernel(machine) -> None:
    name = MACHINES[machine]
    texts = [Path(file).read_text() for file in HEADERS[name] if Path(file).is_file()]
    found = [dict(re.findall(r"^#define __NR(?:3264)?_(\w+)\s+(\d+)", text, re.MULTILINE)) for text in texts]
    found = [table for table in found if table.get("read") == str(READ[machine])]  # that of i386 has the same name
    if not found:
        pytest.skip(f"no table of {name} in {', '.join(HEADERS[name])}: install the kernel's headers")
    table = {call: int(number) for call, number in found[0].items()}
    table.setdefault("newfstatat", table.get("fstatat"))  # its name in the table that several processors share
    assert PIVOT_ROOT[name] == REFUSED["pivot_root"][machine]
    newest = max(table.values())  # headers may be older than a call
    differ = {
        call: (numbers[machine], table.get(call))
        for call, numbers in NUMBERS.items()
        if table.get(call) != numbers[machine] and (numbers[machine] or 0) <= newest
    }
    assert not differ, differ


def test_calls_with_short_pointers_are_unknown() -> None:
    assert verdict(MACHINES.index("x86_64"), X32 | 520) == UNKNOWN  # its execve


def test_no_number_is_named_twice() -> None:
    tables = [ALLOWED, REFUSED, UNKNOWN_TO_LIBC, {name: numbers for name, (numbers, _) in RULES.items()}]
    for machine in range(len(MACHINES)):
        known = [number for table in tables for numbers in table.values() if (number := numbers[machine]) is not None]
        assert len(known) == len(set(known))
