"""What stands for POSIX on systems without it, played with modules that pretend to be Windows'."""

import os
import signal
import subprocess
import sys
import types
from unittest import mock

from arena import system


def test_linux_has_all() -> None:
    if sys.platform == "linux":
        assert system.HAS_FORK
        assert system.FORKS_WHEN_LOADED
        assert system.HAS_SESSIONS
        assert system.REPLACES_OPEN_FILES
    assert {signal.SIGINT, signal.SIGTERM} <= {*system.STOP_SIGNALS}


def test_without_sessions_a_program_has_a_process_group(monkeypatch) -> None:
    monkeypatch.setattr(system, "HAS_SESSIONS", False)
    monkeypatch.setattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0x200, raising=False)
    assert system.apart_from_console(lambda: None) == {"creationflags": 0x200}


def test_a_program_is_asked_by_the_signal_that_reaches_it(monkeypatch) -> None:
    process = mock.Mock()
    monkeypatch.setattr(signal, "CTRL_BREAK_EVENT", 1, raising=False)
    system.ask_to_end(process)
    monkeypatch.delattr(signal, "CTRL_BREAK_EVENT")
    system.ask_to_end(process)
    assert [call.args for call in process.send_signal.call_args_list] == [(1,), (signal.SIGTERM,)]


def test_the_end_of_the_parent_is_waited_for(monkeypatch) -> None:
    waited = []
    windows = types.ModuleType("_winapi")
    windows.SYNCHRONIZE, windows.INFINITE = 1, -1
    windows.OpenProcess = lambda rights, inherits, pid: (rights, inherits, pid)
    windows.WaitForSingleObject = lambda handle, seconds: waited.append((handle, seconds))
    monkeypatch.setitem(sys.modules, "_winapi", windows)
    system.wait_for_end_of(os.getppid(), 60.0)
    assert waited == [((1, False, os.getppid()), -1)]

    def refuse(*_):
        raise OSError(87, "The parameter is incorrect")

    windows.OpenProcess = refuse  # it has ended already
    system.wait_for_end_of(os.getppid(), 60.0)
    assert len(waited) == 1
    monkeypatch.setitem(sys.modules, "_winapi", None)  # not Windows
    system.wait_for_end_of(-1, 60.0)  # another parent
