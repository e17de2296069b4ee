"""The arena's side of a channel: only well-formed answers count, whatever a process writes."""

import json
import os
import socket
import sys

import pytest

from opponents.sandbox.controller import HEADER, TEXT_LENGTH
from opponents.sandbox.process import ANSWER_BYTES, Broken, Host, MatchProcess


class NoHost:
    """Stands for a host that is gone."""

    class end:
        alive = False


def channel() -> tuple[MatchProcess, socket.socket]:
    ours, theirs = socket.socketpair()
    return MatchProcess(NoHost(), 1, ours), theirs


def framed(text: bytes) -> bytes:
    return HEADER.pack(len(text)) + text


GARBAGE = [
    b"\xff" * 9,
    HEADER.pack(ANSWER_BYTES) + b"x",
    *map(
        framed, [b"", b"{}", b"[]", b"3", b"null", b"[2]", b"[2, 4]", b"[2, -1]", b"[2, 1.0]", b"[2, true]", b"[3, 1]"]
    ),
    *map(framed, [b"[2.0, 1]", b"[true, 1]", b"[2, 1, 1]", b"[2, null]", b"[2, [1]]", b"[2, 1", b"\x80\x04.", b"\xff"]),
    framed(b"[" * 2000),
    framed(b"[2, " + b"9" * 4000 + b"]"),
]


@pytest.mark.parametrize("data", GARBAGE)
def test_garbage_is_no_answer(data) -> None:
    process, theirs = channel()
    theirs.sendall(data)
    process.read()
    with pytest.raises(Broken, match="disturbed"):
        process.next_answer(2)
    process.end()
    theirs.close()


def test_answers_may_come_in_pieces_and_texts_are_cut() -> None:
    process, theirs = channel()
    data = framed(b"[2, 3]") + framed(json.dumps([3, "x" * 3000]).encode())
    for place in range(len(data)):
        theirs.sendall(data[place : place + 1])
        process.read()
        if place < len(framed(b"[2, 3]")) - 1:
            assert process.next_answer(2) is None
    assert process.next_answer(2) == 3
    assert process.next_answer(3) == "x" * TEXT_LENGTH
    assert process.next_answer(4) is None
    theirs.close()
    with pytest.raises(Broken):
        process.read()


def test_a_process_that_does_not_read_does_not_block_the_arena() -> None:
    process, theirs = channel()
    process.post({"observation": "x" * (1 << 22)})
    assert process.has_unsent
    process.end()
    theirs.close()


@pytest.mark.skipif(sys.platform != "linux", reason="the identity of a sender is Linux's")
def test_a_process_that_answers_before_the_arena_goes_on_is_known_by_its_own_id() -> None:
    class Control:
        """A host whose process answers as soon as it has its socket."""

        def sendmsg(self, _: list[bytes], aside: list[tuple]) -> None:
            theirs = socket.socket(fileno=os.dup(aside[0][2][0]))
            theirs.sendall(b"hello")
            theirs.close()

    host = Host.__new__(Host)
    host._control, host._started = Control(), 0
    process = host.start()
    process.read()
    assert process._pid == os.getpid()
