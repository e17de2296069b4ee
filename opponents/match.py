"""Matches between two players.

    results = play("level3", "level2", 1000)
    print(results.win_rate, results.win_rate_low, results.win_rate_high)

Home is red in the first half of the matches and blue in the second; with an odd number, red has one match more. Match k
is always match k of the arena's seed. So players whose moves depend only on the match, like all scripted ones, get the
same results with every batch size and on every device.
"""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from arena import BatchArena
from arena.errors import ArenaError
from arena.replay import Replay
from arena.rules import LENGTH, SNAKES, START_LENGTH, TEAM, TURN, TURNS
from opponents.bound_turns import bind_turns
from opponents.players import Loader, Player, Scripted, find
from opponents.results import Examples, RecordedMatches, Results, Tally, find_examples, first_examples, join_examples
from opponents.submission import SANDBOXED, Submission, SubmissionOptions

BATCH = 16384  # fills a GPU; recording it takes 20 MB
SUBMISSION_BATCH = 32  # a submission is loaded once for every match of a batch
FORFEIT = 1000  # a lead above any lead by score
COLOURS = ("red", "blue")  # of the sides 0 and 1
PICKS = ("first", "closest", "worst", "best")  # of recorded matches, for home
TURNS_AT_ONCE = 20  # in one compiled call; after each one Python gets a word
Progress = Callable[[float], None]  # gets the fraction of the turns that have been played, 0 to 1


@dataclass(frozen=True)
class PlayedMatches:
    """The outcome of some consecutive matches between two players; `summarise` makes Results of it."""

    home: str
    away: str
    scores: np.ndarray  # [B, 2], home first, like the next two
    deaths: np.ndarray
    forfeits: np.ndarray
    turns: int  # of all these matches together
    seconds: float
    picks: dict[str, tuple[int, int, torch.Tensor]]  # name of the replay -> rank in its order, match number, actions
    problems: tuple[Counter[str], Counter[str]]  # of home and away in these matches, if they are submissions
    recorded: RecordedMatches | None = None  # all of them, if their actions were kept
    examples: Examples | None = None  # see Results


def play(
    home: str | Player,
    away: str | Player,
    matches: int,
    device: str | torch.device = "cpu",
    seed: int = 0,
    record: bool = False,
    batch: int | None = None,
    loader: Loader | None = None,
    progress: Progress | None = None,
    submissions: SubmissionOptions = SANDBOXED,
    keep_actions: bool = False,
) -> Results:
    """Play matches 0 .. matches - 1 of the seed between two players or names, `batch` of them at a time.

    `loader` loads players from paths other than submissions; see `players.find`. `progress` is called after each turn.
    `keep_actions`: the results have all lost matches (1.2 kB each, and as much for every other match meanwhile).
    """
    numbers = range(matches)
    some = play_some(
        home, away, matches, numbers, device, seed, record, batch, loader, progress, submissions, keep_actions
    )
    return summarise([some], seed)


def play_some(
    home: str | Player,
    away: str | Player,
    matches: int,
    numbers: range,
    device: str | torch.device = "cpu",
    seed: int = 0,
    record: bool = False,
    batch: int | None = None,
    loader: Loader | None = None,
    progress: Progress | None = None,
    submissions: SubmissionOptions = SANDBOXED,
    keep_actions: bool = False,
    examples: int = 0,
) -> PlayedMatches:
    """Play those of the matches 0 .. matches - 1 whose numbers are in a range (at least one), as `play` would.

    Several processes can share the matches of one `play`: `summarise` joins their outcomes. `examples`: of so many lost
    matches of each side the actions are kept.
    """
    for what, number in (("matches", matches), ("batch", batch)):
        if number is not None and number < 1:
            raise ArenaError(f"{what} is {number}; allowed: a whole number from 1")
    if home is away and not isinstance(home, str):
        raise ArenaError(f"home and away are the same object ({home.name}); a player keeps one side's seats: make two")
    with ExitStack() as opened:
        home, away = (open_player(player, opened, loader, submissions) for player in (home, away))
        if batch is None:
            batch = SUBMISSION_BATCH if any(isinstance(player, Submission) for player in (home, away)) else BATCH
        return _play(home, [away], matches, numbers, device, seed, record, batch, progress, keep_actions, examples)[0]


