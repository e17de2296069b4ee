"""The file with measured choices: found, missing, damaged, of no use, and not writable."""

import json
from pathlib import Path

import pytest

from marl.compute.choice_cache import cache_file, remember


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "snakes_3v3"


class Measurement:
    """Gives a number, and counts how often."""

    def __init__(self, number: int) -> None:
        self.number, self.calls = number, 0

    def __call__(self) -> int:
        self.calls += 1
        return self.number


def any_number(value: int) -> bool:
    return type(value) is int


def test_a_choice_is_measured_once(folder) -> None:
    first, second = Measurement(3), Measurement(4)
    assert remember("a", first, any_number) == 3
    assert json.loads((folder / "threads.json").read_text()) == {"a": 3}
    assert remember("a", second, any_number) == 3
    assert (first.calls, second.calls) == (1, 0)


def test_other_keys_stay(folder) -> None:
    for key, number in (("a", 1), ("b", 2)):
        remember(key, Measurement(number), any_number)
    assert json.loads(cache_file().read_text()) == {"a": 1, "b": 2}


@pytest.mark.parametrize(
    "text", ["", "{", "[1, 2]", '{"a": "many"}', '{"a": true}', '{"a": null}', "\xff\0", "[" * 9999]
)
def test_a_damaged_file_is_measured_anew_and_replaced(text, folder) -> None:
    folder.mkdir(parents=True)
    (folder / "threads.json").write_text(text, encoding="latin-1")
    assert remember("a", Measurement(5), any_number) == 5
    assert remember("a", Measurement(6), any_number) == 5


def test_a_choice_that_is_not_allowed_here_is_measured_anew() -> None:
    remember("a", Measurement(9), any_number)
    assert remember("a", Measurement(2), lambda number: number <= 4) == 2


@pytest.mark.parametrize("what", ["file", "folder"])
def test_a_file_that_cannot_be_written_is_no_error(what, folder) -> None:
    """As root every file can be written, so something else is in its place."""
    if what == "file":
        (folder / "threads.json").mkdir(parents=True)
    else:
        folder.parent.mkdir()
        folder.write_text("")
    measurement = Measurement(7)
    assert [remember("a", measurement, any_number) for _ in range(2)] == [7, 7]
    assert measurement.calls == 2


def test_a_user_without_a_home_has_no_file(monkeypatch) -> None:
    def fail() -> Path:
        raise RuntimeError("no home")

    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", fail)
    assert cache_file() is None
    assert remember("a", Measurement(7), any_number) == 7


def test_without_a_variable_it_is_in_the_home(monkeypatch, tmp_path) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    assert cache_file() == tmp_path / ".cache" / "snakes_3v3" / "threads.json"
