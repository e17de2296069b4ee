"""The command `export`: write a policy for a competition, another runtime or a browser; check a submission.

(arena/render/export.py writes recorded matches.)
"""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from marl.cli.arguments import new_file, new_file_ending, new_folder, positive
from marl.errors import UserError
from marl.storage.run_names import player_name

if TYPE_CHECKING:
    from marl.storage.policy_player import PolicyPlayer

MOST_MILLISECONDS = 60_000  # of a planned move


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = (
        "Without --plan all choose the policy's moves. Networks that are not dense can be ONNX or a snapshot only."
    )
    parser.add_argument(
        "player",
        nargs="?",
        type=player_name,
        metavar="PLAYER",
        help="a run (its best), checkpoint or snapshot, last, or champion; --check needs none",
    )
    parser.add_argument(
        "--jidi",
        type=new_folder,
        metavar="DIR",
        help="check the competition's submission.py as --check does, and write it into DIR (needs only numpy)",
    )
    parser.add_argument(
        "--plan",
        type=_milliseconds,
        metavar="MS",
        help="with --jidi: the submission looks ahead with the exact rules, up to MS milliseconds a call",
    )
    parser.add_argument(
        "--budget",
        type=_milliseconds,
        metavar="MS",
        help="with --jidi: write nothing if a move takes longer than MS milliseconds here, and say which team does not",
    )
    parser.add_argument(
        "--max-size",
        type=positive,
        metavar="MB",
        help="with --jidi: write nothing if the file is larger than MB million bytes, and say which team's is not",
    )
    parser.add_argument(
        "--onnx", type=new_file, metavar="FILE", help="write the network as ONNX: observation to logits"
    )
    parser.add_argument(
        "--safetensors",
        type=new_file_ending(".safetensors"),
        metavar="FILE",
        help="write a snapshot: the weights, and what network they are",
    )
    parser.add_argument(
        "--html", type=new_file, metavar="FILE", help="write a page in which anybody can play with and against it"
    )
    parser.add_argument(
        "--check",
        type=Path,
        metavar="DIR",
        help="run DIR/submission.py in a sandbox, with numpy alone: compare 100 moves with those of PLAYER, or of its "
        "own weights; plan; tell time, size and the oldest Python",
    )
    parser.add_argument("--json", action="store_true", help="with --check: print one JSON document instead of text")
    parser.add_argument(
        "--uncaged",
        "--trust",
        action="store_true",
        help="with --check: run the file with your rights, not in a sandbox",
    )


def run(args: argparse.Namespace) -> int:
    writes = args.jidi or args.onnx or args.safetensors or args.html
    if args.player is None and args.check is None:
        raise UserError("a PLAYER is missing: a run, checkpoint or snapshot, last, or champion")
    if not writes and args.check is None:
        raise UserError(
            "nothing to write; need --jidi DIR, --onnx FILE, --safetensors FILE or --html FILE (or --check)"
        )
    if writes and args.check is not None:
        raise UserError("--check looks at what is there; write first, then check it in a second command")
    if args.plan is not None and not args.jidi:
        raise UserError("--plan MS is for the submission; need --jidi DIR")
    if (args.budget is not None or args.max_size is not None) and not args.jidi:
        raise UserError("--budget MS and --max_size MB are for the submission; need --jidi DIR")
    if (args.json or args.uncaged) and args.check is None:
        raise UserError(f"{'--json' if args.json else '--uncaged'} is for --check DIR")
    if args.onnx:
        _check_onnx()
    if args.check is not None:
        return _check(args)
    from marl.export.dense_layers import policy_layers

    player = _load(args.player)
    encoder, name = player.encoder, Path(player.name).name
    _check_encoder(args, encoder.name)
    layers = policy_layers(player) if args.jidi or args.html else []
    if args.jidi:
        from marl.export.limits import Limits, checked_submission

        path = args.jidi / "submission.py"
        data, found = checked_submission(player, name, path, args.plan, Limits(args.budget, args.max_size))
        _write(path, data, f"; its {found.moves} moves are the policy's, {found.longest_ms:.1f} ms at most")
    if args.onnx:
        from marl.export.onnx import onnx_of

        _write(args.onnx, onnx_of(player))
    if args.safetensors:
        from marl.storage import snapshot

        with _writing(args.safetensors):
            snapshot.write(args.safetensors, player.actor.state_dict(), player.about)
    if args.html:
        from marl.export.play_page import play_page
        from marl.planning.value_scale import value_scale

        _write(args.html, play_page(layers, encoder, name, value_scale(player.reward)).encode())
    return 0


def _load(name: str) -> "PolicyPlayer":
    from opponents.players import is_scripted

    if is_scripted(name):
        raise UserError(f"{name} is scripted; only what was trained can be exported: a run or a checkpoint")
    from marl.storage.saved_player import load_policy

    return load_policy(name)


def _check(args: argparse.Namespace) -> int:
    import json

    from marl.export.check import ComparedPolicy, check
    from marl.export.dense_layers import policy_layers

    path = args.check if args.check.suffix == ".py" else args.check / "submission.py"
    policy = None
    if args.player is not None:
        player = _load(args.player)
        policy = ComparedPolicy(policy_layers(player), player.encoder, Path(player.name).name)
    found = check(path, policy, args.uncaged)
    if args.json:
        print(json.dumps(found.as_json(), indent=2))
        return 0
    for title, text in found.as_text():
        print(f"{title:12} {text}")
    return 0


def _check_encoder(args: argparse.Namespace, encoder: str) -> None:
    """Refuse outputs that have to compute the observation themselves and do not know how."""
    from marl.export import play_page, submission_file

    for flag, wanted, known in (
        ("--jidi", args.jidi, submission_file.ENCODERS),
        ("--html", args.html, play_page.ENCODERS),
    ):
        if wanted and encoder not in known:
            raise UserError(
                f"{flag}: {args.player} was trained with the encoder {encoder!r}, which {flag} cannot compute; "
                f"known: {', '.join(sorted(known))}; --onnx and --safetensors write any policy"
            )


def _milliseconds(text: str) -> float:
    try:
        milliseconds = float(text)
    except ValueError:
        milliseconds = 0.0
    if not 1 <= milliseconds <= MOST_MILLISECONDS:
        raise argparse.ArgumentTypeError(f"{text!r}; allowed: 1 to {MOST_MILLISECONDS} milliseconds")
    return milliseconds


def _check_onnx() -> None:
    try:
        import onnx  # noqa: F401
    except ImportError:
        from arena.extras import install_hint

        raise UserError(f"--onnx needs the package onnx; {install_hint('onnx')}") from None


def _write(path: Path, data: bytes, note: str = "") -> None:
    from arena.files import write_atomically

    with _writing(path, note):
        write_atomically(path, data)


@contextmanager
def _writing(path: Path, note: str = "") -> Iterator[None]:
    """Around the writing of a file: makes its folder (--jidi), reports an error, prints the file's size and a note."""
    try:
        path.parent.mkdir(exist_ok=True)
        yield
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror or error}") from None
    print(f"{path}  {path.stat().st_size / 1000:,.0f} kB{note}")