def play_side_by_side(
    home: Player,
    away: Sequence[Scripted],
    matches: int,
    numbers: range,
    device: torch.device,
    seed: int = 0,
    record: bool = False,
    progress: Progress | None = None,
) -> list[PlayedMatches]:
    """The same against each of several players, all in one batch: few matches leave most of a GPU idle."""
    return _play(home, away, matches, numbers, device, seed, record, max(1, BATCH // len(away)), progress)


def summarise(played: Sequence[PlayedMatches], seed: int, replays_of: Sequence[str] = PICKS) -> Results:
    """The results of all matches of a `play`: from the outcomes of its parts, in the order of the match numbers.

    replays_of: the recorded matches whose replays are made, some 30 ms each.
    """
    home, away = played[0].home, played[0].away
    score = np.concatenate([part.scores for part in played])
    deaths = np.concatenate([part.deaths for part in played])
    forfeit = np.concatenate([part.forfeits for part in played])
    matches, turns = len(score), sum(part.turns for part in played)
    lead, side = leads(score, forfeit), _home_side(np.arange(matches), matches)
    total = _tally(lead)
    sides = {"score": score.mean(0), "deaths": deaths.mean(0)}
    sides["length"] = sides["score"] / TEAM + START_LENGTH
    picks: dict[str, tuple[int, int, torch.Tensor]] = {}
    for part in played:
        keep_first(picks, part.picks)
    picks = {name: pick for name, pick in picks.items() if name in replays_of}
    kept = {number: actions for _, number, actions in picks.values()}  # one match may be picked twice
    replays = {number: _replay(home, away, matches, seed, number, actions) for number, actions in kept.items()}
    problems = [sum((part.problems[side] for part in played), Counter()) for side in (0, 1)]
    return Results(
        home=home,
        away=away,
        matches=matches,
        wins=total.wins,
        draws=total.draws,
        losses=total.losses,
        by_colour={colour: _tally(lead[side == i]) for i, colour in enumerate(COLOURS) if i in side},
        **{f"home_{what}": float(of_sides[0]) for what, of_sides in sides.items()},
        **{f"away_{what}": float(of_sides[1]) for what, of_sides in sides.items()},
        home_forfeits=int(forfeit[:, 0].sum()),
        away_forfeits=int(forfeit[:, 1].sum()),
        problems=tuple(f"{text} ({count} x)" for counts in problems for text, count in counts.items()),
        turns=turns,
        turns_per_second=(turns - matches) / max(part.seconds for part in played),  # parts are played side by side
        replays={name: replays[number] for name, (_, number, _) in picks.items()},
        lost=_lost(played),
        examples=join_examples([part.examples for part in played]),
    )


def _lost(played: Sequence[PlayedMatches]) -> RecordedMatches | None:
    """The matches that home lost by score, no forfeit among them; None if no actions were kept."""
    found = []
    for part in played:
        if part.recorded is None:
            return None
        found.append(part.recorded.chosen((part.scores[:, 0] < part.scores[:, 1]) & ~part.forfeits.any(1)))
    return RecordedMatches.joined(found)


def open_player(
    player: str | Player, opened: ExitStack, loader: Loader | None = None, submissions: SubmissionOptions = SANDBOXED
) -> Player:
    """The player itself, or the player of that name; a player found by name is closed together with `opened`."""
    if not isinstance(player, str):
        return player
    found = find(player, loader, submissions)
    opened.callback(found.close)
    return found


def choose_device(device: str, players: Sequence[Player]) -> str:
    """The device itself; for `auto` a GPU, if there is one and no player is a submission, which computes on the CPU."""
    if device != "auto":
        return device
    on_host = any(isinstance(player, Submission) for player in players)
    return "cpu" if on_host or torch.cuda.device_count() == 0 else "cuda"


def _play(
    home: Player,
    away: Sequence[Player],
    matches: int,
    wanted: range,
    device: Any,
    seed: int,
    record: bool,
    batch: int,
    progress: Progress | None,
    keep_actions: bool = False,
    examples: int = 0,
) -> list[PlayedMatches]:
    """The wanted matches against each of the away players; `batch` of each at a time, side by side."""
    # By away player; of each batch [B, 2], home first.
    scores: list[list[np.ndarray]] = [[] for _ in away]
    deaths: list[list[np.ndarray]] = [[] for _ in away]
    forfeits: list[list[np.ndarray]] = [[] for _ in away]
    turns = [0] * len(away)
    picks: list[dict[str, tuple[int, int, torch.Tensor]]] = [{} for _ in away]
    kept: list[list[torch.Tensor]] = [[] for _ in away]  # actions [T, B, 6] of each batch
    lost: list[Examples | None] = [None] * len(away)
    seconds, before = 0.0, [_problems(player) for player in (home, *away)]
    for first in range(wanted.start, wanted.stop, batch):
        numbers = np.arange(first, min(first + batch, wanted.stop))
        size, side = len(numbers), _home_side(numbers, matches)
        arena = BatchArena(size * len(away), device, seed, first_match=first)
        arena.numbers.view(len(away), size)[:] = arena.numbers[:size].clone()  # the same matches against each

        def finish_turn(turn: int, first: int = first, size: int = size) -> None:
            if progress is not None:
                progress((first - wanted.start + size * (turn + 1) / TURNS) / len(wanted))

        died, actions, taken = _play_batch(home, away, arena, side, record or keep_actions or examples > 0, finish_turn)
        lengths = arena.state[:, LENGTH : LENGTH + SNAKES].cpu().numpy()
        ends, deaths_of = arena.state[:, TURN].cpu().numpy(), died.cpu().numpy()
        seconds += taken
        for i, player in enumerate(away):
            mine = slice(i * size, (i + 1) * size)
            scores[i].append(_by_side(lengths[mine], side) - TEAM * START_LENGTH)
            deaths[i].append(_by_side(deaths_of[mine], side))
            forfeits[i].append(np.stack([_forfeited(each, size) for each in (home, player)], 1))
            turns[i] += int(ends[mine].sum())
            if actions is not None and record:
                lead = leads(scores[i][-1], forfeits[i][-1])
                keep_first(picks[i], _pick(numbers, lead, actions[:, mine]))
            if actions is not None and keep_actions:
                kept[i].append(actions[:, mine].cpu())
            if actions is not None and examples:
                some = find_examples(numbers, side, scores[i][-1], forfeits[i][-1], actions[:, mine], examples)
                lost[i] = first_examples(join_examples([lost[i], some]), examples)
    numbers = np.arange(wanted.start, wanted.stop)
    return [
        PlayedMatches(
            home.name,
            player.name,
            np.concatenate(scores[i]),
            np.concatenate(deaths[i]),
            np.concatenate(forfeits[i]),
            turns[i],
            seconds,
            picks[i],
            (_problems(home) - before[0], _problems(player) - before[1 + i]),
            RecordedMatches(numbers, _home_side(numbers, matches), torch.cat(kept[i], 1)) if kept[i] else None,
            lost[i],
        )
        for i, player in enumerate(away)
    ]


def _play_batch(
    home: Player,
    away: Sequence[Player],
    arena: BatchArena,
    side: np.ndarray,
    record: bool,
    finish_turn: Callable[[int], None],
) -> tuple[torch.Tensor, torch.Tensor | None, float]:
    """Play an arena's matches to their end; returns deaths [B, 6], actions [T, B, 6] if recorded, and the seconds.

    side: of home in the matches against one away player; the first matches are against the first one, and so on.
    """
    arena.start()
    home_seats = _seats(np.tile(side, len(away)), arena.device)
    away_seats = _seats(1 - np.tile(side, len(away)), arena.device).chunk(len(away))
    players = [(home, home_seats), *zip(away, away_seats, strict=True)]
    for player, seats in players:
        player.begin(arena, seats)
    shape = (arena.matches, SNAKES)
    moves = torch.zeros(shape, dtype=torch.int8, device=arena.device)
    died = torch.zeros(shape, dtype=torch.int16, device=arena.device)
    actions = torch.empty((TURNS, *shape), dtype=torch.int8, device=arena.device) if record else None
    begun = 0.0
    play_turns = bind_turns(arena, players, moves, died)
    at_once = 1 if play_turns is None or record else TURNS_AT_ONCE
    # Always all turns, even if all matches end before: a check on every turn would make the CPU wait for the GPU.
    turn = 0
    while turn < TURNS:
        if turn == 1:
            begun = _clock(arena.device)
        turns = min(at_once, TURNS - turn) if turn else 1
        if play_turns is not None:
            play_turns(turns)
        else:
            for player, seats in players:
                player.act(arena, seats, moves)
            died += arena.play_turn(moves).died
        if actions is not None:
            actions[turn] = moves
        turn += turns
        finish_turn(turn - 1)
    taken = _clock(arena.device) - begun
    arena.check()
    return died, actions, taken


def _home_side(numbers: np.ndarray, matches: int) -> np.ndarray:
    """Which team home plays in these matches: 0 red, 1 blue."""
    return (numbers >= (matches + 1) // 2).astype(np.int64)


def _seats(side: np.ndarray, device: torch.device) -> torch.Tensor:
    seats = np.arange(len(side))[:, None] * SNAKES + side[:, None] * TEAM + np.arange(TEAM)
    return torch.from_numpy(seats.reshape(-1).astype(np.int32)).to(device)


def _by_side(of_snakes: np.ndarray, side: np.ndarray) -> np.ndarray:
    """Sums over the snakes of each team: [B, 6] -> [B, 2], home first."""
    teams = of_snakes.reshape(-1, 2, TEAM).sum(2, dtype=np.int64)
    return np.take_along_axis(teams, np.stack([side, 1 - side], 1), 1)


def _forfeited(player: Player, matches: int) -> np.ndarray:
    """Which matches of the batch a player forfeited: [B] bool."""
    return np.isin(np.arange(matches), list(player.forfeited) if isinstance(player, Submission) else [])


def leads(score: np.ndarray, forfeit: np.ndarray) -> np.ndarray:
    """Home's score minus away's, [B]; FORFEIT to either side if one of them forfeited."""
    lead = score[:, 0] - score[:, 1]
    decided = forfeit[:, 1].astype(np.int64) - forfeit[:, 0]
    return np.where(forfeit.any(1), FORFEIT * decided, lead)


def _tally(lead: np.ndarray) -> Tally:
    """Home's wins, draws and losses from its leads."""
    return Tally(len(lead), int((lead > 0).sum()), int((lead == 0).sum()), int((lead < 0).sum()))


def _problems(player: Player) -> Counter[str]:
    return player.problem_counts if isinstance(player, Submission) else Counter()


def _pick(numbers: np.ndarray, lead: np.ndarray, actions: torch.Tensor) -> dict[str, tuple[int, int, torch.Tensor]]:
    """The actions of the first, closest, worst and best match for home; of equals, the first match."""
    picks = {}
    for name, order in zip(PICKS, (numbers, abs(lead), lead, -lead), strict=True):
        i = int(order.argmin())
        picks[name] = int(order[i]), int(numbers[i]), actions[:, i].cpu()
    return picks


def keep_first(
    picks: dict[str, tuple[int, int, torch.Tensor]], later: dict[str, tuple[int, int, torch.Tensor]]
) -> None:
    """Take over picks from later matches where they come first in their order."""
    for name, pick in later.items():
        if name not in picks or pick[0] < picks[name][0]:
            picks[name] = pick


def _replay(home: str, away: str, matches: int, seed: int, number: int, actions: torch.Tensor) -> Replay:
    red, blue = (away, home) if _home_side(np.array([number]), matches)[0] else (home, away)
    return Replay.from_actions(seed, number, None, actions, red=red, blue=blue)


def _clock(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()
