"""Trainings in two ranks each, with the environment variables of torchrun. The trainings of a chain run one after
another, the chains side by side: ranks often wait for each other or for a timeout. The ranks are forked from a process
that has torch and the trainer loaded, see forking.py.

The output of rank R goes to FOLDER/name.R.out and .err, the exit codes to stdout as JSON. The word @1 before all others
asks for one process without ranks; words @FAULT are planted, see planted.py.
"""

import json
import os
import signal
import sys
import time
from unittest import mock

from helpers.command import on_cpu
from helpers.planted import plant
from helpers.ports import free_port
from helpers.short_matches import short_matches

LIMIT = 280  # seconds for one training: it ends one that hangs, also on a busy machine
SIDE_BY_SIDE = 3  # trainings


def train(words: list[str]) -> int:
    """One rank: `snakes train`; the last line of its output says how many gradients were exchanged."""
    from marl.cli import main as cli
    from marl.ranks.process_group import Ranks

    exchanges = []

    average = Ranks.average_gradients

    def counted(self, gradients):
        exchanges.append(len(gradients))
        return average(self, gradients)

    for word in words:
        if word.startswith("@"):
            plant(word[1:])
    call = on_cpu([word for word in words if not word.startswith("@")])
    with mock.patch.object(Ranks, "average_gradients", counted), short_matches(call):
        code = cli.main(call)
    print(f"exchanges {sum(exchanges)}", flush=True)
    return code


class Training:
    """The ranks of one training."""

    def __init__(self, folder: str, name: str, words: list[str]) -> None:
        self.name, self._codes = name, {}
        world = 2
        if words[0] == "@1":
            world, words = 1, words[1:]
        port = str(free_port())
        self._pids = [
            _fork_rank(f"{folder}/{name}.{rank}", words, _group(rank, world, port) if world > 1 else {})
            for rank in map(str, range(world))
        ]
        self._deadline = time.monotonic() + LIMIT

    def ended(self) -> list[int] | None:
        """The exit codes of all ranks; None while one runs. Ranks that run too long are killed."""
        for pid in set(self._pids) - self._codes.keys():
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                self._codes[pid] = os.waitstatus_to_exitcode(status)
            elif time.monotonic() > self._deadline:
                os.kill(pid, signal.SIGKILL)
        return [self._codes[pid] for pid in self._pids] if len(self._codes) == len(self._pids) else None


def _group(rank: str, world: int, port: str) -> dict[str, str]:
    return {
        "RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": str(world), "LOCAL_WORLD_SIZE": str(world),
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port,
    }  # fmt: skip


def _fork_rank(output: str, words: list[str], environment: dict[str, str]) -> int:
    """The process id of a rank."""
    pid = os.fork()
    if pid:
        return pid
    for stream, ending in ((sys.stdout, "out"), (sys.stderr, "err")):
        os.dup2(os.open(f"{output}.{ending}", os.O_WRONLY | os.O_CREAT), stream.fileno())
    os.environ |= environment
    code = 1
    try:
        code = train(words)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def main(folder: str, chains: list[dict[str, list[str]]]) -> int:
    waiting = [list(chain.items()) for chain in chains]
    running: list[tuple[Training, list]] = []  # with the rest of its chain
    codes = {}
    while waiting or running:
        while waiting and len(running) < SIDE_BY_SIDE:
            (name, words), *rest = waiting.pop(0)
            running.append((Training(folder, name, words), rest))
        for training, rest in running[:]:
            ended = training.ended()
            if ended is not None:
                codes[training.name] = ended
                running.remove((training, rest))
                waiting[:0] = [rest][: len(rest)]
        time.sleep(0.02)
    print(json.dumps(codes))
    return 0
