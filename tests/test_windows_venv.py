"""scripts/windows_venv.py with a pip that only pretends, and train.bat, which calls it."""

import subprocess
from pathlib import Path

import pytest
from helpers.command import ROOT
from helpers.script import load_script

venv = load_script("windows_venv")


class Machine:
    """A copy of the files that the set-up reads, and what was called."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[list[str]] = []
        self.has_network = True
        for name in ("pyproject.toml", *venv.LOCKS.values()):
            (folder / name).write_bytes((ROOT / name).read_bytes())
        monkeypatch.setattr(venv, "ROOT", folder)
        monkeypatch.setattr(venv, "has_gpu", lambda: False)
        monkeypatch.setattr(venv.venv, "create", self.create)
        monkeypatch.setattr(venv.subprocess, "run", self.run)

    def create(self, folder: Path, clear: bool, with_pip: bool) -> None:
        assert clear
        assert with_pip
        venv.python().parent.mkdir(parents=True)
        venv.python().touch()
        self.calls.append(["venv"])

    def run(self, command: list, **_) -> subprocess.CompletedProcess:
        words = [str(word) for word in command[1:]]
        if words[-1] == "--version":
            return subprocess.CompletedProcess(command, 0 if ["venv"] in self.calls else 1)
        self.calls.append(words[words.index("--disable-pip-version-check") + 1 :])
        return subprocess.CompletedProcess(command, 0 if self.has_network else 1)


@pytest.fixture
def machine(tmp_path, monkeypatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


def test_a_first_start_installs_and_a_second_does_nothing(machine, tmp_path) -> None:
    venv.main([])
    own = ["--no-deps", "--no-build-isolation", "-e", str(tmp_path)]
    assert machine.calls == [["venv"], ["-r", str(tmp_path / "requirements.lock")], own]
    venv.main([])
    assert len(machine.calls) == 3
    venv.main(["dev"])
    assert machine.calls[3:] == [["-r", str(tmp_path / "requirements-dev.lock")]]


def test_another_lock_file_installs_again(machine, tmp_path) -> None:
    venv.main([])
    with open(tmp_path / "requirements.lock", "a", encoding="utf-8") as lock:
        lock.write("# changed\n")
    venv.main([])
    assert len(machine.calls) == 5  # the environment itself stays


def test_windows_gets_a_torch_with_cuda(machine, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(venv, "has_gpu", lambda: True)
    monkeypatch.setattr(venv, "ON_WINDOWS", True)
    venv.main([])
    torch = next(line for line in (ROOT / "requirements.lock").read_text("utf-8").splitlines() if "torch==" in line)
    assert machine.calls[1] == ["--force-reinstall", "--no-deps", "--index-url", venv.CUDA_TORCH, torch]
    locks = [str(tmp_path / name) for name in ("requirements.lock", "requirements-gpu.lock")]
    assert machine.calls[2] == ["-r", locks[0], "-r", locks[1]]


def test_mistakes_are_one_line(machine, monkeypatch, capsys) -> None:
    machine.has_network = False
    with pytest.raises(SystemExit, match="2"):
        venv.main([])
    assert "could not install" in capsys.readouterr().err.splitlines()[-1]
    with pytest.raises(SystemExit, match="2"):
        venv.main(["x"])
    assert "unknown part x" in capsys.readouterr().err
    monkeypatch.setattr(venv, "NEWEST", (3, 9))
    with pytest.raises(SystemExit, match="2"):
        venv.main([])
    assert "Python 3.10 to 3.13 is needed" in capsys.readouterr().err


def test_train_bat_calls_what_is_there() -> None:
    """It cannot be run here; its lines end as Windows' shell wants it."""
    data = (ROOT / "train.bat").read_bytes()
    assert data.count(b"\n") == data.count(b"\r\n")
    text = data.decode("ascii")
    assert r'"%root%scripts\windows_venv.py"' in text
    assert r'"%root%.venv\Scripts\python.exe" -m marl train --distributed' in text
