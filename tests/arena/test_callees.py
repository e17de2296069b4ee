"""Functions that compiled code calls become part of their callers; calls from Python are as before."""

import numba
import numpy as np
import pytest

from arena.jit import njit

TABLE = np.arange(10, dtype=np.int64) ** 2


@njit
def scaled(x, factor=2):
    """With a default argument, a table and a branch that depends on the argument."""
    return x * factor if factor > 0 else TABLE[x]


@njit
def checked(x):
    if x < 0:
        raise ValueError("negative")
    return x


@njit
def factorial(n):
    """Calls itself."""
    return 1 if n < 2 else n * factorial(n - 1)


@njit
def pair(x):
    return x, scaled(x, factor=3)


@njit
def caller(values, out):
    """Calls with constants, with a variable, by name, with the default; arrays, tuples, floats."""
    x = values[0]
    out[0] = scaled(x)
    out[1] = scaled(x, 0)
    out[2] = scaled(x, factor=x)
    first, second = pair(checked(x))
    out[3] = first + second
    out[4] = factorial(x)
    out[5] = checked(x + 0.5)


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="plain Python has no callees")
def test_callers_get_what_python_gets() -> None:
    """One compile of the caller; its callees are compiled for calls from Python only when Python calls them."""
    for x in (0, 3, 9):
        values, out = np.array([x]), np.zeros(6)
        caller(values, out)
        expected = [2 * x, x**2, x * x if x else 0, 4 * x, float(np.prod(np.arange(1.0, x + 1))), x + 0.5]
        assert out.tolist() == expected
    assert [len(each.signatures) for each in (caller, scaled, checked, factorial, pair)] == [1, 0, 0, 0, 0]
    assert (scaled(3), scaled(3, 0), factorial(5), pair(2)) == (6, 9, 120, (2, 6))
    assert len(scaled.signatures) == 2, "called without and with the second argument"


def test_an_error_of_a_callee_reaches_python() -> None:
    with pytest.raises(ValueError, match="negative"):
        caller(np.array([-1]), np.zeros(6))


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="plain Python has no machine code")
def test_callees_leave_no_calls_in_the_machine_code() -> None:
    """All are inlined, but for the one that calls itself."""
    caller(np.array([1]), np.zeros(6))
    (code,) = caller.inspect_llvm().values()
    calls = [line for line in code.splitlines() if " call " in line]
    assert not [line for line in calls if any(name in line for name in ("scaled", "checked", "pair"))], calls
