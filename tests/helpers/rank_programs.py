"""Programs of the ranks of test_process_group.py and test_launch.py: `python rank_programs.py NAME`, one per process.

launch_all and launch_waiting launch them. `groups` runs groups of ranks side by side, in a process that is forked from
the server of forking.py: sixteen ranks would spend most of a minute on loading torch, and exceed each other's timeouts.
"""

import json
import os
import signal
import sys
import time
import traceback
from contextlib import nullcontext
from pathlib import Path

# unittest.mock is imported where it is used: it takes three times as long as a rank that loads no torch.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

SIDE_BY_SIDE = 8  # groups: more ranks at once would exceed each other's timeouts
LOAD_TORCH = ("reach_store", "fail_once")  # programs of test_launch.py
GROUP_VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def together() -> None:
    """All collectives, while no rank is lost; a failed check ends the rank with a traceback."""
    import torch
    from torch.nn.functional import mse_loss

    group = start()
    assert group.transport == os.environ.get("BACKEND", "shared memory")
    torch.manual_seed(group.rank)  # parameters and buffers differ until `wrap`
    actor, critic = net(4, 3), net(7, 1)
    actor.register_buffer("seen", torch.full((2,), float(group.rank)))
    wrapped_actor, wrapped_critic = group.wrap(actor), group.wrap(critic)
    assert actor.seen.tolist() == [0.0, 0.0]
    named = [*actor.named_parameters("actor"), *critic.named_parameters("critic")]
    group.check_sync(named, "start")

    # Every rank takes its half of the same batch; the gradient must be that of the whole batch.
    torch.manual_seed(7)
    observations, actions, targets = (torch.randn(8, n, dtype=torch.float64) for n in (4, 3, 1))
    mine = slice(4 * group.rank, 4 * group.rank + 4)
    optimizer = torch.optim.Adam([p for _, p in named], lr=0.01)
    whole = [mse_loss(critic(torch.cat([observations, actions], 1)), targets)]
    whole_critic = torch.autograd.grad(whole[0], list(critic.parameters()))
    optimizer.zero_grad(set_to_none=True)
    mse_loss(wrapped_critic(torch.cat([observations, actions], 1)[mine]), targets[mine]).backward()
    for parameter, expected in zip(critic.parameters(), whole_critic, strict=True):
        torch.testing.assert_close(parameter.grad, expected, rtol=0, atol=1e-15)
    critic.requires_grad_(False)
    whole_actor = torch.autograd.grad(
        -critic(torch.cat([observations, actor(observations)], 1)).mean(), list(actor.parameters())
    )
    (-critic(torch.cat([observations[mine], wrapped_actor(observations[mine])], 1)).mean()).backward()
    critic.requires_grad_(True)
    for parameter, expected in zip(actor.parameters(), whole_actor, strict=True):
        torch.testing.assert_close(parameter.grad, expected, rtol=0, atol=1e-15)

    for update in range(3):
        optimizer.zero_grad(set_to_none=True)
        mse_loss(wrapped_critic(torch.randn(5, 7, dtype=torch.float64)), targets[:5] + group.rank).backward()
        optimizer.step()
        group.check_sync(named, f"update {update}")

    # sync_freq 4: the ranks exchange gradients in one of four updates.
    exchanges = []
    average, waited = group._average_bucket, group.waited
    group._average_bucket = lambda gradients: exchanges.append(len(gradients)) or average(gradients)
    optimizer.zero_grad(set_to_none=True)
    for update in range(8):
        if update % 4 == 3:
            mse_loss(wrapped_critic(torch.randn(2, 7, dtype=torch.float64)), targets[:2]).backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        else:
            with group.no_sync(wrapped_actor, wrapped_critic):
                mse_loss(wrapped_critic(torch.randn(2, 7, dtype=torch.float64)), targets[:2]).backward()
        assert len(exchanges) == (update + 1) // 4, exchanges
    group.check_sync(named, "sync_freq")
    assert group.waited > waited  # it is timed

    assert group.any(group.rank == 1)
    assert not group.any(False)
    assert group.broadcast({"run": f"of rank {group.rank}"}) == {"run": "of rank 0"}
    assert group.sum_(torch.tensor([1, group.rank])).tolist() == [2, 1]
    strided = torch.arange(4.0).reshape(2, 2).T * (1 + 2 * group.rank)  # not contiguous
    assert torch.equal(group.mean_(strided), torch.tensor([[0.0, 4.0], [2.0, 6.0]])), strided
    group.barrier("the end")

    from marl.ranks.sync_check import OutOfSync

    if group.rank == 1:
        with torch.no_grad():
            critic[2].bias += 1e-12
    try:
        group.check_sync(named, "update 9")
    except OutOfSync as error:
        print(f"rank {group.rank}: {error}")
    else:
        raise AssertionError("a changed parameter was not seen")
    group.close()


