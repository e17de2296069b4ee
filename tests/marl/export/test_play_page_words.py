"""What the play page tells and saves: the result from the human's side, a replay file, Chinese and English."""

import json
import re
from pathlib import Path

import pytest
from helpers import browser
from helpers.exporting import saved_run
from helpers.pages import opened, opened_again, text
from helpers.training import here

from arena import replay
from marl.export.play_page import FOLDER

pytestmark = pytest.mark.skipif(bool(browser.missing()), reason=browser.missing() or "there is a browser")

CHINESE = json.loads((FOLDER / "play_page_chinese.json").read_text("utf-8"))
SCRIPTS = ("levels.js", "planner_worker.js", "play_page.js")
TO_THE_END = "(() => { while (!snakes.shown().over) snakes.advance(); })()"
# The page shows each turn in a frame of its own; ten turns a frame are enough here.
FAST = "(now => { requestAnimationFrame = f => setTimeout(() => f(now += 100)); })(0)"

SEEN = """(() => {
  const found = [], texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) if (texts.currentNode.parentElement.tagName !== "SCRIPT") found.push(texts.currentNode.data);
  for (const name of ["title", "aria-label"])
    document.querySelectorAll(`[${name}]`).forEach((element) => found.push(element.getAttribute(name)));
  return found;
})()"""
SAME = re.compile(r"English|Snakes 3v3|python -m marl replay|esc|\d ms")  # in both languages


@pytest.fixture(scope="module")
def file(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    result = here("export", saved_run(folder, "features"), "--html", folder / "page.html")
    assert result.returncode == 0, result.stderr
    return folder / "page.html"


@pytest.fixture(scope="module")
def tab(file):
    with browser.chromium() as chrome:
        yield opened(chrome, file)


@pytest.fixture
def page(tab, file):
    """The page for a user of an English browser who has chosen no language; every error of the page fails the test."""
    tab.value("localStorage.clear()")
    tab.speak("en-US,en")
    yield opened_again(tab, file)
    assert tab.errors == []


def play_to_the_end(page: browser.Page) -> tuple[int, int]:
    """Play the match, and show its end; the scores of red and blue."""
    page.value(FAST)
    page.value(TO_THE_END)
    page.value("snakes.play(true)")
    for _ in range(9):
        page.press("+")
    page.wait("snakes.shown().time === snakes.shown().last && !snakes.shown().playing")
    lengths = [len(body) for body in page.value("snakes.state(200)")["snakes"]]
    return sum(lengths[:3]) - 9, sum(lengths[3:]) - 9


@pytest.mark.parametrize("seat", [0, 5])
def test_the_own_score_comes_first(page, seat) -> None:
    page.value(f"snakes.takeSeat({seat})")
    red, blue = play_to_the_end(page)
    assert red != blue, "match 0 of seed 0 would tell nothing"
    own, other = (red, blue) if seat == 0 else (blue, red)
    result = f"You {'win' if own > other else 'lose'} {own} : {other}"
    page.wait(f"document.querySelector('#banner').textContent.startsWith('{result}')")


@pytest.mark.parametrize(("seed", "turns"), [("0", 200), ("9223372036854775807", 37)])
def test_a_match_is_saved_as_a_replay_file(page, tmp_path, seed, turns) -> None:
    page.send("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    page.value(f"snakes.begin('3', '{seed}'), snakes.takeSeat(4)")
    turn = "(_, turn) => { snakes.steer(turn % 4), snakes.play(false), snakes.advance(); }"
    page.value(f"Array.from({{ length: {turns} }}, {turn}).length")
    page.press("f")
    name = page.value("document.title").removesuffix(" · Snakes 3v3")
    saved = tmp_path / f"{name}-seed{seed}-match3.jsonl"
    for _ in range(2000):
        if saved.exists() and saved.stat().st_size:
            break
        page.value("new Promise(done => setTimeout(done, 10))")
    found = replay.read(saved)  # plays it again, and compares every line
    assert (found.seed, found.match, len(found.turns)) == (int(seed), 3, turns)
    assert (found.red, found.blue) == (f"{name} (easy)", f"human and {name}")
    assert found.states()[-1] == page.value(f"snakes.state({turns})")
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", found.date)


def test_the_page_speaks_the_language_of_the_browser_and_switches(page, file) -> None:
    assert (text(page, "#language"), page.value("document.documentElement.lang")) == ("中文", "en")
    page.speak("fr-FR,zh-CN,en")
    opened_again(page, file)
    assert page.value("document.documentElement.lang") == "zh-CN"
    assert text(page, "#banner").startswith("你是 0 号蛇")
    assert text(page, "#watch") == "观战"
    assert page.value("document.querySelector('#next').title") == "下一局（N）"
    assert page.value("document.querySelector('#level').selectedOptions[0].text") == "简单"
    page.click("#language")
    page.wait("document.querySelector('#banner').textContent.startsWith('You are snake 0')")
    assert (text(page, "#watch"), text(page, "#language")) == ("watch", "中文")
    opened_again(page, file)
    assert text(page, "#watch") == "watch", "the choice is remembered"


def test_no_english_is_left_in_the_chinese_page(page, file) -> None:
    page.speak("zh-CN")
    opened_again(page, file)
    for seat in ("0", "null"):
        page.value(f"snakes.takeSeat({seat})")
        page.value("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        name = page.value("document.title").removesuffix(" · Snakes 3v3")
        seen = [each.replace(name, "") for each in page.value(SEEN)]
        english = [each for each in seen if re.search(r"[a-z]{2}", SAME.sub("", each))]
        assert english == []
        assert len(seen) > 60


def test_everything_that_scripts_say_has_a_chinese_text() -> None:
    scripts = " ".join((FOLDER / name).read_text("utf-8") for name in SCRIPTS)
    said = {*re.findall(r'say\("([^"]+)"', scripts), *re.findall(r'name: "([^"]+)"', scripts)}
    assert len(said) > 15
    assert said - CHINESE.keys() == set()
    for english, chinese in CHINESE.items():
        assert sorted(re.findall(r"\{\w+\}", english)) == sorted(re.findall(r"\{\w+\}", chinese)), english
