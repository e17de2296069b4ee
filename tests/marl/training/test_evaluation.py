"""Evaluations of a run: their matches are shared out over the ranks, and a slow one ends no run."""

import dataclasses
import re
import threading
from collections.abc import Iterator
from functools import cache
from typing import Any
from unittest import mock

import pytest
import torch
from helpers.resumed import measured
from helpers.submissions import SANDBOXED
from helpers.training import TINY, start_ranks, the_run
from helpers.training_states import small_state

from marl.config.sections import EvalConfig
from marl.errors import UserError
from marl.fast import blas
from marl.ranks.process_group import Solo
from marl.training import evaluation
from marl.training.evaluation import Evaluation, evaluate, matches_of_rank
from marl.training.progress import Progress
from marl.training.training_state import TrainingState
from opponents import match
from opponents.match import play_some

SEED = 5
CPU = torch.device("cpu")
CONFIG = EvalConfig(eval_matches=7, eval_opponents=("level0", "level2"))


class Together(Solo):
    """A rank that is a thread of this process: only what an evaluation needs."""

    def __init__(self, rank: int, world: int, values: list[Any], barrier: threading.Barrier) -> None:
        super().__init__(CPU)
        self.rank, self.world, self.is_main = rank, world, rank == 0
        self._values, self._barrier = values, barrier

    def gather(self, value: Any) -> list[Any] | None:
        self._values[self.rank] = value
        self._barrier.wait()
        return list(self._values) if self.is_main else None

    def broadcast(self, value: Any) -> Any:
        self._barrier.wait()
        if self.is_main:
            self._values[0] = value
        self._barrier.wait()
        return self._values[0]


@cache
def state_of(rank: int) -> TrainingState:
    """The same on all ranks. An evaluation leaves it as it is."""
    return small_state("--algo", "ppo_lstm", "--lstm_size", "8")


