"""train --league: members, their opponents and results; a league that is killed again and again; mistakes."""

import hashlib
import json
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from helpers.command import assert_one_line
from helpers.training import SMOKE, assert_goes_on, files_of, here

from marl.commands.train_league import ROLES, League
from marl.commands.train_league_record import LeagueRecord, read_record
from marl.metrics.run_metrics import read_lines
from marl.storage import snapshot
from marl.storage.run_names import find_named
from marl.storage.saved_player import load_policy
from marl.training.trainer import Trainer
from opponents import match
from opponents.prioritised import prioritised_shares
from opponents.results import Results

SEED, MATCHES, EPISODES = 5, 2, 16
WORDS = [
    "train", "--config", SMOKE, "--algo", "ppo", "--device", "cpu", "--threads", "1", "--no-onednn",
    "--seed", str(SEED),
    "--matches", "16", "--body", "8,8", "--update_interval", "320", "--batch_size", "480", "--epochs", "1",
    "--max_episodes", str(EPISODES), "--log_interval", "4", "--save_interval", "2",
    "--eval_opponents", "level0", "--eval_matches", str(MATCHES), "--run_name", "team",
]  # fmt: skip
MEMBERS = [f"{role}_{number}" for number in (1, 2) for role in ROLES]


class Killed(BaseException):
    """Stands for kill -9."""


@pytest.fixture(scope="module", autouse=True)
def quick_matches():
    """Matches among members take most of the time of a tiny league: the first pair plays, weights decide the others."""
    play = match.play

    def decide(home, away, matches: int, device: str, seed: int) -> Results | SimpleNamespace:
        if home.name == MEMBERS[1]:
            return play(home, away, matches, device, seed)
        weights = [each.numpy().tobytes() for team in (home, away) for each in team.actor.state_dict().values()]
        wins = hashlib.sha256(b"".join(weights)).digest()[0] % (matches + 1)
        return SimpleNamespace(wins=wins, draws=0, losses=matches - wins)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(match, "play", decide)
        yield


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> Path:
    """The run of a main team of two rounds; as it was after the first one: `halfway`, in the folder of all runs."""
    print(f"seed {SEED}")
    runs = tmp_path_factory.mktemp("undisturbed")
    end_round = League.end_round

    def end_and_copy(league: League, number: int) -> None:
        end_round(league, number)
        if number == 1:
            owner = shutil.ignore_patterns("owner.*.json")
            shutil.copytree(runs / "snakes_3v3", runs / "halfway/snakes_3v3", ignore=owner)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(League, "end_round", end_and_copy)
        done = here(*WORDS, "--runs_dir", runs, "--league", "2")
    assert done.returncode == 0, done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines() if " joins: " in line] == MEMBERS
    assert "player  rating  95 %" in done.stdout
    (go_on,) = (line for line in done.stdout.splitlines() if line.startswith("go on"))
    assert go_on.endswith("--max-episodes 32 --league 4")
    assert go_on.count("max") == 1, "the flags of the first command are replaced"
    return runs / "snakes_3v3" / "team"


def record_of(main: Path) -> LeagueRecord:
    record = read_record(main / "league")
    assert record is not None
    return record


def test_members_and_their_opponents(undisturbed) -> None:
    record = record_of(undisturbed)
    assert record.members == MEMBERS
    met = {step.name: step.opponents for step in record.steps}
    assert met["main_1"] == {}
    assert met["league_exploiter_1"] == {"main_1": 0.5, "main_exploiter_1": 0.5}
    for number in (1, 2):
        assert met[f"main_exploiter_{number}"] == {f"main_{number}": 1}
    record.steps = record.steps[:3]  # as the second round found it
    expected = prioritised_shares(record.hardness_for("main_1"), 2, 0.7 * 0.7, 6, 3 / 16)
    assert met["main_2"] == expected
    assert expected
    schedule = yaml.safe_load((undisturbed / "config.yaml").read_text())["schedule"]
    assert schedule["self_play"] == 0.3
    assert schedule["opponents"] == [
        f"{undisturbed}/league/members/{name}.safetensors:{share:g}" for name, share in expected.items()
    ]


def test_every_member_has_met_every_other_one(undisturbed) -> None:
    document = json.loads((undisturbed / "league/league.json").read_text())
    pairs = {frozenset((pair["home"], pair["away"])) for pair in document["pairs"]}
    assert len(pairs) == len(document["pairs"]) == 15
    for pair in document["pairs"]:
        assert pair["wins"] + pair["draws"] + pair["losses"] == MATCHES
        assert 0 <= pair["points_low"] <= pair["points"] <= pair["points_high"] <= 1
    ratings = {each["name"]: each["rating"] for each in document["ratings"]}
    assert list(ratings) == MEMBERS
    assert sum(ratings.values()) == pytest.approx(6 * 1500)
    lines = read_lines(undisturbed / "league")
    assert [line["step"] for line in lines] == [8, 16]
    assert lines[-1]["league/rating_main"] == pytest.approx(ratings["main_2"])
    assert lines[-1]["league_low/main"] < ratings["main_2"] < lines[-1]["league_high/main"]
    record = record_of(undisturbed)
    others = [record.points("main_2", name) / MATCHES for name in MEMBERS if name != "main_2"]
    assert lines[-1]["league/main_vs_worst"] == min(others)
    assert list((undisturbed / "league").glob("events.out.tfevents.*"))


