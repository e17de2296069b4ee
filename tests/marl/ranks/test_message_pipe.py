"""The last messages of forked ranks: printed once, or kept back; none is lost with the launcher."""

import os

import pytest

from marl.ranks import exits
from marl.ranks.message_pipe import MessagePipe


@pytest.fixture
def pipe(monkeypatch):
    """A pipe that this process, as a rank, writes to; it is the launcher, too."""
    monkeypatch.setattr(exits, "_pipe", [])
    pipe = MessagePipe()
    exits.leave_messages_to(pipe._writing)
    yield pipe
    for file in (pipe._reading, pipe._writing):
        os.close(file)


def test_equal_messages_are_printed_once_and_others_too(pipe, capsys) -> None:
    for message in ("rank 1 is lost", "rank 1 is lost", "the store is gone"):
        exits.tell(message)
    assert capsys.readouterr().err == ""
    pipe.print_messages()
    assert capsys.readouterr().err == "snakes: rank 1 is lost\nsnakes: the store is gone\n"
    exits.tell("rank 1 is lost")
    pipe.print_messages()
    assert capsys.readouterr().err == ""


def test_without_a_launcher_a_rank_prints_its_message_itself(monkeypatch, capfd) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    monkeypatch.setattr(exits, "_pipe", [writing])
    exits.tell("rank 1 is lost")
    os.close(writing)
    assert capfd.readouterr().err == "snakes: rank 1 is lost\n"
