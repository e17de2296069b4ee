"""The bar of a long command: on a terminal only, after a moment, with the time left and without compile time."""

import io
import re

import pytest

from marl.cli.progress_bar import ProgressBar


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def drawn(stream: io.StringIO, shares: list[tuple[float, float]]) -> str:
    """What a bar writes for (seconds, done share), without control sequences."""
    now = [0.0]
    with ProgressBar("level3 - level2", stream, lambda: now[0]) as bar:
        for seconds, share in shares:
            now[0] = seconds
            bar.show(share)
    bar.close()
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", stream.getvalue())


@pytest.fixture(autouse=True)
def _terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")


def test_a_terminal_sees_the_share_and_the_time_left() -> None:
    shown = drawn(Terminal(), [(60.0, 0.1), (62.0, 0.2), (68.0, 0.5)])  # the first turn compiled for a minute
    assert re.search(r"level3 - level2 .* 20 %  16 s left", shown)
    assert re.search(r"level3 - level2 .* 50 %  10 s left", shown)


def test_short_work_shows_nothing() -> None:
    assert drawn(Terminal(), [(0.0, 0.0), (0.2, 0.5), (0.4, 1.0)]) == ""


def test_a_pipe_and_a_dumb_terminal_get_nothing(monkeypatch) -> None:
    shares = [(0.0, 0.1), (5.0, 0.5), (10.0, 1.0)]
    assert drawn(io.StringIO(), shares) == ""
    monkeypatch.setenv("TERM", "dumb")
    assert drawn(Terminal(), shares) == ""
