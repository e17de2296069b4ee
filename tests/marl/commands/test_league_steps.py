"""The steps of a league: budgets, starting weights and opponents, from the command line and the results alone."""

from pathlib import Path

import pytest

from marl.commands.train_argv import parse_train
from marl.commands.train_league import LEAGUE_EXPLOITER, MAIN, MAIN_EXPLOITER, League, check_league
from marl.commands.train_league_record import LeagueRecord, Pair, Step
from marl.config.train_config import TrainConfig, read_config

MAIN_RUN = Path("runs/snakes_3v3/team")
WORDS = ("--max-episodes", "8000", "--max-minutes", "4", "--seed", "3")


def steps_of(*words: str, rounds: int = 2) -> League:
    argv = parse_train([*WORDS, *words, "--league", str(rounds)])
    return League(MAIN_RUN, check_league(argv), argv.training, argv.rounds)


def config_of(steps: League, role: str, number: int, **opponents: float) -> TrainConfig:
    return read_config(steps.job(role, number, opponents).argv)


@pytest.mark.parametrize(
    ("algo", "role", "number", "episodes", "minutes", "seed", "start"),
    [
        ("ppo", MAIN, 2, 8000, 4.0, 3, None),
        ("ppo", MAIN_EXPLOITER, 2, 1000, 0.5, 1005, "main_2"),
        ("ppo_lstm", LEAGUE_EXPLOITER, 2, 2000, 1.0, 1003, "main_1"),
        ("ddpg", MAIN_EXPLOITER, 1, 1000, 0.5, 1004, None),
        ("qmix", LEAGUE_EXPLOITER, 1, 2000, 1.0, 1003, None),
    ],
)
def test_budget_and_start(algo, role, number, episodes, minutes, seed, start) -> None:
    steps = steps_of("--algo", algo)
    config = config_of(steps, role, number, main_1=0.25)
    assert (config.schedule.max_episodes, config.max_minutes, config.seed) == (episodes, minutes, seed)
    assert config.init_from == (start and str(steps.member(start)))
    assert config.schedule.shares == {str(steps.member("main_1")): 0.25}
    assert config.schedule.self_play == (0.3 if role == MAIN else 0)
    assert steps.until(role, number) == (1.0 if role == MAIN_EXPLOITER else number / 2)


def test_named_opponents_stay_beside_the_members() -> None:
    config = config_of(steps_of("--algo", "ppo", "--opponents", "level3:0.2:0.1", "--lr", "1e-4"), MAIN, 2, main_1=0.2)
    assert list(config.schedule.shares.values()) == [0.1, 0.2]
    assert config.ppo.lr == 1e-4
    exploiter = config_of(steps_of("--algo", "ppo", "--opponents", "level3:0.2:0.1", "--lr", "1e-4"), MAIN_EXPLOITER, 2)
    assert (exploiter.schedule.opponents, exploiter.ppo.lr) == ((), 1e-4)
    assert steps_of("--opponents", "level3:0.8").config.schedule.self_play == pytest.approx(0.1), "room for the league"
    assert steps_of("--self-play", "0").config.schedule.self_play == 0


@pytest.mark.parametrize(
    ("optimizer", "asked", "lr"),
    [("adam", "1e-2", 5e-4), ("adam", "1e-4", 1e-4), ("muon", "1e-2", 4e-3), ("muon", "1e-3", 1e-3)],
)
def test_an_exploiter_from_trained_weights_learns_slowly(optimizer, asked, lr) -> None:
    steps = steps_of("--algo", "ppo", "--optimizer", optimizer, "--lr", asked)
    assert config_of(steps, MAIN, 1).ppo.lr == float(asked)
    assert config_of(steps, MAIN_EXPLOITER, 1).ppo.lr == lr


def test_a_team_meets_those_that_it_loses_to() -> None:
    members = [Step(name, {}, 0, True) for name in ("main_1", "main_exploiter_1", "league_exploiter_1")]
    pairs = [
        Pair("main_exploiter_1", "main_1", 90, 0, 10),
        Pair("league_exploiter_1", "main_1", 0, 20, 80),
        Pair("league_exploiter_1", "main_exploiter_1", 50, 0, 50),
    ]
    record = LeagueRecord(1, 100, members, pairs)
    assert record.points("main_1", "league_exploiter_1") == 90
    assert record.hardness_for("main_1") == pytest.approx(
        {"main_1": 1 - 50 / 110, "main_exploiter_1": 1 - 10 / 110, "league_exploiter_1": 1 - 90 / 110}
    )
    for algo, total in (("ppo", 1.0), ("ddpg", 0.7)):
        steps = steps_of("--algo", algo, "--league-power", "1")
        steps.record = record
        shares = steps.choose_opponents(MAIN, 2)
        assert sum(shares.values()) == pytest.approx(0.49, abs=3e-4)
        assert shares["main_exploiter_1"] == pytest.approx(5 * shares["league_exploiter_1"], rel=0.01)
        assert sum(steps.choose_opponents(LEAGUE_EXPLOITER, 2).values()) == pytest.approx(total, abs=3e-4)
        assert steps.choose_opponents(MAIN_EXPLOITER, 2) == {"main_2": 1.0}
    assert steps.describe(MAIN, {"main_1": 0.5}) == "itself 30%, main_1 50%, the schedule"
    assert steps_of("--algo", "ppo").describe(LEAGUE_EXPLOITER, {"main_1": 1.0}) == "main_1 100%"
