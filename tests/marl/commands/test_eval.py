"""The command `eval`, called like a user calls it."""

import json
import os
import re

import pytest
from helpers.command import assert_one_line
from helpers.short_matches import SHORT
from helpers.submissions import UNCAGED_FLAG, controller, written
from helpers.training import alone, here

from arena.errors import ArenaError
from arena.replay import read
from opponents.intervals import wilson
from opponents.league_estimate import is_slow
from opponents.sandbox.process import why_not_sandboxed

KEYS = {
    "home", "away", "matches", "wins", "draws", "losses", "home_score", "away_score", "win_rate", "win_rate_low",
    "win_rate_high", "turns_per_second",
}  # fmt: skip
EXTRA_KEYS = {
    "points", "home_deaths", "away_deaths", "home_length", "away_length", "home_forfeits", "away_forfeits", "problems",
    "turns", "by_colour", "seed",
}  # fmt: skip
PAIR = ("eval", "--home", "level2", "--away", "level1:0.1", "--matches", "40", "--seed", "3")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """The JSON document of a run that recorded, and the folder it recorded to."""
    folder = tmp_path_factory.mktemp("replays")
    result = alone(*PAIR, "--json", "--record", folder / "match.jsonl")
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout), folder


def test_json_has_the_promised_keys(recorded):
    report, _ = recorded
    assert set(report) == KEYS | EXTRA_KEYS | {"replays"}
    assert (report["home"], report["away"], report["matches"]) == ("level2", "level1:0.1", 40)
    assert report["wins"] + report["draws"] + report["losses"] == 40
    assert report["win_rate"] == report["wins"] / 40
    assert report["win_rate_low"] < report["win_rate"] < report["win_rate_high"]
    colours = report["by_colour"]
    assert [*colours] == ["red", "blue"]
    for count in ("wins", "draws", "losses"):
        assert sum(of[count] for of in colours.values()) == report[count]
    for of in colours.values():
        assert of["matches"] == 20
        assert (of["win_rate_low"], of["win_rate_high"]) == wilson(of["wins"], 20)


def test_the_same_seed_gives_the_same_results(recorded):
    result = here(*PAIR, "--json")
    again, first = json.loads(result.stdout), dict(recorded[0])
    assert set(again) == KEYS | EXTRA_KEYS
    del again["turns_per_second"], first["turns_per_second"], first["replays"]
    assert again == first


def test_record_writes_replays_that_verify(recorded):
    report, folder = recorded
    files = {
        "first": "match.jsonl",
        "closest": "match.closest.jsonl",
        "worst": "match.worst.jsonl",
        "best": "match.best.jsonl",
    }
    assert report["replays"] == {which: str(folder / name) for which, name in files.items()}
    for name in files.values():
        replay = read(folder / name)
        assert replay.seed == 3
        assert {replay.red, replay.blue} == {"level2", "level1:0.1"}
    assert read(folder / "match.jsonl").match == 0


def test_text_tells_the_result_and_the_files(tmp_path):
    result = here(*PAIR, "--record", tmp_path / "match")
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("level2 - level1:0.1: 40 matches, seed 3\n")
    assert "95 %" in result.stdout
    percent = r"\d+\.\d%"
    colours = ", ".join(f"{percent} \\({percent} to {percent}\\) as {colour}" for colour in ("red", "blue"))
    assert re.search(f"^won by colour  {colours}$", result.stdout, re.MULTILINE)
    said = [line.partition(" match ")[2].strip() for line in result.stdout.splitlines()[-4:]]
    assert said == [str(tmp_path / name) for name in ("match", "match.closest", "match.worst", "match.best")]
    assert all(os.path.isfile(path) for path in said)


def test_list_names_the_players():
    result = here("eval", "--list")
    assert result.returncode == 0, result.stderr
    assert [line.split()[0] for line in result.stdout.splitlines()][:6] == [
        "level0", "level1", "level2", "level3", "level4", "evasive",
    ]  # fmt: skip
    assert "\nqmix_tactical       Of held_out: train --algo qmix " in result.stdout
    assert "\ndevelopment         A half of the field, abstainer, " in result.stdout
    assert "did you mean qmix_tactical?" in here("eval", "--home", "qmix_tactic", "--away", "level0").stderr


def test_without_a_policy_the_match_is_recorded_without(tmp_path):
    result = here(*PAIR, "--record", tmp_path / "match", "--record_policy")
    assert result.returncode == 0
    note = "--record_policy: neither level2 nor level1:0.1 is a policy with probabilities; recorded without"
    assert result.stderr == f"snakes: {note}\n"
    found = read(tmp_path / "match")
    assert not any("probs" in turn for turn in found.turns)


