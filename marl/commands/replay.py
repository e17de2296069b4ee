"""The command `replay`: show recorded matches in a window or a terminal, or write them as HTML, GIF, MP4 or PNG.

The file format is in arena/replay.py.
"""

import argparse
import os
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from marl.cli.arguments import new_file, new_file_ending
from marl.errors import UserError
from marl.storage.run_names import find_named
from marl.training.summary import BEST_MATCH

if TYPE_CHECKING:
    from arena.render.export import Match

OUTPUTS = ("gif", "mp4", "png", "html")
HOME_AND_CLEAR, CLEAR_TO_END_OF_LINE, CLEAR_BELOW = "\x1b[H\x1b[2J", "\x1b[K", "\x1b[J"
HOME, HIDE_CURSOR, SHOW_CURSOR = "\x1b[H", "\x1b[?25l", "\x1b[?25h"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = (
        "FILE is a replay file (eval --record writes them), a log of the competition, or a run (its best match);\n"
        "`last` is the run that was started last.\n"
        "Without an output the matches are shown in a window; ? in it, and in the HTML page, lists the keys.\n"
        "Several outputs can be made at once."
    )
    parser.add_argument("files", nargs="+", metavar="FILE", help="the matches; several for the window or one page")
    parser.add_argument("--html", type=new_file, metavar="OUT", help="write a page that needs no network and no server")
    parser.add_argument("--gif", type=new_file_ending(".gif"), metavar="OUT", help="write an animated GIF")
    parser.add_argument("--mp4", type=new_file, metavar="OUT", help="write a video (needs the extra: video)")
    parser.add_argument(
        "--png", type=new_file_ending(".png"), metavar="OUT", help="write a picture: of --turn, or a sheet of 12 turns"
    )
    parser.add_argument("--ansi", action="store_true", help="play the match in the terminal (NO_COLOR=1: plain text)")
    parser.add_argument("--turn", type=int, metavar="N", help="the turn of --png and --ansi; where --html begins")
    parser.add_argument(
        "--scale",
        type=float,
        metavar="X",
        help="size of GIF, MP4 and PNG, 0.5 to 4 (default: 1, a GIF smaller if it would be over 1.9 MB)",
    )
    parser.add_argument("--fps", type=float, default=8, metavar="N", help="turns per second (default: 8)")


def run(args: argparse.Namespace) -> int:
    outputs = {kind: path for kind in OUTPUTS if (path := getattr(args, kind)) is not None}
    _check(args, outputs)
    from arena.jidi_log import open_match
    from arena.render import export

    matches = [open_match(_file_of(name)) for name in args.files]
    _check_outputs(matches, args.turn, outputs)
    make = {
        "gif": lambda path: export.gif(path, matches[0], args.fps, args.scale),
        "mp4": lambda path: export.mp4(path, matches[0], args.fps, args.scale or 1),
        "png": lambda path: export.png(path, matches[0], args.turn, args.scale or 1),
        "html": lambda path: export.html(path, matches, args.turn or 0),
    }
    for kind, path in outputs.items():
        make[kind](path)
        print(f"{path}: {path.stat().st_size / 1000:,.0f} kB")
    if args.ansi:
        for match in matches:
            _print_match(match, args.turn, args.fps)
    elif not outputs:
        _watch(matches)
    return 0


def _file_of(name: str) -> str:
    """The file to show; of a run, its best match."""
    path = find_named(name)
    if not path.is_dir():
        return str(path)
    if not (path / BEST_MATCH).is_file():
        raise UserError(f"{name}: no {BEST_MATCH} in {path}; a run writes it when it is finished")
    return str(path / BEST_MATCH)


def _check(args: argparse.Namespace, outputs: dict[str, Path]) -> None:
    """Report wrong combinations of flags before any slow import."""
    for kind in ("gif", "mp4", "png"):
        if kind in outputs and len(args.files) > 1:
            raise UserError(f"--{kind} takes one match, not {len(args.files)}; --html shows several")
    if args.turn is not None and not (args.ansi or {"png", "html"} & outputs.keys()):
        raise UserError("--turn goes with --png, --html or --ansi")
    if args.scale is not None and not {"gif", "mp4", "png"} & outputs.keys():
        raise UserError("--scale goes with --gif, --mp4 or --png")
    if args.scale is not None and not 0.5 <= args.scale <= 4:
        raise UserError(f"--scale {args.scale:g}: allowed are 0.5 to 4")
    if not 0.25 <= args.fps <= 50:
        raise UserError(f"--fps {args.fps:g}: allowed are 0.25 to 50 turns per second")


def _check_outputs(matches: list["Match"], turn: int | None, outputs: dict[str, Path]) -> None:
    """Report what would stop any of the outputs before the first one is made: a long GIF takes a minute."""
    from arena.files import check_writable
    from arena.render import export

    if "mp4" in outputs:
        export.check_video()
    if turn is not None:
        for match in matches:
            export.state_at(match.states(), turn)
    for path in outputs.values():
        check_writable(path)


def _watch(matches: list["Match"]) -> None:
    try:
        from arena.render.window import watch
    except ImportError as error:
        raise UserError(f"no window: {error}; use --gif OUT, --html OUT or --ansi instead") from None
    watch(matches)


def _print_match(match: "Match", turn: int | None, fps: float) -> None:
    """Print boards as text: animated in a terminal, one below the other in a file."""
    from arena.errors import printable
    from arena.render.ansi import ansi, terminal
    from arena.render.export import state_at

    states = match.states()
    if turn is not None:
        states = [state_at(states, turn)]
    live = sys.stdout.isatty()
    shown = terminal(live, os.environ, shutil.get_terminal_size())
    names = f"{printable(match.red)} (red) against {printable(match.blue)} (blue)"
    if not live or len(states) == 1:
        print(names, end="\n\n")
        for state in states:
            print(ansi(state, shown), end="\n\n")
        return
    sys.stdout.write(HIDE_CURSOR + HOME_AND_CLEAR)
    try:
        due = time.monotonic()
        for state in states:
            # New lines overwrite the old ones, to the end of the line: clearing the whole screen would flicker.
            screen = f"{names}\n\n{ansi(state, shown)}\n".replace("\n", f"{CLEAR_TO_END_OF_LINE}\n")
            print(f"{HOME}{screen}{CLEAR_BELOW}", end="", flush=True)
            due += 1 / fps
            time.sleep(max(0.0, due - time.monotonic()))
    finally:
        sys.stdout.write(SHOW_CURSOR)
