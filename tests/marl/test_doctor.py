"""snakes doctor: its report, and what it says when something is wrong."""

import json
import sys

import pytest
from command import snakes

from marl import doctor


def checks_of(report):
    return {check["name"]: check for check in report["checks"]}


def test_json_report():
    result = snakes("doctor", "--json")
    report = json.loads(result.stdout)
    assert result.returncode == 0, report["checks"]
    assert report["ok"] is True
    assert report["backend"] in ("gloo", "nccl")
    assert {"python", "torch", "numba", "numba-cuda", "numpy", "pettingzoo"} == set(report["versions"])
    assert report["cpu"]["cores"] >= 1
    assert {"packages", "cache", "self-check on cpu"} <= set(checks_of(report))


@pytest.mark.needs_cuda
def test_the_gpu_ends_the_same_matches():
    assert doctor.checksum("cuda") == doctor.CHECKSUM


@pytest.fixture
def report(capsys):
    """Run doctor here; give its exit code and its report."""

    def run():
        arguments = type("Arguments", (), {"json": True})
        return doctor.run(arguments), json.loads(capsys.readouterr().out)

    return run


def test_a_wrong_game_fails(report, monkeypatch):
    monkeypatch.setattr(doctor, "checksum", lambda device: "another")
    code, found = report()
    assert code == 1
    assert not found["ok"]
    assert "another" in checks_of(found)["self-check on cpu"]["detail"]
    assert checks_of(found)["self-check on cpu"]["fix"]


def test_a_cache_that_cannot_be_written_fails(report, monkeypatch, tmp_path):
    import numba

    file = tmp_path / "file"
    file.write_text("")
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(file / "folder"))  # nobody can write there, not even root
    monkeypatch.setattr(doctor, "checksum", lambda device: doctor.CHECKSUM)
    code, found = report()
    assert code == 1
    assert "NUMBA_CACHE_DIR" in checks_of(found)["cache"]["fix"]


def test_a_missing_package_is_reported(report, monkeypatch):
    monkeypatch.setitem(sys.modules, "arena", None)
    code, found = report()
    assert code == 1
    assert list(checks_of(found)) == ["packages"]


def test_text_says_what_failed_and_what_to_do(monkeypatch, capsys):
    monkeypatch.setattr(doctor, "checksum", lambda device: "another")
    assert doctor.run(type("Arguments", (), {"json": False})) == 1
    failed = [line for line in capsys.readouterr().out.splitlines() if line.startswith("FAILED")]
    assert failed
    assert all("cache folder" in line for line in failed)
