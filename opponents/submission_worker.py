"""The process a competition submission runs in, on nothing but the standard library: both ends of its pipes.

`Process` is the arena's end; run as a program, this file is the other. Requests and answers are
4 bytes of length and a JSON text:
    {"load": slot}                                      -> [slot, 0, 0], or [slot, 0, "what went wrong"]
    {"slot": .., "snakes": [ids], "observation": ..}    -> per snake [slot, id, move], or [slot, id, "what went wrong"]
Every slot (match) has a module of its own, so what a controller remembers of a game stays in that game.
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
# What Python and its packages may need. No GPU: the competition has none, and ours are busy.
ENVIRONMENT_KEPT = ("PATH", "HOME", "LANG", "TMPDIR", "PYTHONPATH", "LD_LIBRARY_PATH")
ENVIRONMENT_SET = {"CUDA_VISIBLE_DEVICES": "", "PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


class Broken(Exception):
    """The process cannot be used any more."""


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
        os.set_blocking(self._requests, False)  # a child that does not read must not stop us
        self._unsent = bytearray()
        self._unread = bytearray()
        self._poll = select.poll()
        self._poll.register(self._answers, select.POLLIN)

    def trouble(self) -> str | None:
        """What is wrong with the process, asked when no answer is due."""
        return self._how_it_ended() if self._unread or self._poll.poll(0) else None

    def post(self, request: dict[str, Any]) -> None:
        """Put a request on its way; it may leave while answers are waited for."""
        text = json.dumps(request, separators=(",", ":")).encode()
        self._unsent += HEADER.pack(len(text)) + text
        self._poll.register(self._requests, select.POLLOUT)

    def receive(self, slot: int, snake: int, seconds: float) -> int | str:
        """The answer for this slot and snake, if it comes in time: a number, or a text that says what went wrong."""
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
        except OSError:  # it has ended; what it still answered is to be read first
            self._unsent.clear()
        if not self._unsent:
            self._poll.unregister(self._requests)

    def _next(self) -> bytes | None:
        """The next whole answer that has come."""
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
        if code == -signal.SIGKILL:  # ours, or the system's when memory ran out
            return f"{DISTURBED}, or was killed"
        return f"ended its process (exit code {code})" if code >= 0 else f"crashed (signal {-code})"


def _end_child(child: subprocess.Popen, owner: int) -> None:
    if os.getpid() != owner:  # a fork of the arena ends; the child is not its own
        return
    with suppress(ProcessLookupError, PermissionError):  # macOS says the latter of a group that has ended
        os.killpg(child.pid, signal.SIGKILL)  # not reaped yet, so the number is still the child's
    child.wait()
    child.stdin.close()
    child.stdout.close()


class Discrete:
    """The competition's action space, which some controllers draw from and know by this name."""

    def __init__(self, n: int) -> None:
        self.n = n

    def sample(self) -> int:
        """A random action."""
        return random.randrange(self.n)


def read_move(answer: Any) -> int | str:
    """The move in [[one-hot of 4]] as the competition reads it, the first 1 in the first row; or what is wrong."""
    rows = answer.tolist() if hasattr(answer, "tolist") else answer
    if isinstance(rows, (list, tuple)) and rows:
        row = rows[0].tolist() if hasattr(rows[0], "tolist") else rows[0]
        if isinstance(row, (list, tuple)) and len(row) == MOVES and 1 in row:
            return list(row).index(1)
    return f"returned {reprlib.repr(answer)} instead of [[one-hot of {MOVES}]]"[:TEXT_LENGTH]


class Player:
    """The submission's modules, one for each slot."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.code: CodeType | None = None
        self.controllers: dict[int, Callable[..., Any]] = {}

    def load(self, slot: int) -> int | str:
        """Run the submission's file once more, for the match that starts in this slot."""
        self.controllers.pop(slot, None)
        name = f"submission_{slot}"
        try:
            spec = importlib.util.spec_from_file_location(name, self.path)
            if self.code is None:
                self.code = spec.loader.get_code(name)
            module = importlib.util.module_from_spec(spec)
            sys.modules[name] = module  # dataclasses, for one, look their module up there
            exec(self.code, module.__dict__)
        except BaseException as error:  # sys.exit() must not end the process either
            return f"{type(error).__name__}: {error}"[:TEXT_LENGTH]
        controller = getattr(module, "my_controller", None)
        if not callable(controller):
            return NO_CONTROLLER
        self.controllers[slot] = controller
        return 0

    def move(self, slot: int, snake: int, text: bytes) -> int | str:
        """Ask for the move of one snake, with an observation that nobody else has."""
        observation = {int(k) if k.isdigit() else k: v for k, v in json.loads(text)["observation"].items()}
        observation["controlled_snake_index"] = snake
        try:
            return read_move(self.controllers[slot](observation, [Discrete(MOVES)], False))
        except BaseException as error:
            return f"raised {type(error).__name__}: {error}"[:TEXT_LENGTH]


def settle_in() -> tuple[int, int]:
    """Move the pipes away from stdin and stdout, so that what the submission prints goes nowhere."""
    requests, answers = os.dup(0), os.dup(1)
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 0)
    os.dup2(nowhere, 1)
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:
        score.write("1000")  # when memory runs out, Linux shall end this process and not the arena
    return requests, answers


def main() -> None:
    """Answer requests until the pipe is closed."""
    path, limit = sys.argv[1], LOAD_SECONDS + float(sys.argv[2])
    requests, answers = settle_in()
    sys.path[0] = os.path.dirname(path)  # instead of the folder of this file
    sys.argv = [path]
    player = Player(path)

    def answer(slot: int, snake: int, find: Callable[..., int | str], *given: Any) -> None:
        # The arena stops a call that takes too long. Should the arena be gone, this alarm does.
        signal.setitimer(signal.ITIMER_REAL, limit)
        text = json.dumps((slot, snake, find(*given))).encode()
        signal.setitimer(signal.ITIMER_REAL, 0)
        os.write(answers, HEADER.pack(len(text)) + text)

    with open(requests, "rb") as stream:
        while header := stream.read(HEADER.size):
            text = stream.read(*HEADER.unpack(header))
            request = json.loads(text)
            if "load" in request:
                answer(request["load"], 0, player.load, request["load"])
                continue
            slot = request["slot"]
            for snake in request["snakes"] if slot in player.controllers else ():  # none if loading failed
                answer(slot, snake, player.move, slot, snake, text)
    os._exit(0)  # not sys.exit: threads of the submission must not keep this process


if __name__ == "__main__":
    main()