def test_the_main_team_is_one_run_and_a_player(undisturbed) -> None:
    assert_goes_on(undisturbed, EPISODES)
    assert find_named("last", undisturbed.parents[1]) == undisturbed
    last, frozen = load_policy(f"{undisturbed}/checkpoints/last"), snapshot.read(member(undisturbed, "main_2"))
    for name, weights in frozen.actor.state_dict().items():
        assert weights.equal(last.actor.state_dict()[name])
    assert member(undisturbed, "main_1").read_bytes() != member(undisturbed, "main_2").read_bytes()
    exploiters = undisturbed / "league/snakes_3v3"
    assert sorted(path.name for path in exploiters.iterdir()) == [
        "league_exploiter", "main_exploiter_1", "main_exploiter_2",
    ]  # fmt: skip
    config = yaml.safe_load((exploiters / "main_exploiter_2/config.yaml").read_text())
    assert config["init_from"] == str(member(undisturbed, "main_2"))
    assert (config["ppo"]["lr"], config["schedule"]["self_play"], config["seed"]) == (5e-4, 0, SEED + 1002)


def test_a_finished_league_stays_as_it_is(undisturbed) -> None:
    league = undisturbed / "league"
    before = files_of(league / "members") | {"json": (league / "league.json").read_bytes()}
    done = here(*WORDS, "--runs_dir", undisturbed.parents[1], "--league", "2")
    assert done.returncode == 0, done.stderr
    assert "trains against" not in done.stdout
    assert files_of(league / "members") | {"json": (league / "league.json").read_bytes()} == before
    assert [line["step"] for line in read_lines(league)] == [8, 16]


def test_a_killed_league_goes_on_to_the_same_end(undisturbed, monkeypatch) -> None:
    runs, left = undisturbed.parents[1] / "halfway", 0

    def fatal(function: Callable) -> Callable:
        """The function, in a process that may be killed before or after it."""

        def call(*args, **options):
            nonlocal left
            for work in (lambda: None, lambda: function(*args, **options)):
                result = work()
                left -= 1
                if left == 0:
                    raise Killed
            return result

        return call

    for owner, name in ((LeagueRecord, "write"), (snapshot, "write"), (Trainer, "cycle")):
        monkeypatch.setattr(owner, name, fatal(getattr(owner, name)))
    starts, done = 0, None
    while done is None:
        starts += 1
        left = 5 * starts
        with suppress(Killed):
            done = here(*WORDS, "--runs_dir", runs, "--league", "2")
    assert done.returncode == 0, done.stderr
    assert starts > 3
    main = runs / "snakes_3v3" / "team"
    for name in MEMBERS:
        assert member(main, name).read_bytes() == member(undisturbed, name).read_bytes(), name
    assert (main / "league/league.json").read_bytes() == (undisturbed / "league/league.json").read_bytes()
    assert [line["step"] for line in read_lines(main / "league")] == [8, 16]


def member(main: Path, name: str) -> Path:
    return main / "league/members" / f"{name}.safetensors"


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["--league", "x"], ["--league x", "whole number of rounds"]),
        (["--league=0"], ["--league 0", "from 1"]),
        (["--league", "--seeds", "1-2"], ["does not go with --seeds", "each --seed"]),
        (["--league", "--distributed"], ["in one process", "--distributed --opponent_difficulty_strategy league"]),
        (["--league", "--resume", "last"], ["--resume does not go with --league", "--run_name"]),
        (["--league", "4", "--max_episodes", "15"], ["15 episodes are too few", "--max_episodes from 16"]),
        (["--league", "--self_play", "1"], ["too few matches for the league"]),
        (["--league", "--opponents", "level1:1"], ["too few matches for the league"]),
        (["--league", "--runs_dir", "/dev/null"], ["cannot make /dev/null/snakes_3v3/league_", "--runs_dir"]),
        (["--league", "--matches", "2"], ["too few matches for the league", "--matches"]),
    ],
)
def test_mistakes_are_told_in_one_line(words, parts) -> None:
    assert_one_line(here("train", "--device", "cpu", *words), *parts)


def test_a_run_without_a_league_is_left_alone(tmp_path) -> None:
    (tmp_path / "snakes_3v3/team").mkdir(parents=True)
    assert_one_line(here(*WORDS, "--runs_dir", tmp_path, "--league"), "is a run without a league", "--init_from")
    (tmp_path / "snakes_3v3/team/league").mkdir()
    (tmp_path / "snakes_3v3/team/league/league.json").write_text('{"version": 7}')
    assert_one_line(here(*WORDS, "--runs_dir", tmp_path, "--league"), "league.json is no record", "version 7, not 1")
    assert (tmp_path / "snakes_3v3/team/league/league.json").exists()


def test_a_budget_that_is_used_up_is_told(undisturbed, tmp_path) -> None:
    shutil.copytree(undisturbed, tmp_path / "snakes_3v3/team")
    done = here(*WORDS, "--runs_dir", tmp_path, "--league", "3")
    assert done.returncode == 2
    told = "main_3: an update plays more episodes than its budget in a round; raise --max_episodes"
    assert told in done.stderr.splitlines()[-1]


def test_a_mistake_leaves_nothing_behind(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    call = (*WORDS, "--league", "2")
    done = here(*call, "--init_from", "champion")
    assert done.returncode == 2
    assert "another network" in done.stderr
    assert not list(Path("runs/snakes_3v3").iterdir())
    Path("runs/snakes_3v3/before").mkdir()
    for words in (["--opponents", "last:0.1"], ["--init_from", "runs/last"]):
        assert_one_line(here(*call, *words), "would soon be the league's own run", "runs/snakes_3v3/before")


def test_a_dry_run_is_that_of_the_main_team(tmp_path) -> None:
    done = here(*WORDS, "--runs_dir", tmp_path, "--league", "3", "--dry_run")
    assert done.returncode == 0, done.stderr
    assert done.stdout.rstrip().endswith("--league 3")
    assert not list(tmp_path.iterdir())
