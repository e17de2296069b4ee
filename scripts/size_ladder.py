"""Trains PPO with networks of five sizes for equal time; their strength and speed go into docs/log/strength.md.

    python scripts/size_ladder.py [--minutes 1] [--sizes 0.03M,0.1M] [flags of train]

The recipe is configs/champion_60s.yaml, with a learning rate that falls with the width. All teams, the champions and
some scripted opponents then play a league; the time of a decision is measured on one core of the CPU. A second start
skips what is done. On a machine without this checkout's docs:

    python scripts/size_ladder.py --out DIR     train there; the results go to DIR, the page is left alone
    python scripts/size_ladder.py --page DIR    later, here: write the page from DIR, train nothing
"""

import argparse
import json
import shlex
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from docs_section import DOCS, add_flags, gpu_name, left_to_train, publish, train
from script_parser import ScriptParser

from arena.files import write_atomically
from marl.analysis.runs import read_summary
from marl.analysis.tables import amount
from marl.bench.planning import decisions_per_second
from marl.cli.arguments import add_device_flag, positive, positive_int
from marl.commands.training_jobs import Room
from marl.compute import machine, threads
from marl.config.train_config import read_config
from marl.errors import UserError
from marl.planning.planned_player import load_player
from marl.storage.run_folder import GROUP
from opponents.intervals import wilson
from opponents.match import Results
from opponents.players import CHAMPIONS
from opponents.round_robin import play_round_robin, rate

PAGE = DOCS / "log" / "strength.md"
SECTION, LEAGUE, TIMES = "size_ladder", "league.json", "times.json"
RECIPE = "champion_60s"
TEAMS = ("champion", "champion_small")  # that play in the league beside the sizes
OPPONENTS = ("level2", "evasive", "territory")
EVAL_MATCHES = 200  # of a training's own evaluation; the league is the measurement
TIMING_SECONDS = 1.0  # of each player; a decision that takes longer is measured six times


class Size(NamedTuple):
    """A network."""

    encoder: str
    body: tuple[int, ...]

    @property
    def text(self) -> str:
        return f"`{self.encoder}` {'-'.join(map(str, self.body))}"


SIZES = {
    "0.03M": Size("tactical", (128, 128)),
    "0.1M": Size("tactical", (256, 256)),
    "0.7M": Size("tactical_board", (512, 256)),
    "3M": Size("tactical_board", (1536, 768)),
    "10M": Size("tactical_board", (3456, 1728)),
}
RECIPE_WIDTH = 512  # the widest layer that takes the recipe's learning rate


def main() -> int:
    parser = ScriptParser(__doc__)
    parser.add_argument("--minutes", type=positive, default=1.0, help="of training for each size (default: 1)")
    parser.add_argument("--sizes", default=",".join(SIZES), help=f"default: {','.join(SIZES)}")
    parser.add_argument("--league-matches", type=positive_int, default=2000, help="of each pair (default: 2000)")
    add_device_flag(parser)
    add_flags(parser, "runs/size_ladder")
    args, argv = parser.parse_known_args()
    args.runs_dir = args.runs_dir or Path("runs/size_ladder")
    return publish(args, PAGE, [SECTION], lambda out: make(args, argv, out))


def make(args: argparse.Namespace, argv: Sequence[str], out: Path) -> int:
    """Train, measure and write the text. argv: further flags of all trainings."""
    sizes = args.sizes.split(",")
    if unknown := [name for name in sizes if name not in SIZES]:
        raise UserError(f"unknown size {unknown[0]!r}; known: {', '.join(SIZES)}")
    jobs = list(left_to_train(args.runs_dir, ((name, training_argv(args, name, argv)) for name in sizes)))
    if jobs:  # what was measured before is of other teams
        for name in (LEAGUE, TIMES):
            (args.runs_dir / name).unlink(missing_ok=True)
    failed = train(jobs, Room(({},)))
    folders = [args.runs_dir / GROUP / name for name in sizes if name not in failed]
    players, matches = [*map(str, folders), *TEAMS], args.league_matches
    asked = {"players": players, "matches": matches}
    played = kept(args.runs_dir / LEAGUE, asked, lambda: play_league(players, matches, args.device))
    times = kept(args.runs_dir / TIMES, asked, lambda: {name: measure_times(name) for name in players})
    given = ["python", "scripts/size_ladder.py", "--minutes", f"{args.minutes:g}", "--league-matches", str(matches)]
    given += [*(["--sizes", args.sizes] if sizes != list(SIZES) else []), *argv]
    about = [*map(about_size, folders), *map(about_champion, TEAMS)]
    lines = table(about, played, list(times.values()), matches)
    text = "\n".join([describe(given, matches), "", *lines, ""])
    (out / f"{SECTION}.md").write_text(text, encoding="utf-8")
    print(text)
    return 1 if failed else 0


