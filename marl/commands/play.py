"""The command `play`: matches in a window between any two players, with humans in some of the seats."""

import argparse
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING

from arena.snake_names import AGENTS, snake_number
from marl.cli.arguments import (
    add_seed_flag,
    add_submission_flags,
    choose_seed,
    new_file,
    positive_int,
    submission_options,
)
from marl.errors import UserError
from marl.storage.run_names import find_named, player_name

if TYPE_CHECKING:
    from marl.commands.live_match import Supply
    from opponents.players import Player

HUMANS_MAX = 2  # one with the arrow keys, one with WASD
SPEED_MIN, SPEED_MAX = 0.25, 64.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = (
        "Players are named as in eval. In the window, ? shows the keys; n starts the next match, p the previous one.\n"
        "--watch shows match after match of a training that is running, each with its newest checkpoint."
    )
    parser.add_argument("--red", type=player_name, metavar="PLAYER", help="who plays red (default: champion)")
    parser.add_argument(
        "--blue", type=player_name, default="territory", metavar="PLAYER", help="who plays blue (default: territory)"
    )
    parser.add_argument(
        "--human",
        type=_snakes,
        default=(),
        metavar="N[,N]",
        help="snakes that you steer: 0 to 2 are red, 3 to 5 blue; arrow keys or WASD, the second of two snakes by WASD",
    )
    add_seed_flag(parser)
    parser.add_argument("--speed", type=_speed, default=1.0, metavar="X", help="0.25 to 64; 1 is 4 turns a second")
    parser.add_argument("--fps", type=positive_int, default=60, metavar="N", help="pictures a second (default: 60)")
    parser.add_argument(
        "--watch", type=find_named, metavar="RUN", help="red is the newest checkpoint of this training run"
    )
    parser.add_argument(
        "--record",
        type=new_file,
        metavar="FILE",
        help="write the replay of the match to FILE; of further ones beside it, with .2, .3, ... before the suffix",
    )
    parser.add_argument(
        "--record-policy", action="store_true", help="with --record: also the policies' probabilities and values"
    )
    add_submission_flags(parser)


def run(args: argparse.Namespace) -> int:
    if args.watch is not None and args.red is not None:
        raise UserError("--watch names the red player already; give either --watch or --red")
    if args.record_policy and args.record is None:
        raise UserError("--record_policy goes with --record FILE")
    from arena.render import window

    window.open_display()
    from marl.commands.live_match import LatestCheckpoint, LiveMatches
    from marl.planning.planned_player import load_player
    from opponents.match import open_player
    from opponents.submission import Submission

    with ExitStack() as opened:
        submissions = submission_options(args)
        blue = open_player(args.blue, opened, load_player, submissions)
        if args.watch is not None:
            red: Supply = LatestCheckpoint(args.watch)
            players = [blue]
        else:
            player = open_player(args.red or "champion", opened, load_player, submissions)
            red, players = _always(player), [player, blue]
        seed = choose_seed(args.seed, (args.red or "champion", args.blue))
        if args.seed is None and seed:
            print(f"seed {seed}")
        playlist = LiveMatches(red, _always(blue), args.human, seed, args.record, args.record_policy)
        playlist.endless = args.watch is not None
        playlist.warm_up()
        try:
            window.show(playlist, args.speed, args.fps)
        finally:
            playlist.finish()
        for player in players:
            for line in player.problems if isinstance(player, Submission) else ():
                print(line, file=sys.stderr)
    return 0


def _always(player: "Player") -> "Supply":
    return lambda: (player, "")


def _snakes(text: str) -> tuple[int, ...]:
    """Snakes by number or agent name, each once."""
    chosen: list[int] = []
    for word in text.split(","):
        snake = snake_number(word.strip())
        if snake is None:
            raise argparse.ArgumentTypeError(f"{word!r} is no snake; allowed: 0 to 5, or {', '.join(AGENTS)}")
        chosen.append(snake)
    if len(set(chosen)) < len(chosen) or len(chosen) > HUMANS_MAX:
        raise argparse.ArgumentTypeError(f"{text!r}: one snake or two different ones")
    return tuple(chosen)


def _speed(text: str) -> float:
    try:
        speed = float(text)
    except ValueError:
        speed = 0.0
    if not SPEED_MIN <= speed <= SPEED_MAX:
        raise argparse.ArgumentTypeError(f"{text!r} is no speed; allowed: {SPEED_MIN} to {SPEED_MAX:g}")
    return speed