@pytest.fixture
def short(monkeypatch):
    monkeypatch.setattr("opponents.match.TURNS", SHORT)


@pytest.mark.usefixtures("short")
def test_the_time_of_slow_players_is_estimated(monkeypatch):
    monkeypatch.setattr("marl.commands.league_plan.seconds_per_match", lambda player, device: 3.0 * is_slow(player))
    words = ("eval", "--home", "plan=1x1:champion_small", "--away", "level0,level1", "--device", "cpu")
    result = here(*words, "--matches", "20")
    assert result.returncode == 0, result.stderr
    assert result.stderr == "estimate: 40 matches, about 2 min 0 s\n"
    assert "estimate" not in here(*words, "--matches", "4").stderr, "measuring would take as long"
    assert "estimate" not in here(*PAIR).stderr, "no player is slow"


def test_an_unknown_player():
    assert_one_line(here("eval", "--home", "levle3", "--away", "level1"), "'levle3'", "level3", "evasive")


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["--home", "level1"], ["--away"]),
        (["--home", "level1", "--away", "level2", "--record_policy"], ["--record_policy goes with --record FILE"]),
        (["--home", "level1", "--away", "level2", "--matches", "many"], ["--matches", "many"]),
        (["--home", "level1", "--away", "level2", "--record", "no/such/folder/x"], ["--record", "no/such/folder"]),
    ],
)
def test_mistakes_are_one_line(words, parts):
    assert_one_line(here("eval", *words), *parts)


RIVAL = """
import os, random, signal
def my_controller(observation, action_space, is_act_continuous):
    try:
        os.kill(os.getppid(), signal.SIGKILL)
    except PermissionError:
        pass
    move = random.randrange(4)
    return [[int(i == move) for i in range(4)]]
"""
AGAINST_RIVAL = ("eval", "--home", "level2", "--matches", "4", "--seed", "0", "--json", "--away")


@pytest.fixture
def rival(tmp_path):
    path = tmp_path / "submission.py"
    path.write_text(RIVAL)
    return path


@pytest.mark.usefixtures("short")
def test_a_rival_that_kills_its_parent_plays_on_in_its_sandbox_and_workers_change_nothing(rival):
    if reason := why_not_sandboxed():
        pytest.skip(f"this system cannot sandbox: {reason}")
    reports = []
    for words in (("--workers", "1"), ("--workers", "4"), ("--uncaged",)):  # uncaged, the filter refuses it, too
        result = here(*AGAINST_RIVAL, rival, *words)
        assert result.returncode == 0, result.stderr
        reports.append(json.loads(result.stdout))
        assert ("runs without a sandbox" in result.stderr) == ("--uncaged" in words)
        assert reports[-1].pop("turns_per_second") > 0
    assert reports[0] == reports[1] == reports[2]
    assert reports[0]["problems"] == []


def test_where_the_system_cannot_sandbox_one_line_says_so(rival, monkeypatch):
    monkeypatch.setattr("opponents.submission.why_not_sandboxed", lambda: "unshare: Operation not permitted")
    assert_one_line(here(*AGAINST_RIVAL, rival), "cannot sandbox", "unshare: Operation not permitted", "--uncaged")
    assert_one_line(here("league", "--players", f"level0,{rival}"), "cannot sandbox", "--uncaged")
    words = ("train", "--config", "smoke", "--eval_opponents", f"level0,{rival}", "--runs_dir", rival.parent / "runs")
    assert_one_line(here(*words), "cannot sandbox", "--uncaged")


@pytest.mark.parametrize("value", ["0", "x"])
def test_workers_that_are_none_are_one_line(value):
    assert_one_line(here("eval", "--home", "level0", "--away", "level1", "--workers", value), "--workers", value)