def sum_in_memory() -> None:
    """Sums through shared memory: of all types, of more bytes than a slot holds, and many in a row."""
    import torch

    from marl.ranks.shared_memory import SLOT

    group = start()
    assert group.transport == "shared memory"
    group.barrier("the start")
    mapped = [line for line in Path("/proc/self/maps").read_text().splitlines() if "snakes-sums" in line]
    assert mapped, "nothing is shared"
    assert all(line.endswith("/memfd:snakes-sums (deleted)") for line in mapped), "it has a name in a file system"
    parts = range(1, group.world + 1)
    for dtype in (torch.float32, torch.float64, torch.int32, torch.int64):
        for size in (1, group.world - 1, 1000, 2 * SLOT // dtype.itemsize + 5):
            numbers = torch.arange(size, dtype=dtype)
            assert torch.equal(group.sum_(numbers * (group.rank + 1)), sum(numbers * part for part in parts)), size
    total = torch.ones(2)
    for _ in range(500):
        group.mean_(total.mul_(group.world).add_(group.rank))
        total -= (group.world - 1) / 2
        total /= group.world
    torch.testing.assert_close(total, torch.ones(2), rtol=1e-5, atol=0)
    group.barrier("the end")
    group.close()


def sum_without_memory() -> None:
    """One rank cannot use the shared memory, as WITHOUT says: all of them take gloo."""
    from unittest import mock

    import torch

    from marl.ranks import shared_memory

    what, rank = os.environ["WITHOUT"].split(":")
    if os.environ["RANK"] == rank:
        mock.patch.object(shared_memory, what, return_value=None).start()
    group = start()
    assert group.transport == "gloo"
    assert group.sum_(torch.ones(1)).item() == group.world
    group.close()


def work_long() -> None:
    """Rank 1 works three times as long as the time limit, and then rank 0; each waits for the other."""
    from marl.ranks.process_group import on_main

    group = start()
    begin = time.monotonic()
    with group.keep_alive():
        time.sleep(6 if group.rank == 1 else 0)
    assert on_main(group, lambda: time.sleep(6) or "together") == "together"
    print(f"rank {group.rank}: {time.monotonic() - begin:.0f} s")
    group.close()


def train_until_lost() -> None:
    """Updates for ever; in update 5 the rank in LOSE is lost as LOSE says: kill:1, stop:0, nap:1, miss:1, raise:1.

    With WORK=1 all ranks are in long work at that time, and the lost rank is lost in it.
    """
    from unittest import mock

    import torch

    from marl.ranks import roll_call
    from marl.ranks.lost_rank import explain, leave

    deed, victim = os.environ["LOSE"].split(":")
    group = start()
    mock.patch.object(roll_call, "PATIENCE", 2.0).start()
    wrapped = group.wrap(net(4, 3))
    try:
        for update in range(1_000_000):
            group.doing = "update"
            if update == 5 and os.environ.get("WORK"):
                with group.keep_alive():
                    time.sleep(1)
                    if group.rank == int(victim):
                        os.kill(os.getpid(), {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}[deed])
                    time.sleep(600)
            elif (update, group.rank) == (5, int(victim)):
                if deed == "kill":
                    os.kill(os.getpid(), signal.SIGKILL)
                elif deed == "stop":
                    os.kill(os.getpid(), signal.SIGSTOP)
                elif deed == "raise":
                    raise ValueError("a bug")
                elif deed == "nap":
                    group.doing = "a nap"
                    time.sleep(600)
                elif deed == "miss":  # the other ranks come to a barrier, this one does not
                    time.sleep(600)
            elif (update, deed) == (5, "miss"):
                group.barrier("save")
            wrapped(torch.randn(2, 4, dtype=torch.float64)).sum().backward()
    except RuntimeError as error:
        lost = explain(error, group)
        if lost is None:
            raise
        leave(lost, group)


def join() -> None:
    start().close()


def tell_environment() -> None:
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "OMP_NUM_THREADS")
    say(*(f"{name}={os.environ[name]}" for name in names), *sys.argv[2:])


def reach_store() -> None:
    """No rank has opened a store yet: the launcher hosts it, so no other process can take its port."""
    from marl.ranks.network import check_server

    check_server(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), 5.0)
    say("answers")


def fail() -> None:
    """Rank 1 fails as FAIL says, and prints `again` after a restart; rank 0 waits for its end."""
    if os.environ["RANK"] == "1":
        if os.environ["TORCHELASTIC_RESTART_COUNT"] != "0":
            say("again")
        how = os.environ["FAIL"]
        if how == "raise":
            raise ValueError("a bug")
        if how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        sys.exit(int(how))
    time.sleep(600)


def fail_once() -> None:
    """Rank 1 dies at its first start, rank 0 waits for its end; after the restart a real process group forms."""
    if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        if os.environ["RANK"] == "1":
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(600)
    group = start()
    if group.any(group.rank == 1) and group.is_main:
        say(f"{group.world} ranks after a restart")
    group.close()


