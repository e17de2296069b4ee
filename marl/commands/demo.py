"""The command `demo`: play one match between two teams and print boards as text."""

import argparse
import os
import shutil
import sys

from marl.cli.arguments import add_seed_flag, choose_seed, positive_int
from marl.storage.run_names import player_name


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--red", type=player_name, default="territory", metavar="PLAYER", help="who plays red (default: territory)"
    )
    parser.add_argument(
        "--blue", type=player_name, default="level2", metavar="PLAYER", help="who plays blue (default: level2)"
    )
    add_seed_flag(parser)
    parser.add_argument(
        "--every", type=positive_int, default=50, metavar="N", help="turns between two boards (default: 50)"
    )


def run(args: argparse.Namespace) -> int:
    from arena.render.ansi import ansi, terminal
    from marl.planning.planned_player import load_player
    from opponents.match import play

    seed = choose_seed(args.seed, (args.red, args.blue))
    results = play(args.red, args.blue, 1, seed=seed, record=True, loader=load_player)
    replay = results.replays["first"]
    states = replay.states()
    shown = terminal(sys.stdout.isatty(), os.environ, shutil.get_terminal_size())
    for state in [*states[: -1 : args.every], states[-1]]:
        print(ansi(state, shown), end="\n\n")
    winner, score = replay.result["winner"], f"{replay.result['red_score']} : {replay.result['blue_score']}"
    print(f"{'draw' if winner == 'draw' else winner + ' wins'} {score}: {args.red} (red) against {args.blue} (blue)")
    if args.seed is None and seed:
        print(f"seed {seed}")
    return 0
