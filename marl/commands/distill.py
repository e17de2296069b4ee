"""The command `distill`: teach a policy the decisions of its planner, and write it as a snapshot."""

import argparse
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from marl.arguments import count, new_file_ending, positive
from marl.errors import UserError
from marl.invocation import command
from marl.progress_bar import ProgressBar
from marl.storage.run_names import player_name

if TYPE_CHECKING:
    from marl.networks.policy import PolicyPlayer
    from marl.planning.planner import Budget
    from marl.training.distillation import Distillation
    from opponents.players import Player

SELF = "self"
OPPONENTS = f"territory:0.4,{SELF}:0.3,champion:0.1,evasive:0.1,level4:0.1"
BUDGET = "plan=2x4"  # of a policy that is named without planning: more rollouts teach fewer positions
SIZES = {"cpu": (64, 512), "cuda": (8192, 16384)}  # matches and batch size, by the kind of device
FIRST_TURNS = 16  # in the buffer before the first update
LOG_SECONDS = 15.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = (
        f"PLAYER is a policy with a value head (of ppo), or plan=ROLLOUTSxTURNS:POLICY; otherwise {BUDGET} is taken.\n"
        "The student begins as a copy of the policy, has its size, and plays without planning."
    )
    parser.add_argument("player", type=player_name, metavar="PLAYER", help="the policy, and the planner that teaches")
    parser.add_argument(
        "--out",
        type=new_file_ending(".safetensors"),
        required=True,
        metavar="FILE",
        help="snapshot to write: .safetensors",
    )
    parser.add_argument("--minutes", type=positive, default=2.0, metavar="M", help="time of teaching (default: 2)")
    parser.add_argument(
        "--opponents",
        default=OPPONENTS,
        metavar="LIST",
        help=f"players and their shares of the matches; {SELF} is the student (default: {OPPONENTS})",
    )
    parser.add_argument("--matches", type=count, metavar="N", help="at a time (default: 64, on a GPU 8192)")
    parser.add_argument(
        "--batch-size", type=count, metavar="N", help="snakes per update (default: 512, on a GPU 16384)"
    )
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of matches and minibatches (default: 1)")
    parser.add_argument(
        "--device", default="auto", metavar="D", help="cpu, cuda, cuda:1, ... (default: auto, a GPU if any)"
    )


def run(args: argparse.Namespace) -> int:
    from arena.files import check_writable

    check_writable(args.out)
    from marl.training.distillation import Distillation, DistillConfig
    from opponents.match import choose_device

    policy, budget = _teacher(args.player)
    with ExitStack() as opened:
        opponents = _opponents(args.opponents, opened)
        device = choose_device(args.device, [player for player in opponents if player is not None])
        matches, batch_size = SIZES["cuda" if device.startswith("cuda") else "cpu"]
        config = DistillConfig(args.matches or matches, args.batch_size or batch_size)
        distillation = Distillation(policy, budget, opponents, config, device, args.seed)
        _teach(distillation, policy, args.minutes * 60, args.out)
    print(f"written: {args.out}; measure it: {command('eval', '--home', str(args.out), '--away', 'territory')}")
    return 0


def _teacher(name: str) -> tuple["PolicyPlayer", "Budget"]:
    """The policy and the budget of its planner."""
    from arena.rules import ACTIONS
    from marl.planning.planned_player import PlannedPlayer, load_player
    from opponents.players import PLAN

    player = load_player(name if name.startswith(PLAN) else f"{BUDGET}:{name}")
    if not isinstance(player, PlannedPlayer):
        raise UserError(f"{name} does not plan")
    if player.budget.milliseconds is not None:
        raise UserError(f"{name}: a teacher plans by rollouts, not by the clock; write it as {BUDGET}:POLICY")
    if player.policy.actor.spec.outputs == ACTIONS:
        raise UserError(f"{name} has no value head, which the planner needs; distill a policy trained by ppo")
    return player.policy, player.budget


def _opponents(text: str, opened: ExitStack) -> dict["Player | None", float]:
    """The players and their shares; None is the student."""
    from marl.planning.planned_player import load_player
    from opponents.match import open_player
    from opponents.players import PLAN
    from opponents.shares import ROUNDING, parse_shares

    shares = parse_shares([part.strip() for part in text.split(",")])
    if abs(sum(shares.values()) - 1) > ROUNDING:
        raise UserError(f"--opponents: the shares add up to {sum(shares.values()):g}; needed: 1")
    planned = next((name for name in shares if name.startswith(PLAN)), None)
    if planned is not None:
        raise UserError(f"--opponents: {planned} plans, for all matches of a batch; name it without planning")
    return {
        None if name == SELF else open_player(player_name(name), opened, load_player): share
        for name, share in shares.items()
    }


def _teach(distillation: "Distillation", policy: "PolicyPlayer", seconds: float, out: Path) -> None:
    """Play and learn for so many seconds after the first turns, which compile. Every log line writes the snapshot."""
    config = distillation.config
    while distillation.turns < FIRST_TURNS:
        distillation.play_turn()
    begun = logged = time.monotonic()
    share_done = 0.0
    with ProgressBar(f"distilling {policy.name}") as bar:
        while share_done < 1:
            distillation.learn(share_done)
            distillation.play_turn()
            now = time.monotonic()
            share_done = min(1.0, (now - begun) / seconds)
            bar.show(share_done)
            if now - logged < LOG_SECONDS and share_done < 1:
                continue
            logged = now
            losses = distillation.read_losses()
            plans = 3 * config.matches * (distillation.turns - FIRST_TURNS)
            print(
                f"{now - begun:6.0f} s | {plans:,} plans | agreement {losses.agreement:.1%} | "
                f"policy loss {losses.policy:.3f} | value loss {losses.value:.3f}",
                flush=True,
            )
            _write(distillation, policy, out)


def _write(distillation: "Distillation", policy: "PolicyPlayer", out: Path) -> None:
    """Write the student as a snapshot; if that fails, the error names `out`, not the draft that replaces it."""
    from arena.files import cannot_write
    from marl.networks.policy import describe_actor
    from marl.storage import snapshot

    weights = {name: tensor.detach().float().cpu() for name, tensor in distillation.student.state_dict().items()}
    try:
        snapshot.write(out, weights, describe_actor(policy.encoder, policy.actor.spec))
    except OSError as error:
        raise cannot_write(out, error) from None