def wait_for_term() -> None:
    """Prints a line at TERM and ends with exit code 0."""

    def ended(number, frame):
        say(f"rank {os.environ['RANK']} got {signal.Signals(number).name}")
        sys.exit(0)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, ended)
    say("ready")
    time.sleep(600)


def say(*words: str) -> None:
    """One write per line: `print` to an unbuffered pipe writes the newline separately."""
    sys.stdout.write(" ".join(words) + "\n")
    sys.stdout.flush()


def start():
    import torch

    from marl.errors import UserError
    from marl.ranks import startup
    from marl.ranks.exits import LostRank

    torch.set_num_threads(1)
    try:
        return startup.start(os.environ.get("BACKEND"), float(os.environ.get("TIMEOUT", "60")), "cpu")
    except (UserError, LostRank) as error:
        print(f"snakes: {error}", file=sys.stderr)
        sys.exit(2)


def net(inputs: int, outputs: int):
    import torch
    from torch import nn

    torch.set_default_dtype(torch.float64)
    return nn.Sequential(nn.Linear(inputs, 8), nn.Tanh(), nn.Linear(8, outputs))


def launch_all(launches: list[tuple[dict, list, str, dict]]) -> int:
    """In a forked process: launches of programs of this file, one after another; `=== CODE` ends the output of each.

    A launch: environment, words, program, settings of marl.ranks.launch.launch. Ranks that load torch are forked, too.
    """
    from helpers.forking import forked_ranks_of_torch
    from helpers.ports import free_port
    from marl.compute.thread_variables import NUMBA_THREADS, THREADS, THREADS_ARE_A_LIMIT
    from marl.ranks.launch import launch
    from marl.ranks.nodes import Nodes

    for environment, words, program, settings in launches:
        for name in (THREADS, NUMBA_THREADS, THREADS_ARE_A_LIMIT):  # of the server, or of the launch before
            os.environ.pop(name, None)
        os.environ.update(environment)
        if settings.pop("port", None) == "free":
            settings["nodes"] = Nodes(master_port=free_port())
        how = ("-m", "helpers.rank_programs") if program in LOAD_TORCH else (__file__,)
        with forked_ranks_of_torch() if program in LOAD_TORCH else nullcontext():
            code = launch(words, 2, timeout=60, program=(*how, program), **settings)
        for stream in (sys.stdout, sys.stderr):
            print(f"=== {code}", file=stream, flush=True)
    return 0


def launch_waiting() -> int:
    """In a forked process: two ranks that wait for a signal."""
    from marl.ranks.launch import launch

    return launch([], 2, timeout=60, program=(__file__, "wait_for_term"))


def run_rank(spec: dict, rank: int, port: int, output: str) -> None:
    """In a forked process: the program of one rank, with which the process ends."""
    for stream, ending in ((sys.stdout, "out"), (sys.stderr, "err")):
        os.dup2(os.open(f"{output}.{ending}", os.O_WRONLY | os.O_CREAT), stream.fileno())
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(spec["world"])}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)} | spec["environment"]
    code = 1
    try:
        globals()[spec["program"]]()
        code = 0
    except SystemExit as error:
        code = int(error.code or 0)
    except BaseException:
        traceback.print_exc()
    finally:  # at once: Python's own end looks through all objects of the process that it was forked from
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def groups(folder: str, specs: dict[str, dict]) -> int:
    """In a forked process: forks the ranks. Their output goes to FOLDER/GROUP.RANK.out and .err, their exit codes to
    stdout as JSON.

    `stuck` of a group is the number of its ranks that never end: they are killed once the others have ended. At the
    time limit all ranks are killed.
    """
    from helpers.ports import free_port

    waiting = list(specs)
    running: dict[int, tuple[str, int]] = {}
    codes: dict[str, dict[int, int]] = {name: {} for name in specs}
    deadline = time.monotonic() + 250
    while waiting or running:
        if waiting and len({name for name, _ in running.values()}) < SIDE_BY_SIDE:
            name, port = waiting.pop(0), free_port()
            for rank in specs[name]["ranks"]:
                pid = os.fork()
                if pid == 0:
                    run_rank(specs[name], rank, port, f"{folder}/{name}.{rank}")
                running[pid] = (name, rank)
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid:
            name, rank = running.pop(pid)
            codes[name][rank] = os.waitstatus_to_exitcode(status)
        else:
            for other, (name, _) in running.items():
                done = len(codes[name]) == len(specs[name]["ranks"]) - specs[name]["stuck"]
                if (done and specs[name]["stuck"]) or time.monotonic() > deadline:
                    os.kill(other, signal.SIGKILL)
            time.sleep(0.02)
    print(json.dumps(codes))
    return 0


def main(words: list[str]) -> int:
    globals()[words[0]]()
    return 0


if __name__ == "__main__":
    main(sys.argv[1:])
