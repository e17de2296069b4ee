"""The filter's program, run here instead of in the kernel: what it refuses on both processors."""

import errno
import re
from pathlib import Path

import pytest

from opponents.cage.namespaces import PIVOT_ROOT
from opponents.cage.syscall_filter import (
    ALLOW,
    ANY_BIT,
    ARCHITECTURE,
    ARCHITECTURE_AT,
    CLONE,
    CLONE3,
    CLONE_THREAD,
    EQUAL,
    FIRST_ARGUMENT_AT,
    GREATER_OR_EQUAL,
    KILL,
    LOAD,
    MACHINES,
    OF_OWN_PROCESS,
    OF_OWN_PROCESS_OR_ZERO,
    PRCTL,
    REFUSE,
    REFUSED,
    REFUSED_COMMANDS,
    RETURN,
    SECOND_ARGUMENT_AT,
    X32,
    _program,
)

OWN = 77  # process id
REFUSAL, UNKNOWN = REFUSE | errno.EPERM, REFUSE | errno.ENOSYS
READ, EXIT_GROUP = (0, 63), (231, 94)
NUMBERS = REFUSED | OF_OWN_PROCESS | OF_OWN_PROCESS_OR_ZERO | {"clone": CLONE, "clone3": CLONE3, "prctl": PRCTL}
NUMBERS |= {name: numbers for name, (numbers, _) in REFUSED_COMMANDS.items()} | {"read": READ, "exit_group": EXIT_GROUP}
# Where packages put the kernel's own tables; Debian's linux-libc-dev-amd64-cross has that of x86_64 for any machine.
HEADERS = {
    "x86_64": [
        "/usr/include/x86_64-linux-gnu/asm/unistd_64.h",
        "/usr/x86_64-linux-gnu/include/asm/unistd_64.h",
        "/usr/include/asm/unistd_64.h",
    ],
    "aarch64": ["/usr/include/asm-generic/unistd.h"],
}


def verdict(machine: int, number: int, argument: int = 0, architecture: int | None = None, second: int = 0) -> int:
    """What the program says about a call with these arguments."""
    shown = ARCHITECTURE[MACHINES[machine]] if architecture is None else architecture
    fields = {0: number, ARCHITECTURE_AT: shown, FIRST_ARGUMENT_AT: argument, SECOND_ARGUMENT_AT: second}
    comparisons = {EQUAL: int.__eq__, GREATER_OR_EQUAL: int.__ge__, ANY_BIT: lambda a, b: a & b != 0}
    steps, at, loaded = _program(machine, OWN), 0, 0
    while steps[at].code != RETURN:
        step = steps[at]
        at += 1
        if step.code == LOAD:
            loaded = fields[step.operand]
        else:
            at += step.if_true if comparisons[step.code](loaded, step.operand) else step.if_false
    return steps[at].operand


@pytest.mark.parametrize("machine", range(len(MACHINES)), ids=MACHINES)
def test_what_the_filter_says(machine) -> None:
    for numbers in REFUSED.values():
        if numbers[machine] is not None:
            assert verdict(machine, numbers[machine]) == REFUSAL
    for numbers in (READ, EXIT_GROUP):
        assert verdict(machine, numbers[machine]) == ALLOW
    assert verdict(machine, CLONE[machine], 17) == REFUSAL  # a fork
    assert verdict(machine, CLONE[machine], CLONE_THREAD | 0x3D0F00) == ALLOW
    assert verdict(machine, CLONE3[machine]) == UNKNOWN
    for numbers in OF_OWN_PROCESS.values():
        assert verdict(machine, numbers[machine], OWN) == ALLOW
        for other in (0, 1, OWN + 1, 2**32 - 1):
            assert verdict(machine, numbers[machine], other) == REFUSAL
    for numbers in OF_OWN_PROCESS_OR_ZERO.values():
        assert [verdict(machine, numbers[machine], pid) for pid in (0, OWN, 1)] == [ALLOW, ALLOW, REFUSAL]
    for numbers, commands in REFUSED_COMMANDS.values():
        assert {verdict(machine, numbers[machine], 3, second=command) for command in commands} == {REFUSAL}
        assert {verdict(machine, numbers[machine], 3, second=command) for command in (1, 2, 3)} == {ALLOW}
    assert [verdict(machine, PRCTL[machine], option) for option in (1, 15)] == [REFUSAL, ALLOW]
    assert verdict(machine, READ[machine], architecture=ARCHITECTURE[MACHINES[1 - machine]]) == KILL


@pytest.mark.parametrize("machine", range(len(MACHINES)), ids=MACHINES)
def test_the_numbers_are_those_of_the_kernel(machine) -> None:
    name = MACHINES[machine]
    texts = [Path(file).read_text() for file in HEADERS[name] if Path(file).is_file()]
    found = [dict(re.findall(r"^#define __NR(?:3264)?_(\w+)\s+(\d+)", text, re.MULTILINE)) for text in texts]
    found = [table for table in found if table.get("read") == str(READ[machine])]  # that of i386 has the same name
    if not found:
        pytest.skip(f"no table of {name} in {', '.join(HEADERS[name])}: install the kernel's headers")
    table = {call: int(number) for call, number in found[0].items()}
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
    pairs = [*REFUSED.values(), CLONE, CLONE3, PRCTL, *OF_OWN_PROCESS.values(), *OF_OWN_PROCESS_OR_ZERO.values()]
    pairs += [numbers for numbers, _ in REFUSED_COMMANDS.values()]
    for machine in range(len(MACHINES)):
        known = [numbers[machine] for numbers in pairs if numbers[machine] is not None]
        assert len(known) == len(set(known))
