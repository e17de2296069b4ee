"""snakes demo: one match of random moves, as text."""

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="which match (default: 0)")
    parser.add_argument("--every", type=_count, default=50, metavar="N", help="turns between two boards (default: 50)")


def run(args: argparse.Namespace) -> int:
    import torch

    from arena import BatchArena
    from arena.render.frame import ansi
    from arena.rules import SNAKES, TEAM, TURNS

    batch = BatchArena(1, seed=args.seed)
    batch.start()
    moves = torch.Generator().manual_seed(args.seed)
    for turn in range(TURNS):
        if turn % args.every == 0:
            print(ansi(batch.get_match(0)), end="\n\n")
        batch.play_turn(torch.randint(4, (1, SNAKES), generator=moves))
    match = batch.get_match(0)
    print(ansi(match), end="\n\n")
    lengths = [len(snake) for snake in match["snakes"]]
    red, blue = sum(lengths[:TEAM]), sum(lengths[TEAM:])
    result = "draw" if red == blue else "red wins" if red > blue else "blue wins"
    print(f"{result}, red {red} : {blue} blue")
    return 0


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 1")
    return int(text)
