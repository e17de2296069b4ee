"""Trainings in two ranks each, one after another, with the environment variables of torchrun. The ranks are forked from
a process that has torch and the trainer loaded, see forking.py.

The output of rank R goes to FOLDER/name.R.out and .err, the exit codes to stdout as JSON. The word @4 before all others
asks for four ranks, @1 for one process without ranks; words @FAULT are planted, see planted.py.
"""

import json
import os
import signal
import sys
import time
from unittest import mock

from helpers.planted import plant
from helpers.ports import free_port

LIMIT = 60  # seconds for one training


def train(words: list[str]) -> int:
    """One rank: `snakes train`; the last line of its output says how often gradients were exchanged."""
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook

    from marl import cli
    from marl.ranks.process_group import Ranks

    exchanges = []

    def counted(_state, bucket):
        exchanges.append(bucket.index())
        return allreduce_hook(None, bucket)

    wrap = Ranks.wrap

    def wrap_and_count(self, module):
        wrapped = wrap(self, module)
        if not self._sums_in_order:  # which has a hook of its own
            wrapped.register_comm_hook(None, counted)
        return wrapped

    for word in words:
        if word.startswith("@"):
            plant(word[1:])
    with mock.patch.object(Ranks, "wrap", wrap_and_count):
        code = cli.main([word for word in words if not word.startswith("@")])
    print(f"exchanges {len(exchanges)}", flush=True)
    return code


def ranks(folder: str, name: str, words: list[str]) -> list[int]:
    """The exit codes of a training's ranks."""
    world = 2
    if words[0] in ("@1", "@2", "@4"):
        world, words = int(words[0][1:]), words[1:]
    port = free_port()
    pids = []
    for rank in map(str, range(world)):
        pid = os.fork()
        if pid == 0:
            for stream, ending in ((sys.stdout, "out"), (sys.stderr, "err")):
                os.dup2(os.open(f"{folder}/{name}.{rank}.{ending}", os.O_WRONLY | os.O_CREAT), stream.fileno())
            if world > 1:
                os.environ |= {"RANK": rank, "LOCAL_RANK": rank}
                os.environ |= {"WORLD_SIZE": str(world), "LOCAL_WORLD_SIZE": str(world)}
                os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
            code = 1
            try:
                code = train(words)
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
        pids.append(pid)
    deadline, codes = time.monotonic() + LIMIT, {}
    while len(codes) < len(pids):
        for pid in set(pids) - codes.keys():
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                codes[pid] = os.waitstatus_to_exitcode(status)
            elif time.monotonic() > deadline:
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)
    return [codes[pid] for pid in pids]


def main(folder: str, trainings: dict[str, list[str]]) -> int:
    print(json.dumps({name: ranks(folder, name, words) for name, words in trainings.items()}))
    return 0
