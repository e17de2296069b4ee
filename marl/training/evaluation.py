"""Evaluation inside a training run: the same matches each time, against fixed opponents (not `snakes eval`).

The command `snakes eval`, for any two players, is marl/commands/eval.py. Both play by opponents.match.
"""

import textwrap
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial

import numba
import torch

from arena.encoders import Encoder
from arena.errors import ArenaError
from arena.replay import Replay
from marl.config.sections import EvalConfig
from marl.errors import UserError
from marl.metrics.console import WIDTH
from marl.networks.actors import AnyActor
from marl.planning.planned_player import load_player
from marl.ranks.process_group import Ranks, Solo
from marl.storage.policy_player import PolicyPlayer
from opponents.intervals import margin_of_mean
from opponents.match import PlayedMatches, play_side_by_side, play_some, summarise
from opponents.players import is_scripted, scripted
from opponents.results import Results
from opponents.submission import SubmissionOptions

GIF_CELL = 16  # pixels
BEST = "best"  # of the recorded matches
Progress = Callable[[str, float], None]  # opponent, done fraction of its matches
EVAL_SEED = 1_000_003  # added to the run's seed: these matches are never trained on


@dataclass(frozen=True)
class Evaluation:
    """The team's results against each opponent."""

    results: dict[str, Results]
    drawing: Future[bytes] | None = None  # the GIF of the best replay, if it is drawn already

    @property
    def points(self) -> float:
        """Mean fraction of the points over the opponents."""
        return sum(result.points for result in self.results.values()) / len(self.results)

    @property
    def margin(self) -> float:
        """Half the width of the 95 % interval of the points."""
        return margin_of_mean((result.win_rate_low, result.win_rate_high) for result in self.results.values())

    @property
    def best_replay(self) -> Replay | None:
        """The match with the largest lead over the last (hardest) opponent, if it was recorded."""
        return list(self.results.values())[-1].replays.get(BEST)

    def best_gif(self) -> bytes | None:
        """The best replay as a small GIF; drawing it takes about a second."""
        if self.drawing is not None:
            return self.drawing.result()
        return draw_gif(self.best_replay) if self.best_replay else None

    def console_lines(self, episode: int, last_episode: int) -> list[str]:
        """What the console says of it, in lines that fit."""
        when = "the end" if episode >= last_episode else f"episode {episode:,}"
        rates = ", ".join(f"{name} {result.win_rate:.1%}" for name, result in self.results.items())
        text = f"evaluation at {when}: won {rates}"
        return textwrap.wrap(text, WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)

    def metrics(self) -> dict[str, float]:
        """Values for TensorBoard, by tag."""
        values: dict[str, float] = {}
        for name, result in self.results.items():
            values |= {f"eval/win_rate_{name}": result.win_rate, f"eval/score_{name}": result.home_score}
            values |= {f"eval_low/{name}": result.win_rate_low, f"eval_high/{name}": result.win_rate_high}
        return values | {"eval/points": self.points}


def draw_gif(replay: Replay) -> bytes:
    """A small GIF of a match."""
    from arena.render.export import gif_bytes  # not before a match is drawn: it brings Pillow

    return gif_bytes(replay, sizes=((GIF_CELL, 1),))


def evaluate(
    actor: AnyActor,
    encoder: Encoder,
    config: EvalConfig,
    group: Solo | Ranks,
    seed: int,
    record: bool = False,
    progress: Progress | None = None,
) -> Evaluation | None:
    """Play against all opponents, the matches split over the ranks. A collective; returns it on rank 0 only.

    Ranks that are done wait for the others as long as these are alive. With `record`, replays of the matches against
    the last opponent are kept. `progress` is called with the opponent and the done fraction of its matches.
    """
    mine: list[dict[str, PlayedMatches]] = []
    problem = drawing = None
    seed += EVAL_SEED

    def draw(parts: list[PlayedMatches]) -> None:
        nonlocal drawing
        best = summarise(parts, seed, (BEST,)).replays[BEST]
        pool = ThreadPoolExecutor(1, "animation")
        drawing = pool.submit(draw_gif, best)
        pool.shutdown(wait=False)

    with group.keep_alive():
        try:
            draws = record and config.eval_gif and group.world == 1
            mine = _play_own_matches(actor, encoder, config, group, seed, record, progress, draw if draws else None)
        except (UserError, ArenaError) as error:
            problem = str(error)
    gathered = group.gather((mine, problem)) or []
    problem = group.broadcast(next((problem for _, problem in gathered if problem is not None), None))
    if problem is not None:  # of any rank: all ranks end
        raise UserError(problem)
    parts = [part for mine, _ in gathered for part in mine]
    return replace(_join_parts(config, parts, seed), drawing=drawing) if gathered else None


