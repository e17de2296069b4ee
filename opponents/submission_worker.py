"""The process of a competition submission, with both ends of its pipes. Uses only the standard library.

`Process` is the arena's end; this file run as a program is the submission's end. Requests and answers are 4 bytes of
length and a JSON text:
    {"load": slot}                                      -> [slot, 0, 0], or [slot, 0, "what went wrong"]
    {"slot": .., "snakes": [ids], "observation": ..}    -> per snake [slot, id, move], or [slot, id, "what went wrong"]
Every slot (match) has its own module, so the global variables of a controller belong to one match.
"""

import importlib.util
import json
import math
import os
import random
import reprlib
import select
import signal
import struct
import subprocess
import sys
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import CodeType
from typing import Any

HEADER = struct.Struct(">I")
MOVES = 4
TEXT_LENGTH = 200
NO_CONTROLLER = "it has no function my_controller(observation, action_space, is_act_continuous)"
LOAD_SECONDS = 30.0
ANSWER_BYTES = 4096
DISTURBED = "closed or disturbed its pipe to the arena"
READ_BYTES = 1 << 16
# Variables that Python and its packages may need. No GPU: the competition has none, and training uses ours.
ENVIRONMENT_KEPT = ("PATH", "HOME", "LANG", "TMPDIR", "PYTHONPATH", "LD_LIBRARY_PATH")
ENVIRONMENT_SET = {"CUDA_VISIBLE_DEVICES": "", "PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


class Broken(Exception):
    """The process cannot be used any more; the text says why."""


class Process:
    """The child process and the pipes to it."""

    def __init__(self, path: Path, seconds_per_move: float) -> None:
        environment = {name: os.environ[name] for name in ENVIRONMENT_KEPT if name in os.environ}
        try:
            self._child = subprocess.Popen(
                [sys.executable, "-B", str(Path(__file__).resolve()), str(path), str(seconds_per_move)],
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd=path.parent,
                env=environment | ENVIRONMENT_SET,
                start_new_session=True,
            )
        except OSError as error:
            raise Broken(f"no process could be started: {error}") from None
        self.end = weakref.finalize(self, _end_child, self._child, os.getpid())
        self._requests, self._answers = self._child.stdin.fileno(), self._child.stdout.fileno()
        os.set_blocking(self._requests, False)  # a child that does not read must not block the arena
        self._unsent = bytearray()
        self._unread = bytearray()
        self._poll = select.poll()
        self._poll.register(self._answers, select.POLLIN)

    def trouble(self) -> str | None:
        """The reason why the process cannot be used, or None. Called when no answer is expected."""
        return self._how_it_ended() if self._unread or self._poll.poll(0) else None

    def post(self, request: dict[str, Any]) -> None:
        """Queue a request; `receive` sends it while it waits for answers."""
        text = json.dumps(request, separators=(",", ":")).encode()
        self._unsent += HEADER.pack(len(text)) + text
        self._poll.register(self._requests, select.POLLOUT)

    def receive(self, slot: int, snake: int, seconds: float) -> int | str:
        """The answer for this slot and snake: a number, or the text of a problem. Broken if it takes too long."""
        deadline = None
        while (text := self._next()) is None:
            now = time.monotonic()
            deadline = now + seconds if deadline is None else deadline
            events = self._poll.poll(math.ceil(max(0.0, deadline - now) * 1000))
            if not events:
                raise Broken(f"took longer than {seconds:g} s and was stopped")
            for pipe, _ in events:
                if pipe == self._requests:
                    self._send()
                elif more := os.read(pipe, READ_BYTES):
                    self._unread += more
                else:
                    raise Broken(self._how_it_ended())
        try:
            answer = json.loads(text)
        except (ValueError, RecursionError):
            answer = None
        if isinstance(answer, list) and len(answer) == 3 and answer[:2] == [slot, snake]:
            result = answer[2]
            if isinstance(result, str) or (type(result) is int and 0 <= result < MOVES):
                return result
        raise Broken(DISTURBED)

    def _send(self) -> None:
        try:
            del self._unsent[: os.write(self._requests, self._unsent)]
        except BlockingIOError:
            return
        except OSError:  # the process has ended; its last answers are read first
            self._unsent.clear()
        if not self._unsent:
            self._poll.unregister(self._requests)

    def _next(self) -> bytes | None:
        """The next complete answer, or None."""
        if len(self._unread) < HEADER.size:
            return None
        end = HEADER.size + HEADER.unpack_from(self._unread)[0]
        if end > ANSWER_BYTES:
            raise Broken(DISTURBED)
        if len(self._unread) < end:
            return None
        text, self._unread = bytes(self._unread[HEADER.size : end]), self._unread[end:]
        return text

    def _how_it_ended(self) -> str:
        self.end()
        code = self._child.returncode
        if code == -signal.SIGKILL:  # sent by `end`, or by the system when memory ran out
            return f"{DISTURBED}, or was killed"
        return f"ended its process (exit code {code})" if code >= 0 else f"crashed (signal {-code})"


def _end_child(child: subprocess.Popen, owner: int) -> None:
    if os.getpid() != owner:  # this is a fork of the arena; the child belongs to the original
        return
    with suppress(ProcessLookupError, PermissionError):  # macOS raises the latter for a group that has ended
        os.killpg(child.pid, signal.SIGKILL)  # not reaped yet, so the id still belongs to the child
    child.wait()
    child.stdin.close()
    child.stdout.close()


class Discrete:
    """The competition's action space; some controllers sample from it and check its class name."""

    def __init__(self, n: int) -> None:
        self.n = n

    def sample(self) -> int:
        """A random action."""
        return random.randrange(self.n)


def read_move(answer: Any) -> int | str:
    """The move in [[one-hot of 4]], read as the competition does: the first 1 in the first row. Or the problem."""
    rows = answer.tolist() if hasattr(answer, "tolist") else answer
    if isinstance(rows, (list, tuple)) and rows:
        row = rows[0].tolist() if hasattr(rows[0], "tolist") else rows[0]
        if isinstance(row, (list, tuple)) and len(row) == MOVES and 1 in row:
            return list(row).index(1)
    return f"returned {reprlib.repr(answer)} instead of [[one-hot of {MOVES}]]"[:TEXT_LENGTH]


class Controllers:
    """The submission's functions my_controller, one for each slot."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.code: CodeType | None = None
        self._of_slot: dict[int, Callable[..., Any]] = {}

    def __contains__(self, slot: int) -> bool:
        return slot in self._of_slot

    def load(self, slot: int) -> int | str:
        """Run the submission's file again, for the match that starts in this slot. Returns 0, or the problem."""
        self._of_slot.pop(slot, None)
        name = f"submission_{slot}"
        try:
            spec = importlib.util.spec_from_file_location(name, self.path)
            if self.code is None:
                self.code = spec.loader.get_code(name)  # type: ignore[attr-defined]  # loaders of files have it
            module = importlib.util.module_from_spec(spec)
            sys.modules[name] = module  # dataclasses look up their module there
            exec(self.code, module.__dict__)
        except BaseException as error:  # sys.exit() must not end the process either
            return f"{type(error).__name__}: {error}"[:TEXT_LENGTH]
        controller = getattr(module, "my_controller", None)
        if not callable(controller):
            return NO_CONTROLLER
        self._of_slot[slot] = controller
        return 0

    def move(self, slot: int, snake: int, text: bytes) -> int | str:
        """The move of one snake, or the problem. Every call gets its own copy of the observation."""
        observation = {int(k) if k.isdigit() else k: v for k, v in json.loads(text)["observation"].items()}
        observation["controlled_snake_index"] = snake
        try:
            return read_move(self._of_slot[slot](observation, [Discrete(MOVES)], False))
        except BaseException as error:
            return f"raised {type(error).__name__}: {error}"[:TEXT_LENGTH]


def settle_in() -> tuple[int, int]:
    """Move the pipes away from stdin and stdout, so that the submission's prints are dropped."""
    requests, answers = os.dup(0), os.dup(1)
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 0)
    os.dup2(nowhere, 1)
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:
        score.write("1000")  # when memory runs out, Linux ends this process and not the arena
    return requests, answers