@pytest.mark.parametrize(
    ("gpus", "words", "expected"),
    [
        (1, ["level0", "level1"], "cuda"),
        (1, ["champion", "level1"], "cuda"),
        (1, ["level0", "level1", "--device", "cpu"], "cpu"),
        (1, ["SUBMISSION", "level1", "--uncaged"], "cpu"),
        (0, ["level0", "level1"], "cpu"),
    ],
)
def test_a_gpu_plays_if_there_is_one_and_the_players_can(tmp_path, monkeypatch, gpus, words, expected):
    (tmp_path / "submission.py").write_text("def my_controller(observation, *_):\n    return [[1, 0, 0, 0]]\n")
    home, away, *flags = (str(tmp_path / "submission.py") if word == "SUBMISSION" else word for word in words)
    chosen = []

    def stop(home, away, matches, numbers, device, *rest, **options):
        chosen.append(device)
        raise ArenaError("stopped by the test")

    monkeypatch.setattr("torch.cuda.device_count", lambda: gpus)
    for module in ("opponents.round_robin", "opponents.match"):  # the first imports it from the second
        monkeypatch.setattr(f"{module}.play_some", stop)
    for command in (["eval", "--home", home, "--away", away], ["league", "--players", f"{home},{away}"]):
        assert "stopped by the test" in here(*command, *flags).stderr
    assert chosen == [expected, expected]


@pytest.mark.usefixtures("short")
def test_with_a_submission_the_default_seed_cannot_be_known_and_is_told(tmp_path):
    """Beans follow from the seed: whoever knows it has computed them all."""
    path = written(tmp_path, controller("return [[0, 0, 0, 1]]"))
    words = ("eval", "--home", str(path), "--away", "level2", "--matches", "2", *UNCAGED_FLAG)
    first, second = (json.loads(here(*words, "--json").stdout) for _ in range(2))
    assert first["seed"] != second["seed"]
    assert min(first["seed"], second["seed"]) > 2**32  # one in a million may be less
    again = json.loads(here(*words, "--json", "--seed", str(first["seed"])).stdout)
    assert {**again, "turns_per_second": 0} == {**first, "turns_per_second": 0}
    told = re.search(r"2 matches, seed (\d+)\n", here(*words).stdout)
    assert int(told[1]) not in (0, first["seed"], second["seed"])
    assert (
        json.loads(here("eval", "--home", "level0", "--away", "level0", "--matches", "1", "--json").stdout)["seed"] == 0
    )


@pytest.mark.usefixtures("short")
def test_a_league_with_a_submission_tells_a_random_seed(tmp_path):
    path = written(tmp_path, controller("return [[0, 0, 0, 1]]"))
    seeds = []
    for words in ([], [], ["--seed", "5"]):
        done = here("league", "--players", f"{path},level0", "--matches", "1", "--json", *UNCAGED_FLAG, *words)
        assert (done.returncode, done.stderr) == (0, "")
        seeds.append(json.loads(done.stdout)["seed"])
    assert len({*seeds}) == 3
    assert seeds[2] == 5


def test_several_opponents_make_one_table_and_the_same_results_as_alone():
    words = ("eval", "--home", "level2", "--matches", "20", "--seed", "3", "--away")
    report = json.loads(here(*words, "level0,level1:0.1", "--json").stdout)
    assert report["seed"] == 3
    each = [json.loads(here(*words, away, "--json").stdout) for away in ("level0", "level1:0.1")]
    for pair, other in zip(report["pairs"], each, strict=True):
        assert {**pair, "turns_per_second": 0, "seed": 3} == {**other, "turns_per_second": 0}
    table = here(*words, "level0,level1:0.1").stdout.splitlines()
    assert table[0] == "level2: 20 matches against each, seed 3"
    assert [line.split()[0] for line in table[2:]] == ["against", "level1:0.1", "level0"]
    assert f"{each[1]['win_rate']:.1%}" in table[3]


def test_mistakes_with_several_opponents(tmp_path):
    words = ("eval", "--home", "level2", "--away")
    assert_one_line(here(*words, "level0,levle1"), "'levle1'", "did you mean level1?")
    assert_one_line(here(*words, "level0,"), "--away", "'level0,' is no list of players")
    assert_one_line(here(*words, "level0,level1", "--record", tmp_path / "x"), "--record", "--away names 2")


def test_a_pair_stops_when_it_is_decided(tmp_path):
    words = ("eval", "--home", "level3", "--matches", "60", "--stop_when_decided", "--away")
    report = json.loads(here(*words, "level0", "--json", "--record", tmp_path / "x").stdout)
    assert (report["decided"], report["matches"]) == ("home", 16)
    assert report["error_rates"] == {"home_is_better": 0.025, "away_is_better": 0.025}
    assert {*read(tmp_path / "x").result}  # it verifies
    text = here(*words, "level0,level3:0.001").stdout
    assert text.startswith("level3: 16 to 60 matches against each")
    assert "level0: level3 is better; level3:0.001: not decided" in text
    assert "at most 2.5% of the cases" in text
