"""The command `eval`: matches between any two players, with confidence intervals. (Not the evaluation in training.)"""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from marl.analysis.tables import print_rows
from marl.cli.arguments import (
    add_device_flag,
    add_seed_flag,
    add_stop_flag,
    add_submission_flags,
    choose_seed,
    error_rates_text,
    new_file,
    new_folder,
    positive_int,
    submission_options,
)
from marl.cli.invocation import command
from marl.cli.progress_bar import ProgressBar
from marl.commands.eval_explain import explain
from marl.errors import UserError
from marl.storage.run_names import player_name, player_names

if TYPE_CHECKING:
    from opponents.players import Player
    from opponents.results import Results, Tally


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = (
        "Players: a name of --list, the same with a share of random moves (level3:0.2), or a path to a submission.py,\n"
        "run, checkpoint or snapshot; `last` is the run that was started last.\n"
        "Home is red in the first half of the matches and blue in the second.\n"
        "win_rate = wins / matches, with Wilson's 95 % interval, of all matches and by home's colour;\n"
        "points = (wins + draws / 2) / matches."
    )
    parser.add_argument("--home", type=player_name, metavar="PLAYER", help="the player to measure")
    parser.add_argument(
        "--away",
        type=player_names,
        metavar="PLAYER",
        help="its opponent, or several: level2,territory,friend/submission.py; development, held_out: the halves of "
        "the field; probes: all probes but those of held_out",
    )
    parser.add_argument("--matches", type=positive_int, default=1000, metavar="N", help="how many (default: 1000)")
    add_stop_flag(parser)
    add_seed_flag(parser)
    add_device_flag(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of text")
    parser.add_argument(
        "--record",
        type=new_file,
        metavar="FILE",
        help="write the replay of the first match to FILE; those of the closest, of home's worst and best beside it, "
        "with .closest, .worst and .best before the suffix",
    )
    parser.add_argument(
        "--record-policy",
        action="store_true",
        help="with --record: also the policies' probabilities and values, for the viewers (key o)",
    )
    parser.add_argument(
        "--explain",
        nargs="?",
        type=new_folder,
        const=True,
        metavar="DIR",
        help="tell why home lost: causes of death, turns, lead; with DIR also write a picture and the three most "
        "telling matches, as replays and as a page, to that folder",
    )
    add_submission_flags(parser)
    parser.add_argument("--list", action="store_true", help="print the known players and quit")


def run(args: argparse.Namespace) -> int:
    if args.record_policy and args.record is None:
        raise UserError("--record_policy goes with --record FILE")
    if not args.list and (args.home is None or args.away is None):
        example, players = command("eval", "--home", "last", "--away", "level2"), command("eval", "--list")
        raise UserError(f"eval needs --home PLAYER and --away PLAYER, like {example}; players: {players}")
    if args.away is not None:
        from marl.commands.player_groups import expand_groups

        args.away = expand_groups(args.away)
    if args.record is not None and args.away is not None and len(args.away) > 1:
        raise UserError(f"--record keeps the matches against one player; --away names {len(args.away)}")
    if args.explain is not None and args.away is not None and len(args.away) > 1:
        raise UserError(f"--explain tells of the matches against one player; --away names {len(args.away)}")
    from marl.commands.league_plan import estimate_text
    from marl.planning.planned_player import load_player
    from opponents.league_decision import ERROR_RATES
    from opponents.league_entries import load_submission
    from opponents.match import choose_device, open_player, play
    from opponents.policy_outputs import is_policy

    if args.list:
        _print_players(args.json)
        return 0
    with ExitStack() as opened:
        names, submissions = (args.home, *args.away), submission_options(args)
        home, *opponents = (open_player(name, opened, load_player, submissions) for name in names)
        tells = is_policy(home) or is_policy(opponents[0])
        if args.record_policy and not tells:
            neither = f"neither {args.home} nor {args.away[0]} is a policy with probabilities"
            print(f"snakes: --record_policy: {neither}; recorded without", file=sys.stderr)
        for player in (home, *opponents):
            load_submission(player)
        seed = choose_seed(args.seed, names)
        record, keep = args.record is not None, args.explain is not None
        device = choose_device(args.device, (home, *opponents))
        if estimate := estimate_text(home, opponents, args.matches, device, args.stop_when_decided):
            print(estimate, file=sys.stderr, flush=True)
        played: list[Results] = []
        verdicts: list[str | None] = []
        with ProgressBar("") as bar:
            for away in opponents:
                bar.title = f"{home.name} - {away.name}"

                def show(share: float) -> None:
                    bar.show((len(played) + share) / len(opponents))

                if args.stop_when_decided:
                    results, verdict = _play_until_decided(home, away, args.matches, device, seed, record, keep, show)
                    verdicts.append(verdict)
                else:
                    results = play(home, away, args.matches, device, seed, record, progress=show, keep_actions=keep)
                played.append(results)
        results = played[0]
        files = _write_replays(results, args.record, (home, opponents[0]) if args.record_policy and tells else None)
    explained = explain(results, seed, args.explain if isinstance(args.explain, Path) else None) if keep else None
    if args.json:
        decided = [{"decided": verdict, "error_rates": ERROR_RATES} for verdict in verdicts] or [{}] * len(played)
        documents = [each.as_dict() | more for each, more in zip(played, decided, strict=True)]
        document = documents[0] if len(played) == 1 else {"pairs": documents}
        more = ({"replays": files} if files else {}) | ({"explanation": explained.tables} if explained else {})
        print(json.dumps(document | {"seed": seed} | more, indent=2))
    elif len(played) == 1:
        _print_results(results, seed, device)
        for which, path in files.items():
            print(f"{which + ' match':14} {path}")
    else:
        _print_pairs(played, seed)
    if verdicts and not args.json:
        _print_verdicts(played, verdicts)
    if explained and not args.json:
        print("", *explained.lines, sep="\n")
    for line in dict.fromkeys(line for each in played for line in each.problems):
        print(line, file=sys.stderr)
    return 0


def _play_until_decided(
    home: "Player",
    away: "Player",
    matches: int,
    device: str,
    seed: int,
    record: bool,
    keep_actions: bool,
    show: Callable[[float], None],
) -> tuple["Results", str | None]:
    """The results, and who is better; each board is played twice, with the colours swapped."""
    from opponents.league_rounds import PairedMatches, play_rounds

    pair = PairedMatches(home, away, device, seed, record, keep_actions)
    play_rounds([pair], (matches + 1) // 2, stop_when_decided=True, progress=lambda _, share: show(share))
    return pair.results(), pair.verdict


def _write_replays(
    results: "Results", first: Path | None, policies: tuple["Player", "Player"] | None
) -> dict[str, str]:
    from arena.replay import today, write
    from opponents.policy_outputs import add_policy_outputs

    files = {}
    for which, replay in results.replays.items():
        path = first if which == "first" else first.with_name(f"{first.stem}.{which}{first.suffix}")
        if policies is not None:
            home, away = policies
            home_is_red = replay.red == results.home  # of equal names each policy may stand for the other
            replay = add_policy_outputs(replay, *((home, away) if home_is_red else (away, home)))
        write(path, replace(replay, date=today()))
        files[which] = str(path)
    return files


def _print_players(as_json: bool) -> None:
    from opponents import field
    from opponents.players import listing, probe_listing

    players = [*listing(), *probe_listing(), *field.listing()]
    if as_json:
        print(json.dumps(dict(players), indent=2))
        return
    width = max(len(name) for name, _ in players)
    for name, description in players:
        print(f"{name:{width}}  {description}")
    print(f"{'probes':{width}}  All that play by one habit, from circler on, but those of held_out.")
    print(f"{'development':{width}}  A half of the field, {', '.join(field.field(field.DEVELOPMENT))}.")
    print(f"{'held_out':{width}}  The other half, {', '.join(field.field(field.HELD_OUT))}.")
    print(f"{'NAME:0.2':{width}}  The same with 20 % random moves.")
    print(f"{'PATH':{width}}  A submission.py (or its folder), run, checkpoint or snapshot.")
    print(f"{'last':{width}}  The run that was started last; other runs by name or number: run7.")


def _print_results(results: "Results", seed: int, device: str) -> None:
    r = results
    print(f"{r.home} - {r.away}: {r.matches:,} {'match' if r.matches == 1 else 'matches'}, seed {seed}")
    print(f"{'won':14} {r.win_rate:.1%} (95 %: {_interval(r)})")
    by_colour = [f"{of.win_rate:.1%} ({_interval(of)}) as {colour}" for colour, of in r.by_colour.items()]
    print(f"{'won by colour':14} {', '.join(by_colour)}")
    print(f"{'won-drawn-lost':14} {r.wins:,} - {r.draws:,} - {r.losses:,}, {r.points:.1%} of the points")
    print(f"{'mean score':14} {r.home_score:.1f} : {r.away_score:.1f}")
    print(f"{'mean deaths':14} {r.home_deaths:.1f} : {r.away_deaths:.1f}")
    if r.home_forfeits or r.away_forfeits:
        print(f"{'forfeited':14} {r.home_forfeits:,} : {r.away_forfeits:,}")
    print(f"{'speed':14} {r.turns_per_second:,.0f} match-turns/s on {device}")


def _print_pairs(played: Sequence["Results"], seed: int) -> None:
    """One line per opponent, the hardest first."""
    numbers = sorted({results.matches for results in played})
    many = f"{numbers[0]:,}" if len(numbers) == 1 else f"{numbers[0]:,} to {numbers[-1]:,}"
    print(f"{played[0].home}: {many} matches against each, seed {seed}\n")
    rows = [("against", "won", "95 %", "won-drawn-lost", "points", "mean score", "deaths", "forfeited")]
    for r in sorted(played, key=lambda each: each.points):
        counts, scores = f"{r.wins:,} - {r.draws:,} - {r.losses:,}", f"{r.home_score:.1f} : {r.away_score:.1f}"
        deaths, forfeits = f"{r.home_deaths:.1f} : {r.away_deaths:.1f}", f"{r.home_forfeits:,} : {r.away_forfeits:,}"
        rows.append((r.away, f"{r.win_rate:.1%}", _interval(r), counts, f"{r.points:.1%}", scores, deaths, forfeits))
    print_rows(rows, right=(1, 2, 3, 4, 5, 6, 7))


def _print_verdicts(played: Sequence["Results"], verdicts: Sequence[str | None]) -> None:
    from opponents.league_decision import HOME

    said = []
    for results, verdict in zip(played, verdicts, strict=True):
        better = results.home if verdict == HOME else results.away
        text = "not decided" if verdict is None else f"{better} is better"
        said.append(text if len(played) == 1 else f"{results.away}: {text}")
    print(f"\n{'decided':14} {'; '.join(said)}" if len(played) > 1 else f"{'decided':14} {said[0]}")
    print(f"{'':14} {error_rates_text()}")


def _interval(of: "Tally") -> str:
    return f"{of.win_rate_low:.1%} to {of.win_rate_high:.1%}"