def training_argv(args: argparse.Namespace, name: str, argv: Sequence[str]) -> list[str]:
    """The flags of the training of a size; those that are given to the script come last and count."""
    size = SIZES[name]
    lr = read_config(["--config", RECIPE]).ppo.lr * min(1.0, RECIPE_WIDTH / max(size.body))
    body = ",".join(map(str, size.body))
    own = ["--config", RECIPE, "--encoder", size.encoder, "--body", body, "--lr", f"{lr:.2g}", "--device", args.device]
    own += ["--max-minutes", f"{args.minutes:g}", "--no-eval-gif", "--eval-matches", str(EVAL_MATCHES)]
    return [*own, *argv]


def kept(file: Path, asked: dict[str, Any], measure: Callable[[], Any]) -> Any:
    """What `measure` returns; from the file, if it holds what is asked for now, and otherwise written to it."""
    if file.exists():
        found = json.loads(file.read_text("utf-8"))
        if found["asked"] == asked:
            return found["result"]
    result = measure()
    write_atomically(file, json.dumps({"asked": asked, "result": result}).encode())
    return result


def play_league(players: Sequence[str], matches: int, device: str) -> dict[str, Any]:
    """All pairs of the players and OPPONENTS: wins and draws [n, n] in this order."""

    def notify(pair: Results) -> None:
        print(f"{Path(pair.home).name} - {Path(pair.away).name}: {pair.win_rate:.1%} won", flush=True)

    found = play_round_robin([*players, *OPPONENTS], matches, device, seed=1, progress=notify, loader=load_player)
    return {"wins": found.wins.tolist(), "draws": found.draws.tolist()}


def measure_times(name: str) -> dict[str, float]:
    """The weights of a player, and milliseconds of a decision for three snakes on one core: alone and with planning."""
    threads.use_threads(1)
    weights = sum(each.numel() for each in load_player(name).actor.parameters())
    rates = [decisions_per_second(load_player(each), 1, "cpu", TIMING_SECONDS) for each in (name, f"plan:{name}")]
    found = {"weights": weights, "alone": 1000 / rates[0], "planning": 1000 / rates[1]}
    print(f"{Path(name).name}: {found}", flush=True)
    return found


def describe(given: Sequence[str], matches: int) -> str:
    """The title, and how the table was made."""
    processor, versions = machine.processor()["model"], machine.versions()
    place = f"one {gpu_name()}" if machine.gpus() else "a CPU"
    return (
        "## Size ladder\n\n"
        f"By `{shlex.join(given)}` on {place} ({time.strftime('%Y-%m-%d')}, torch {versions['torch']}, numba "
        f"{versions['numba']}): PPO with `--config {RECIPE}`, one run of each size, all for the same time. Above a "
        f"width of {RECIPE_WIDTH} the learning rate falls as 1 / width.\n\n"
        f"Won: of {matches:,} matches, in percent (95 % interval). Rating: of a league of these teams, {matches:,} "
        "matches for each pair (95 % interval). Time: of one decision for the three snakes of a team on one core "
        f"({processor}), on the first turn of a match, alone and as `plan:NAME` (4 rollouts of 4 turns)."
    )


def table(
    about: Sequence[tuple[str, ...]], played: dict[str, Any], times: Sequence[dict[str, float]], matches: int
) -> list[str]:
    """The lines of the table, a team in each."""
    wins, teams = np.array(played["wins"]), len(about)
    ratings, margins = rate((wins + np.array(played["draws"]) / 2)[:teams, :teams])
    head = ("team", "network", "learning rate", "training", "weights", *(f"won against `{name}`" for name in OPPONENTS))
    rows = [(*head, "rating", "ms", "ms with `plan:`")]
    for i in range(teams):
        shares = [won(int(number), matches) for number in wins[i, teams:]]
        rating = f"{ratings[i]:.0f} (±{margins[i]:.0f})"
        milliseconds = [f"{times[i][key]:,.{1 if times[i][key] < 100 else 0}f}" for key in ("alone", "planning")]
        rows.append((*about[i], f"{times[i]['weights']:,}", *shares, rating, *milliseconds))
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return [lines[0], "|---" * len(rows[0]) + "|", *lines[1:]]


def won(number: int, matches: int) -> str:
    """Percent, with an interval."""
    low, high = wilson(number, matches)
    return f"{100 * number / matches:.1f} ({100 * low:.1f}-{100 * high:.1f})"


def about_size(folder: Path) -> tuple[str, ...]:
    """Name, network, learning rate and training of a size, from its run."""
    run = read_summary(folder)
    training = f"{run.seconds:.0f} s, {amount(run.env_steps)} turns"
    return folder.name, SIZES[folder.name].text, f"{run.config['ppo']['lr']:g}", training


def about_champion(name: str) -> tuple[str, ...]:
    """The same of a team that comes with the program, from its card."""
    card = json.loads((CHAMPIONS / f"{name}.json").read_text("utf-8"))
    size = Size(card["network"]["encoder"], tuple(card["network"]["body"]))
    training = f"{card['training']['seconds']} s, {amount(card['training']['env_steps'])} turns"
    return f"`{name}`", size.text, f"{float(card['config']['ppo']['lr']):g}", training


if __name__ == "__main__":
    sys.exit(main())
