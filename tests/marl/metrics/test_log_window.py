"""The numbers of a log line: what several ranks counted, summed as they do it, and read back by hand."""

import pytest
import torch

from marl.metrics.log_window import LogWindow, pack, unpack
from marl.rollout.rollout import RolloutResults

OPPONENTS = ("level0", "past_10", "past_20", "past_10")  # a past self may play in two places
MEASURED, LOSSES = ("buffer/fill", "policy/entropy"), ("loss/actor", "loss/critic", "updates/skipped")


def results(tally: list[list[int]], rewards: list[float], deaths: list[float], lengths: list[float]) -> RolloutResults:
    return RolloutResults(torch.tensor(tally), *(torch.tensor(part) for part in (rewards, deaths, lengths)))


def summed() -> torch.Tensor:
    """Two ranks. After the opponents come the team itself and matches that count for nobody."""
    first = results(
        [[3, 1, 0], [1, 0, 1], [0, 0, 0], [0, 1, 0], [0, 0, 0], [2, 0, 0]], [10.0, 20.0, -5.0], [4.0, 8.0], [90.0, 60.0]
    )
    second = results(
        [[0, 0, 4], [0, 0, 1], [0, 0, 0], [2, 1, 0], [0, 0, 0], [2, 0, 0]], [0.5, 1.0, 2.0], [1.0, 3.0], [30.0, 54.0]
    )
    # The learner's part: batches, sums of the losses, steps skipped in the window, and in a row.
    return pack(first, torch.tensor([0.25, 1.0]), torch.tensor([4.0, 2.0, 8.0, 3.0, 1.0])) + pack(
        second, torch.tensor([0.75, 2.0]), torch.tensor([4.0, 6.0, 0.0, 3.0, 1.0])
    )


@pytest.fixture
def window() -> LogWindow:
    return unpack(summed(), OPPONENTS, MEASURED, LOSSES, world=2)


def test_matches_are_summed_over_ranks_and_places_and_opponents_without_any_are_left_out(window):
    assert window.matches == {"level0": (3, 1, 4), "past_10": (3, 2, 2)}


def test_rewards_and_lengths_are_means_over_all_finished_matches(window):
    finished = 8 + 7 + 4  # with those that count for nobody
    assert window.rewards == pytest.approx((10.5 / finished, 21 / finished, -3 / finished))
    assert window.lengths == pytest.approx((120 / finished / 3, 114 / finished / 3))


def test_losses_are_means_over_the_batches_and_measures_means_over_the_ranks(window):
    assert window.losses == pytest.approx({"loss/actor": 1.0, "loss/critic": 1.0, "updates/skipped": 0.75})
    assert window.measures == {"buffer/fill": 0.5, "policy/entropy": 1.5}


def test_all_ranks_skip_the_same_updates(window):
    assert (window.skipped, window.skipped_in_a_row) == (3.0, 1.0)


def test_the_values_of_tensorboard(window):
    values = window.metrics(env_steps=800)
    assert window.deaths == (5.0, 11.0)
    rates = {"win_rate/level0": 3 / 8, "win_rate/past_10": 3 / 7}
    rewards = {f"reward/snake{snake}": reward / 19 for snake, reward in enumerate((10.5, 21, -3))}
    deaths = {"match/deaths": 5 * 200 / 800, "match/opponent_deaths": 11 * 200 / 800}  # in 200 turns
    lengths = {"match/length": 120 / 57, "match/opponent_length": 114 / 57}
    own = {"loss/actor": 1.0, "loss/critic": 1.0, "updates/skipped": 0.75, "buffer/fill": 0.5, "policy/entropy": 1.5}
    assert values == pytest.approx({**own, **rates, **rewards, "reward/total": 28.5 / 19, **deaths, **lengths})


def test_the_words_of_the_console(window):
    assert window.reward_text() == "0.6, 1.1, -0.2"
    assert (window.won("level0"), window.won("past_10"), window.won("past_20")) == ("38%", "43%", "-")
    assert window.won_by_opponent() == "level0 38%, past selves 43%"


def test_past_selves_count_as_one():
    several = {"past_1": (1, 0, 1), "level1": (1, 0, 0), "past_2": (0, 0, 6), "passed": (0, 1, 0)}
    joined = LogWindow(several, (0.0,) * 3, (0.0, 0.0), (0.0, 0.0), {}, {}, 0.0, 0.0).won_by_opponent()
    assert joined == "past selves 12%, level1 100%, passed 0%"


def test_a_window_in_which_nothing_finished_and_nothing_was_learned():
    nothing = results([[0, 0, 0]] * 3, [0.0] * 3, [0.0, 2.0], [0.0, 0.0])
    window = unpack(pack(nothing, torch.zeros(0), torch.zeros(5)), ("level0",), (), LOSSES, world=1)
    assert window.matches == {}
    assert window.won_by_opponent() == window.won("level0") == "-"
    values = window.metrics(env_steps=0)
    assert values["match/opponent_deaths"] == 2 * 200
    assert not {"match/length", "match/opponent_length"} & values.keys()
    assert {values[name] for name in (*LOSSES, "reward/total", "match/deaths")} == {0.0}


def test_counts_stay_whole_in_long_windows():
    """Sums of many ranks are beyond what single precision can count one by one."""
    many = results([[2**24, 1, 0]] * 2, [0.0] * 3, [0.0, 0.0], [0.0, 0.0])
    sums = pack(many, torch.zeros(0), torch.zeros(5)) * 3
    assert unpack(sums, ("level0",), (), LOSSES, world=3).matches == {"level0": (3 * 2**24, 3, 0)}