def main() -> None:
    """Answer requests until the pipe is closed."""
    path, limit = sys.argv[1], LOAD_SECONDS + float(sys.argv[2])
    requests, answers = settle_in()
    sys.path[0] = os.path.dirname(path)  # instead of the folder of this file
    sys.argv = [path]
    controllers = Controllers(path)

    def answer(slot: int, snake: int, find: Callable[..., int | str], *given: Any) -> None:
        # The arena stops a call that takes too long. If the arena is gone, this alarm stops it.
        signal.setitimer(signal.ITIMER_REAL, limit)
        text = json.dumps((slot, snake, find(*given))).encode()
        signal.setitimer(signal.ITIMER_REAL, 0)
        os.write(answers, HEADER.pack(len(text)) + text)

    with open(requests, "rb") as stream:
        while header := stream.read(HEADER.size):
            text = stream.read(*HEADER.unpack(header))
            request = json.loads(text)
            if "load" in request:
                answer(request["load"], 0, controllers.load, request["load"])
                continue
            slot = request["slot"]
            for snake in request["snakes"] if slot in controllers else ():  # none if loading failed
                answer(slot, snake, controllers.move, slot, snake, text)
    os._exit(0)  # not sys.exit: that would wait for threads of the submission


if __name__ == "__main__":
    main()