def by_ranks(world: int, config: EvalConfig, record: bool = True) -> list[Any]:
    """What `evaluate` returns or raises on each rank."""
    values, barrier, ends = [None] * world, threading.Barrier(world, timeout=300), [None] * world
    states = [state_of(rank) for rank in range(world)]

    def run(rank: int) -> None:
        state = states[rank]
        try:
            ends[rank] = evaluate(
                state.learner.actor, state.encoder, config, Together(rank, world, values, barrier), 5, record
            )
        except UserError as error:
            ends[rank] = error

    threads = [threading.Thread(target=run, args=[rank]) for rank in range(world)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return ends


def without_speed(evaluation: Evaluation) -> dict[str, Any]:
    return {name: dataclasses.replace(each, turns_per_second=0.0) for name, each in evaluation.results.items()}


@pytest.fixture(scope="module", autouse=True)
def shorter_matches() -> Iterator[None]:
    """Of the evaluations in this process: they are shared out alike."""
    with mock.patch.object(match, "TURNS", 60):
        yield


@pytest.fixture(scope="module")
def alone() -> Evaluation:
    (evaluation,) = by_ranks(1, CONFIG)
    return evaluation


@pytest.mark.usefixtures("slow_runs")  # they begin now: most of the time they sleep
@pytest.mark.parametrize("world", [2, 3, 8])  # with eight ranks, one has no match
def test_any_number_of_ranks_gives_the_evaluation_of_one(alone, world) -> None:
    first, *others = by_ranks(world, CONFIG)
    assert others == [None] * (world - 1)
    assert without_speed(first) == without_speed(alone)
    assert first.best_replay == alone.best_replay is not None
    assert first.metrics() == alone.metrics()
    if world == 2:  # the GIF is drawn from the best replay alone, which takes a second
        assert first.best_gif() == alone.best_gif()


@pytest.mark.usefixtures("one_thread")
def test_compiled_turns_in_any_number_of_threads_give_the_evaluation_of_torch(monkeypatch) -> None:
    monkeypatch.setattr(torch.backends.mkldnn, "enabled", False)
    monkeypatch.setattr(evaluation, "draw_gif", lambda replay: str(replay).encode())
    assert blas.is_usable()
    state = small_state("--algo", "ppo")

    def play(threads: int) -> Evaluation:
        seen = []
        monkeypatch.setattr(evaluation.numba, "get_num_threads", lambda: threads)
        monkeypatch.setattr(evaluation, "play_some", lambda *a, **b: seen.append(a[3]) or play_some(*a, **b))
        found = evaluate(state.learner.actor, state.encoder, CONFIG, Solo(CPU), 5, record=True)
        assert len(seen) == 2 * threads, seen
        return found

    compiled = [play(threads) for threads in (1, 3)]
    monkeypatch.setattr(blas, "is_usable", lambda: False)
    plain = play(1)
    assert without_speed(compiled[0]) == without_speed(compiled[1]) == without_speed(plain)
    assert plain.best_replay is not None
    # With several threads the GIF is drawn beside the last matches.
    assert [each.drawing is not None for each in (*compiled, plain)] == [False, True, False]
    assert compiled[1].best_gif() == plain.best_gif() == str(plain.best_replay).encode()


def test_an_evaluation_plays_matches_that_are_never_trained_on(alone) -> None:
    replay = alone.best_replay
    assert replay.seed == 5 + 1_000_003, "the run has the seed 5"
    assert replay.match in range(CONFIG.eval_matches)


@pytest.mark.parametrize(("matches", "world"), [(200, 1), (200, 3), (7, 8), (1, 2), (64, 64)])
def test_every_match_has_one_rank(matches, world) -> None:
    shares = [matches_of_rank(matches, rank, world) for rank in range(world)]
    assert [number for share in shares for number in share] == list(range(matches))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_a_mistake_that_one_rank_finds_ends_all_ranks(tmp_path) -> None:
    (tmp_path / "submission.py").write_text("x = 1\n")  # no controller
    config = EvalConfig(eval_matches=1, eval_opponents=(str(tmp_path / "submission.py"),), uncaged=SANDBOXED.uncaged)
    problems = by_ranks(2, config)  # rank 0 has no match
    assert [type(problem) for problem in problems] == [UserError, UserError]
    assert str(problems[0]) == str(problems[1])
    assert "submission.py" in str(problems[0])


@pytest.fixture(scope="module")
def slow_runs(tmp_path_factory):
    """Two trainings, in each of which the evaluations of one rank take 20 s; a function that waits for their ends."""
    folder = tmp_path_factory.mktemp("slow")
    words = [*TINY, "--matches", "4", "--eval_matches", "4", "--run_name", "team", "--timeout", "2"]
    words += ["--eval_interval", "0", "--runs_dir"]
    slow = [{f"rank {rank}": [f"@{rank}:slow:20", *words, str(folder / f"rank {rank}")]} for rank in (0, 1)]
    return folder, start_ranks(folder, *slow)


def test_an_evaluation_ten_times_longer_than_the_timeout_does_not_end_a_run(slow_runs) -> None:
    folder, results = slow_runs
    done = results()
    for name in ("rank 0", "rank 1"):
        assert [(code, err) for code, _, err in done[name]] == [(0, ""), (0, "")], name
        took = re.search(r"^time +(?:(\d+) min )?(\d+) s ", done[name][0][1], re.MULTILINE)
        assert 60 * int(took[1] or 0) + int(took[2]) >= 20
        assert (16, True) in measured(the_run(folder / name))


def test_a_later_team_is_best_unless_it_is_clearly_worse_than_the_most_points() -> None:
    progress = Progress()
    points = 0.5, 0.9, 0.88, 0.86, 0.84, 0.95, 0.2  # 0.84 is clearly less than 0.9, though not than 0.86
    chosen = [progress.take_evaluation(each, margin=0.03) for each in points]
    assert chosen == [True, True, True, True, False, True, False]
    assert progress.best == 0.95
