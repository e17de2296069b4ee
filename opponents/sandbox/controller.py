"""The process of one match: loads the submission and answers with its moves. Our code here is as little trusted as its.

Requests and answers are 4 bytes of length and a JSON text:
    (none)                                  -> [-1, 0]: the process is there
    {"seed": ..}                            -> [0, 0], or [0, "what went wrong"]: the file was loaded
    {"snakes": [ids], "observation": ..}    -> per snake [id, move], or [id, "what went wrong"]
"""

import importlib.util
import json
import os
import random
import reprlib
import struct
import sys
from collections.abc import Callable
from typing import Any, BinaryIO

HEADER = struct.Struct(">I")
HELLO, LOADED = -1, 0  # in the place of a snake
MOVES = 4
TEXT_LENGTH = 200
NO_CONTROLLER = "it has no function my_controller(observation, action_space, is_act_continuous)"
MODULE = "submission"
OUR_PACKAGE = __name__.partition(".")[0]
Send = Callable[[bytes], object]


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


def answer_requests(requests: BinaryIO, send: Send, path: str) -> None:
    """Answer until the arena closes the channel."""
    sys.argv, sys.orig_argv = [path], [path]
    _answer(send, HELLO, 0)
    controller: Callable[..., Any] | None = None
    while header := requests.read(HEADER.size):
        text = requests.read(*HEADER.unpack(header))
        request = json.loads(text)
        if "seed" in request:
            loaded = _load(path, request["seed"])
            controller = None if isinstance(loaded, str) else loaded
            _answer(send, LOADED, loaded if isinstance(loaded, str) else 0)
            continue
        for snake in request["snakes"] if controller else ():  # none if loading failed
            _answer(send, snake, _move(controller, snake, text))


def _answer(send: Send, snake: int, result: int | str) -> None:
    text = json.dumps((snake, result)).encode()
    send(HEADER.pack(len(text)) + text)


def _load(path: str, seed: int) -> Callable[..., Any] | str:
    """The submission's function my_controller, or the problem."""
    _seed_generators(seed)
    for name in [name for name in sys.modules if name.partition(".")[0] == OUR_PACKAGE]:
        del sys.modules[name]  # the submission may have a package of that name
    sys.path.insert(0, os.path.dirname(path))
    try:
        spec = importlib.util.spec_from_file_location(MODULE, path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[MODULE] = module  # dataclasses look up their module there
        spec.loader.exec_module(module)
    except BaseException as error:  # sys.exit() must not end the process either
        return f"{type(error).__name__}: {_text_of(error)}"[:TEXT_LENGTH]
    controller = getattr(module, "my_controller", None)
    return controller if callable(controller) else NO_CONTROLLER


def _seed_generators(seed: int) -> None:
    """Seed the generators that submissions draw from, so that a match can be repeated."""
    random.seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(seed)


def _move(controller: Callable[..., Any], snake: int, text: bytes) -> int | str:
    """The move of one snake, or the problem. Every call gets its own copy of the observation."""
    observation = {int(k) if k.isdigit() else k: v for k, v in json.loads(text)["observation"].items()}
    observation["controlled_snake_index"] = snake
    try:
        return read_move(controller(observation, [Discrete(MOVES)], False))
    except BaseException as error:
        return f"raised {type(error).__name__}: {_text_of(error)}"[:TEXT_LENGTH]


def _text_of(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException:  # of an exception class that the submission made
        return "(without a text)"