def matches_of_rank(matches: int, rank: int, world: int) -> range:
    """The numbers of the matches that a rank plays: consecutive, and equally many on all ranks or one more."""
    return range(matches * rank // world, matches * (rank + 1) // world)


def _play_own_matches(
    actor: AnyActor,
    encoder: Encoder,
    config: EvalConfig,
    group: Solo | Ranks,
    seed: int,
    record: bool,
    progress: Progress | None,
    on_recorded: Callable[[list[PlayedMatches]], None] | None = None,
) -> list[dict[str, PlayedMatches]]:
    """Play this rank's matches on its device: parts of them in their order, each by opponent.

    on_recorded: gets the parts against the last opponent, while the matches against the others are played. Not called
    where these would wait for it.
    """
    numbers = matches_of_rank(config.eval_matches, group.rank, group.world)

    def play(names: Sequence[str], numbers: range, progress: Progress | None) -> dict[str, PlayedMatches]:
        played = {}
        for name in names:
            keep = record and name == config.eval_opponents[-1]
            played[name] = play_some(
                PolicyPlayer(actor, encoder, "team"),
                name,
                config.eval_matches,
                numbers,
                group.device,
                seed,
                keep,
                loader=load_player,
                progress=partial(progress, name) if progress else None,
                submissions=SubmissionOptions(config.uncaged),
            )
        return played

    if not numbers:
        return []
    if group.device.type == "cuda" and all(map(is_scripted, config.eval_opponents)):
        return [_play_side_by_side(actor, encoder, config, numbers, group.device, seed, record, progress)]
    threads = _threads_at_once(PolicyPlayer(actor, encoder, "team"), config, group, len(numbers))
    if threads == 1:
        return [play(config.eval_opponents, numbers, progress)]
    parts = [numbers[i * len(numbers) // threads : (i + 1) * len(numbers) // threads] for i in range(threads)]
    progress_of_part = [progress] + [None] * (threads - 1)
    # numba.set_num_threads holds for the thread that calls it. torch.get_num_threads: torch takes over its number.
    with ThreadPoolExecutor(threads, "evaluation", lambda: (numba.set_num_threads(1), torch.get_num_threads())) as pool:
        if on_recorded is None:
            return [*pool.map(partial(play, config.eval_opponents), parts, progress_of_part)]
        *others, last = config.eval_opponents
        of_last = [*pool.map(partial(play, [last]), parts, progress_of_part)]
        on_recorded([part[last] for part in of_last])
        return [a | b for a, b in zip(of_last, pool.map(partial(play, others), parts, progress_of_part), strict=True)]


def _play_side_by_side(
    actor: AnyActor,
    encoder: Encoder,
    config: EvalConfig,
    numbers: range,
    device: torch.device,
    seed: int,
    record: bool,
    progress: Progress | None,
) -> dict[str, PlayedMatches]:
    """Play against all opponents at once, by opponent; of the last one with replays if recorded."""
    team, names = PolicyPlayer(actor, encoder, "team"), config.eval_opponents
    notify = partial(progress, ", ".join(names)) if progress else None
    opponents = [scripted(name) for name in names]
    played = play_side_by_side(team, opponents, config.eval_matches, numbers, device, seed, record, notify)
    return {
        name: replace(part, picks=part.picks if name == names[-1] else {})
        for name, part in zip(names, played, strict=True)
    }


def _threads_at_once(player: PolicyPlayer, config: EvalConfig, group: Solo | Ranks, matches: int) -> int:
    """Threads that each play a part of the matches in compiled calls; 1 where loops themselves may use all threads.

    On one Neoverse-N1 core 4 x 200 matches take 3.5 s in compiled calls, and 4.4 s with calls from Python, 2.1 s of
    them outside loops that use several threads.
    """
    if group.device.type != "cpu" or not player.is_compiled or not all(map(is_scripted, config.eval_opponents)):
        return 1
    return max(1, min(numba.get_num_threads(), matches))


def _join_parts(config: EvalConfig, parts: list[dict[str, PlayedMatches]], seed: int) -> Evaluation:
    """The evaluation from the parts of all ranks, in their order."""
    played = {name: [part[name] for part in parts] for name in config.eval_opponents}
    return Evaluation({name: summarise(each, seed, (BEST,)) for name, each in played.items()})
