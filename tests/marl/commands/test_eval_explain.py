"""`eval --explain`: text, tables and files."""

import json
import re

import pytest
from helpers.command import assert_one_line
from helpers.submissions import UNCAGED_FLAG, controller, written
from helpers.training import here
from PIL import Image

from arena.replay import read
from marl.commands.eval_explain import PAGE, PICTURE, TEXT

PAIR = ("eval", "--home", "level2", "--away", "level3", "--matches", "40", "--seed", "3")


@pytest.fixture(scope="module")
def explained(tmp_path_factory):
    """The JSON document of a run that explained, and the folder of its files."""
    folder = tmp_path_factory.mktemp("explained") / "why lost"
    result = here(*PAIR, "--json", "--explain", folder)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout), folder


def test_the_tables_are_in_the_document_and_the_rest_stays_as_it_was(explained):
    report = dict(explained[0])
    tables = report.pop("explanation")
    plain = json.loads(here(*PAIR, "--json").stdout)
    assert {**report, "turns_per_second": 0} == {**plain, "turns_per_second": 0}
    assert tables["lost"] == report["losses"] > 3
    assert sum(of["lost"] for of in tables["by_colour"].values()) == tables["lost"]
    deaths = sum(of["deaths"] for of in tables["causes"].values())
    assert deaths == round(tables["per_match"]["home"]["deaths"] * tables["lost"])
    for name in ("by_turn", "by_length", "by_colour"):
        assert sum(of["deaths"] for of in tables[name].values()) == deaths


def test_the_three_most_telling_matches_are_files_and_a_page(explained):
    report, folder = explained
    tables = report["explanation"]
    names = [TEXT, PICTURE, "lost1.jsonl", "lost2.jsonl", "lost3.jsonl", PAGE]
    assert tables["files"] == [str(folder / name) for name in names]
    assert sorted(path.name for path in folder.iterdir()) == sorted(names)
    data = re.search(r'id="data">(.*?)</script>', (folder / PAGE).read_text("utf-8"))[1]
    page = json.loads(data)
    for number, told in enumerate(tables["telling"]):
        replay = read(folder / f"lost{number + 1}.jsonl")
        assert (replay.seed, replay.match) == (3, told["match"])
        assert getattr(replay, told["colour"]) == "level2"
        assert replay.result["winner"] not in (told["colour"], "draw")
        marked = [event["turn"] for event in page["matches"][number]["events"] if event["kind"] == "decisive"]
        assert marked == [told["turn"]]
    assert page["turn"] == tables["telling"][0]["turn"] - 1
    with Image.open(folder / PICTURE) as picture:
        assert picture.format == "PNG"


def test_the_text_is_printed_and_written(explained):
    _, folder = explained
    result = here(*PAIR, "--explain")
    assert result.returncode == 0, result.stderr
    title, *lines = (folder / TEXT).read_text("utf-8").splitlines()
    assert re.fullmatch(r"level2 against level3: \d+ of 40 matches, seed 3", title)
    assert 10 <= len(lines) <= 13
    assert result.stdout.endswith("\n\n" + "\n".join(lines) + "\n")


def test_a_pair_that_stops_early_is_explained(tmp_path):
    words = ("eval", "--home", "level0", "--away", "level3", "--matches", "60", "--stop_when_decided", "--json")
    report = json.loads(here(*words, "--explain").stdout)
    assert report["explanation"]["lost"] == report["losses"] == 16
    assert [of["lost"] for of in report["explanation"]["by_colour"].values()] == [8, 8]


def test_a_submission_is_explained(tmp_path):
    path = written(tmp_path, controller("return [[1, 0, 0, 0]]"))
    words = ("eval", "--home", path, "--away", "level2", "--matches", "2", "--seed", "1", "--json", *UNCAGED_FLAG)
    report = json.loads(here(*words, "--explain", tmp_path / "why").stdout)
    assert report["explanation"]["lost"] == 2
    replay = read(tmp_path / "why" / "lost1.jsonl")
    assert {replay.red, replay.blue} == {report["home"], "level2"}


def test_a_policy_is_explained():
    words = ("eval", "--home", "champion_small", "--away", "champion", "--matches", "6", "--seed", "1", "--json")
    report = json.loads(here(*words, "--explain").stdout)
    assert report["explanation"]["lost"] == report["losses"] > 0


def test_without_a_loss_there_is_nothing_to_explain(tmp_path):
    words = ("eval", "--home", "level3", "--away", "level0", "--matches", "4", "--explain", tmp_path / "why")
    result = here(*words)
    assert result.stdout.splitlines()[-2:] == [
        "lost           none of 4 matches",
        f"files          {tmp_path / 'why' / TEXT}",
    ]


def test_mistakes(tmp_path):
    words = ("eval", "--home", "level0", "--away", "level1", "--explain")
    (tmp_path / "file").touch()
    assert_one_line(here(*words, tmp_path / "file"), "--explain", "is a file; need a folder")
    assert_one_line(here(*words, tmp_path / "no" / "folder"), "--explain", "there is no folder")
    assert_one_line(here(*words[:4], "level1,level2", "--explain"), "--explain", "--away names 2")
