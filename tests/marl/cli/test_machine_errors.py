"""Errors of the machine: each in one line with advice; other errors keep their traceback."""

import errno
import os

import pytest

from marl.cli import machine_errors


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "/a/b"), "/a/b: No space left on device; free some space"),
        (OSError(errno.EMFILE, "Too many open files"), "Too many open files; raise the limit with `ulimit -n 1024`"),
        (FileNotFoundError(2, "No usable temporary directory found in ['/tmp']"), "set TMPDIR to a folder that can"),
        (MemoryError(), "Cannot allocate memory; free some memory"),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried"), "free some memory"),
        (RuntimeError("unable to open file </x>: Too many open files (24)"), "`ulimit -n 1024`"),
        (RuntimeError("can't start new thread"), "`ulimit -u`"),
        (RuntimeError("Could not determine home directory."), "set HOME"),
        (ImportError("libtorch_cpu.so: failed to map segment from shared object"), "free some memory"),
    ],
)
def test_an_error_of_the_machine_comes_with_advice(error, line) -> None:
    assert line in machine_errors.describe(error)


@pytest.mark.parametrize(
    "error", [ValueError("x"), FileNotFoundError(2, os.strerror(2), "/x"), RuntimeError("size mismatch"), KeyError("a")]
)
def test_what_may_be_a_mistake_in_the_program_is_not_hidden(error) -> None:
    assert machine_errors.describe(error) is None


def test_a_path_that_is_too_long_for_windows_is_told(monkeypatch) -> None:
    path = "C:\\" + "x" * 260
    error = FileNotFoundError(errno.ENOENT, "The system cannot find the path specified", path)
    assert machine_errors.describe(error) is None
    monkeypatch.delattr(os, "fork")
    line = machine_errors.describe(error)
    assert line.startswith(path)
    assert "shorter folder" in line
    assert machine_errors.describe(FileNotFoundError(errno.ENOENT, "No such file", "C:\\x")) is None
