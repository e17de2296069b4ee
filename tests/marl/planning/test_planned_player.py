"""Players that plan, by name, in the commands that take players."""

import json

import pytest
from helpers.command import assert_one_line
from helpers.exporting import player, saved_run
from helpers.short_matches import SHORT
from helpers.training import here

from arena.rules import ACTIONS
from marl.errors import UserError
from marl.planning import planned_player
from marl.planning.planned_player import DEFAULT, PlannedPlayer, load_player
from marl.planning.planner import Budget, Planner
from opponents.match import play


@pytest.mark.parametrize(
    ("name", "budget"),
    [
        ("plan:champion", DEFAULT),
        ("plan=27x1:champion", Budget(27, 1)),
        ("plan=1x2:champion", Budget(1, 2)),
        ("plan=50ms:champion", Budget(milliseconds=50.0)),
    ],
)
def test_names_say_how_far_to_look(name, budget) -> None:
    found = load_player(name)
    assert isinstance(found, PlannedPlayer)
    assert (found.name, found.budget) == (name, budget)


@pytest.mark.parametrize(
    "name",
    [
        "plan:",
        "plan=8:champion",
        "plan=x:champion",
        "plan=0x4:champion",
        "plan=28x1:champion",
        "plan=4x3:champion",
        "plan=0ms:champion",
    ],
)
def test_a_name_that_says_nothing_is_refused(name) -> None:
    with pytest.raises(UserError) as error:
        load_player(name)
    assert name in str(error.value)
    assert "\n" not in str(error.value)


def test_other_names_are_policies_as_they_are() -> None:
    assert load_player("champion").name == "champion"


def test_a_team_that_plans_beats_the_same_team_that_does_not(monkeypatch) -> None:
    """Far more often than chance: a random policy that looks ahead eats what is beside it."""
    monkeypatch.setattr("opponents.match.TURNS", 3 * SHORT)
    planned = PlannedPlayer(player("canonical", value=True), Budget(2))
    result = play(planned, player("canonical", value=True), 16, seed=3)
    assert result.points > 0.7, result


@pytest.fixture
def short(monkeypatch) -> None:
    monkeypatch.setattr("opponents.match.TURNS", SHORT)


@pytest.mark.usefixtures("short")
def test_as_many_replies_as_fit_into_the_time(monkeypatch, capsys) -> None:
    """A clock that makes a decision of two matches last 3 ms for each reply, and 4 ms besides."""
    seconds = iter([0.0, 0.007 * 2, 1.0, 1.0 + 0.013 * 2])
    monkeypatch.setattr(planned_player, "_clock", lambda device: next(seconds))
    skips = []
    plan = Planner.plan
    monkeypatch.setattr(Planner, "plan", lambda planner: (skips.append(planner.judge.skips), plan(planner))[1])
    planned = PlannedPlayer(player("canonical", value=True), Budget(milliseconds=20.0), "it")
    play(planned, "level0", 2, seed=3, device="cpu")
    assert capsys.readouterr().err.startswith("it: 5 replies fit\n")
    assert skips[:5] == [False] * 4 + [True], "measured is the most that a plan can cost"


@pytest.mark.usefixtures("short")
def test_a_policy_without_a_value_head_can_be_planned_with() -> None:
    """As DDPG trains them: only the growth on the turns looked ahead counts."""
    policy = player("canonical", value=False)
    assert policy.actor.spec.outputs == ACTIONS
    assert play(PlannedPlayer(policy, Budget(1, 2)), "level0", 2, seed=3).matches == 2


@pytest.mark.usefixtures("short")
def test_eval_plays_a_planner_from_a_run(tmp_path) -> None:
    run = saved_run(tmp_path, "canonical")
    words = ("eval", "--home", f"plan=1x2:{run}", "--away", "level0", "--matches", "2", "--seed", "3", "--json")
    first, again = (json.loads(here(*words).stdout) for _ in range(2))
    assert first["home"] == f"plan=1x2:{run}"
    assert [first[key] for key in ("wins", "turns", "home_score")] == [
        again[key] for key in ("wins", "turns", "home_score")
    ]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("plan:level2", "level2 is no trained policy"),
        ("plan:champoin", "did you mean champion?"),
        ("plan=4:champion", "plan=REPLIESxTURNS:NAME"),
    ],
)
def test_mistakes_are_one_line(name, told) -> None:
    assert_one_line(here("eval", "--home", name, "--away", "level0", "--matches", "2"), told)


def test_the_clock_is_no_budget_for_training() -> None:
    words = ("train", "--opponents", "level0:0.5,plan=50ms:champion:0.5", "--dry_run")
    assert_one_line(here(*words), "plan=50ms:champion", "replies")
