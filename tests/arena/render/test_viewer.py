"""The replay page in a real browser: it shows the states that Python has, and fetches nothing."""

import base64
import io
import json
import re
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from helpers import browser
from helpers.viewed import log_of, long_match, wild_match
from PIL import Image

from arena.render import export
from arena.render.events import events
from arena.render.theme import BEAN_COLOUR, BOARD_COLOURS, SNAKE_COLOURS
from arena.render.timeline import recorded_timeline

pytestmark = pytest.mark.skipif(bool(browser.missing()), reason=browser.missing())

EVIL = "<script>window.hacked = 1</script>"
EVIL_TOO = "<img src=x onerror='window.hacked = 1'>\u202e\u2028</script>"
LONG, WILD = 0, 1  # which match of the page


@pytest.fixture(scope="module")
def matches(tmp_path_factory):
    wild = wild_match(60, red=EVIL, blue=EVIL_TOO)
    return [long_match(), wild, log_of(wild, tmp_path_factory.mktemp("log"))]


@pytest.fixture(scope="module")
def states(matches):
    return [match.states() for match in matches]


@pytest.fixture(scope="module")
def address(matches, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "page.html"
    export.html(path, matches)
    return path.as_uri()


@pytest.fixture(scope="module")
def chrome():
    with browser.chromium() as running:
        yield running


@pytest.fixture(scope="module")
def page(chrome, address):
    """A page of desktop size; every test leaves it paused. The last test checks for errors of the page in any test."""
    return chrome.open(address, width=1280, height=800)


@pytest.fixture
def shown(page):
    """The page at turn 40 of the long match, paused at normal speed."""
    page.value(f"snakes.show({LONG}, 40, false)")
    page.wait("snakes.shown().time === 40")
    return page


def turn(page) -> int:
    return page.value("snakes.shown().turn")


def drawn(page, at: float) -> np.ndarray:
    """The board [H, W, 3] at a time that may lie between two turns."""
    page.value(f"snakes.seek({at})")
    page.wait(f"snakes.shown().time === {at}")
    page.value("new Promise(requestAnimationFrame)")
    data = page.value("document.querySelector('#board').toDataURL()").partition(",")[2]
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(data))).convert("RGB"))


def pixel(board, row, column):
    cell = board.shape[1] / 20
    return board[int((row + 0.5) * cell), int((column + 0.5) * cell)].astype(int)


def near(colour, other, by=12) -> bool:
    return np.abs(colour - np.array(other)).max() <= by


def test_it_opens_plays_and_asks_for_nothing_but_itself(page, address):
    page.wait("snakes.shown().turn > 2")
    assert page.value("snakes.shown().playing")
    assert page.requests == [address]


def test_it_has_every_state_of_every_match(page, states):
    for number, of in enumerate(states):
        told = page.value(f"Array.from({{length: {len(of)}}}, (_, k) => snakes.state(k, {number}))")
        for k, (there, here) in enumerate(zip(told, of, strict=True)):
            assert there == here, f"match {number}, turn {k}"


@pytest.mark.parametrize("k", [0, 1, 57, 133, 199, 200])
def test_the_scrub_bar_goes_to_a_turn(k, shown, states):
    shown.click("#scrub", across=min(max(k / 200, 0.001), 0.999))
    assert turn(shown) == k
    assert not shown.value("snakes.shown().playing")
    state = states[LONG][k]
    lengths = [len(body) for body in state["snakes"]]
    shown.wait(f"document.querySelector('.turn b').textContent === '{k} / 200'")
    gains = [length - 3 for length in lengths]
    assert shown.value("[...document.querySelectorAll('.chip .gain')].map(e => Number(e.textContent))") == gains
    assert shown.value("document.querySelector('.result').textContent") == (
        f"{sum(lengths[:3]) - 9}:{sum(lengths[3:]) - 9}"
    )
    assert shown.value("document.querySelector('#banner').hidden") == (k < 200)


@pytest.mark.parametrize("k", [3, 90, 200])
def test_the_board_shows_the_state(k, shown, states):
    board, state = drawn(shown, k), states[LONG][k]
    taken = [place for body in state["snakes"] for place in body]
    ate = [body[0] for body in state["snakes"] if body]  # a ring may lie around a head that has just eaten
    for row in range(10):
        for column in range(20):
            colour = pixel(board, row, column)
            if [row, column] in state["beans"]:
                assert near(colour, BEAN_COLOUR), (row, column, colour)
            elif [row, column] in taken:
                assert colour.max() > 80, (row, column, colour)
            elif all(abs(row - r) + abs(column - c) > 2 for r, c in ate):
                assert near(colour, BOARD_COLOURS[(row + column) % 2]), (row, column, colour)
    for snake, body in enumerate(state["snakes"]):
        assert (np.abs(board.astype(int) - SNAKE_COLOURS[snake]).max(-1) < 6).sum() > 40, f"snake {snake}, {body}"


def test_a_snake_goes_over_the_edge_smoothly(shown, states):
    """Halfway, it is at both edges and nowhere between."""
    of = states[LONG]
    for k in range(len(of) - 1):
        for snake in range(6):
            (row, column), (to_row, to_column) = of[k]["snakes"][snake][0], of[k + 1]["snakes"][snake][0]
            if row == to_row and {column, to_column} == {0, 19}:
                board = drawn(shown, k + 0.5)
                edges = [pixel(board, row, edge) for edge in (-0.45, 19.42)]
                red = snake < 3
                assert all((edge[0] > edge[2]) == red and edge.max() > 80 for edge in edges), (k, snake, edges)
                return
    raise AssertionError("no snake went over this edge")


def test_between_turns_everything_moves_and_a_turn_looks_the_same_from_both_sides(shown):
    before, between, after = (drawn(shown, at) for at in (60, 60.5, 61))
    assert (before != between).any(-1).mean() > 0.01
    assert (between != after).any(-1).mean() > 0.01
    assert np.array_equal(drawn(shown, 60), before)


def test_play_pause_and_steps(shown):
    shown.press(" ")
    shown.wait("snakes.shown().turn > 41")
    shown.press(" ")
    now = turn(shown)
    assert not shown.value("snakes.shown().playing")
    shown.press("ArrowRight")
    assert turn(shown) == now + 1
    shown.press("ArrowLeft")
    shown.press("ArrowLeft")
    assert turn(shown) == now - 1
    shown.press("End")
    assert turn(shown) == 200
    shown.click("#play")  # at the end: starts again
    shown.wait("snakes.shown().playing && snakes.shown().turn < 100")
    shown.press("Home")
    assert (turn(shown), shown.value("snakes.shown().playing")) == (0, False)


def test_speeds(shown):
    told = []
    for key in ["+"] * 7 + ["-"] * 9:
        shown.press(key)
        told.append(shown.value("snakes.shown().speed"))
    assert told == [2, 4, 8, 16, 32, 64, 64, 32, 16, 8, 4, 2, 1, 0.5, 0.25, 0.25]
    for _ in range(8):
        shown.press("+")
    shown.press(" ")
    shown.wait("snakes.shown().turn === 200", seconds=20)  # 160 turns at 256 per second
    for _ in range(6):
        shown.press("-")
    assert shown.value("snakes.shown().speed") == 1


@pytest.mark.parametrize(("keys", "what"), [("xX", "died"), ("bB", "ate")])
def test_jumps_go_right_before_deaths_and_beans(keys, what, shown, matches):
    turns = [line["turn"] for line in matches[LONG].turns if line.get(what)]
    after = [k for k in turns if k > 41]
    for expected in after[:3]:
        shown.press(keys[0])
        assert turn(shown) == expected - 1
    shown.press(keys[1])
    assert turn(shown) == max(k for k in turns if k < after[2]) - 1


def test_snakes_of_a_team_are_told_apart_without_colour_too(shown, states):
    picture, marked = drawn(shown, 12), 0
    for snake, body in enumerate(states[LONG][12]["snakes"]):
        for (a, b), (row, column), (c, d) in zip(body, body[1:], body[2:], strict=False):
            if not (a == row == c or b == column == d) or abs(a - c) + abs(b - d) != 2:
                continue  # only where it is straight
            along = (0, 0.3) if a == row == c else (0.3, 0)
            plain = pixel(picture, row + along[0], column + along[1]).sum()
            across = [pixel(picture, row + far * along[1] / 0.3, column + far * along[0] / 0.3) for far in (0, 0.15)]
            found = tuple(colour.sum() < 0.8 * plain for colour in across)
            assert found == ((False, False), (True, False), (False, True))[snake % 3], (snake, row, column)
            marked += 1
    assert marked > 3


def test_following_keeps_a_head_in_the_middle(shown, states):
    plain = drawn(shown, 40)
    shown.press("4")
    assert shown.value("snakes.shown().follow") == 4
    shown.wait("document.querySelectorAll('.chip')[4].getAttribute('aria-pressed') === 'true'")
    for k in (40, 100):
        deadline = time.monotonic() + 20
        # The camera takes a moment to get there.
        while not near(pixel(drawn(shown, k), 4.5, 9.1), SNAKE_COLOURS[4], 40):
            assert time.monotonic() < deadline, k
    shown.press("4")
    assert shown.value("snakes.shown().follow") is None
    while not np.array_equal(drawn(shown, 40), plain):
        assert time.monotonic() < deadline
    head = states[LONG][40]["snakes"][2][0]
    shown.click("#board", (head[1] + 0.5) / 20, (head[0] + 0.5) / 10)  # a snake
    assert shown.value("snakes.shown().follow") == 2
    shown.press("Escape")
    assert shown.value("snakes.shown().follow") is None


def test_a_paused_page_draws_nothing(shown):
    asked = """(async () => {
        const real = window.requestAnimationFrame, count = {asked: 0};
        window.requestAnimationFrame = (f) => { count.asked++; return real(f); };
        for (let i = 0; i < 5; i++) await new Promise((done) => real(done));
        window.requestAnimationFrame = real;
        return count.asked;
    })()"""
    deadline = time.monotonic() + 20
    while shown.value(asked):  # the camera may still be on its way
        assert time.monotonic() < deadline
    assert shown.value(asked) == 0
    shown.press(" ")
    assert shown.value(asked) >= 4
    shown.press(" ")


def test_names_are_text_whatever_they_are(page):
    page.value(f"snakes.show({WILD}, 60, false)")
    page.wait("!document.querySelector('#banner').hidden")
    assert page.value("document.querySelector('.team.red h2').textContent") == EVIL
    assert page.value("document.querySelector('.team.blue h2').textContent") == EVIL_TOO
    assert EVIL in page.value("document.title")
    assert EVIL in page.value("document.querySelector('#list li:nth-child(2)').textContent")
    assert page.value("[window.hacked, document.scripts.length, document.images.length]") == [None, 3, 0]


def test_several_matches_are_a_list(shown):
    assert shown.value("document.querySelectorAll('#list button').length") == 3
    shown.click("#list li:nth-child(3) button")
    assert shown.value("snakes.shown().match") == 2
    shown.press("n")
    assert shown.value("snakes.shown().match") == 0
    shown.press("p")
    assert shown.value("snakes.shown().match") == 2
    assert shown.value("document.querySelectorAll('#list [aria-current=true]').length") == 1
    shown.press(" ")


@pytest.mark.parametrize("key", ["Escape", "?"])
def test_help_opens_and_closes(key, shown):
    shown.press("?")
    assert shown.value("document.querySelector('#help').open")
    before = turn(shown)
    shown.press("ArrowRight")  # other keys do nothing meanwhile
    assert shown.value("document.querySelector('#help').open")
    assert turn(shown) == before
    shown.press(key)
    shown.wait("!document.querySelector('#help').open")


def test_a_screenshot_is_a_picture_of_the_board(shown, tmp_path):
    shown.send("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    shown.press("c")
    file = tmp_path / "territory_0.001-territory-turn40.png"
    deadline = time.monotonic() + 20
    while not (file.exists() and file.stat().st_size):
        assert time.monotonic() < deadline, list(tmp_path.iterdir())
        shown.value("new Promise(done => setTimeout(done, 20))")
    picture = np.asarray(Image.open(file).convert("RGB"))
    assert picture.shape == (10 * 48 + 72, 20 * 48, 3)
    for colour in (BEAN_COLOUR, *SNAKE_COLOURS):
        assert (np.abs(picture.astype(int) - colour).max(-1) < 6).sum() > 100, colour


def test_a_phone(chrome, address):
    phone = chrome.open(address, width=390, height=844, scale=2, phone=True)
    phone.wait("snakes.shown().turn > 0")
    phone.tap("#play")
    phone.wait("!snakes.shown().playing")
    phone.tap("#forward")
    phone.swipe("#scrub", (0.25, 0.5), (0.5, 0.5))
    phone.wait("snakes.shown().turn === 100")
    assert phone.value("document.documentElement.scrollWidth") == 390  # nothing sticks out
    small = "[...document.querySelectorAll('button')].filter(e => e.offsetParent && e.offsetHeight < 34)"
    assert phone.value(f"{small}.length") == 0  # fingers are wide
    wide, high = phone.value("(b => [b.clientWidth, b.clientHeight])(document.querySelector('#board'))")
    assert phone.value("snakes.shown().turned")  # the board stands upright, and all controls are on the screen
    assert high == 2 * wide > 500
    assert phone.value("document.querySelector('#controls').getBoundingClientRect().bottom") <= 844
    head = phone.value("snakes.state(100).snakes[2][0]")
    phone.tap("#board", 1 - (head[0] + 0.5) / 10, (head[1] + 0.5) / 20)
    phone.wait("snakes.shown().follow === 2")
    phone.tap("#follow")
    for size in ((844, 390), (320, 568), (1920, 1080)):
        phone.resize(*size, scale=1, phone=size[0] < 1000)
        phone.wait(f"innerWidth === {size[0]}")
        phone.wait("document.querySelector('#board').clientWidth <= innerWidth")
        assert phone.value("document.documentElement.scrollWidth") == size[0]
        assert not phone.value("snakes.shown().turned")  # on the small phone the flat board is larger
    assert phone.value("document.querySelector('#board').clientHeight") > 800  # of 1080
    assert (phone.requests, phone.errors) == ([address], [])
    phone.close()


def test_a_page_can_open_at_a_turn(chrome, matches, states, tmp_path):
    export.html(tmp_path / "at.html", [matches[LONG]], turn=77)
    page = chrome.open((tmp_path / "at.html").as_uri())
    told = page.value("snakes.shown()")
    assert (told["turn"], told["playing"]) == (77, False)
    assert page.value("snakes.state(snakes.shown().turn)") == states[LONG][77]
    assert page.value("document.querySelector('#list').hidden")  # one match: nothing to choose
    page.close()


def test_an_address_names_a_match_and_a_turn(chrome, address):
    page = chrome.open(f"{address}#match=2&turn=23")
    told = page.value("snakes.shown()")
    assert (told["match"], told["turn"], told["playing"]) == (WILD, 23, False)
    page.press("ArrowRight")
    page.wait("location.hash === '#match=2&turn=24'")
    page.value("location.hash = '#match=1&turn=7'")
    page.wait("snakes.shown().match === 0 && snakes.shown().turn === 7")
    page.value("location.hash = '#match=9&turn=7'")  # no such match: nothing happens
    assert page.value("new Promise(d => setTimeout(() => d(snakes.shown().match), 100))") == 0
    assert page.errors == []
    page.close()


WORDS = """(() => {
    const named = (name) => [...document.querySelectorAll(`[${name}]`)].map((each) => each.getAttribute(name));
    return [document.title, document.body.textContent, ...named("title"), ...named("aria-label")];
})()"""


def test_the_page_speaks_chinese_where_the_browser_prefers_it(chrome, address, matches):
    page = chrome.open("about:blank", few_frames=True)
    page.speak("zh-CN,en")
    page.goto(f"{address}#match=1&turn=40")
    page.value("document.querySelectorAll('script, style, #list').forEach((each) => each.remove())")
    names = (matches[LONG].red, matches[LONG].blue, EVIL, EVIL_TOO, "Snakes 3v3")
    for number in (LONG, WILD):
        for turn in (0, 40, 10**6):  # at the end it says who has won
            page.value(f"snakes.show({number}, {turn}, false)")
            now = "snakes.state(snakes.shown().turn).turn"
            page.wait(f"document.querySelector('.turn b').textContent.startsWith(`${{{now}}} /`)")
            said = "\n".join(page.value(WORDS))
            for name in names:
                said = said.replace(name, "")
            assert {*re.findall(r"[A-Za-z]{2,}", said)} <= {"Home", "End", "Esc", "English"}
    english = ["snakes.events()[0].text", "document.querySelector('#play').title"]
    assert [page.value(each) for each in english][1] == "播放或暂停（空格）"
    page.click("#viewer-language")
    assert page.value(english[1]) == "Play or pause (space)"
    assert re.match(r"[a-z]+", page.value(english[0]))
    assert page.errors == []
    page.close()


def test_everything_that_is_said_has_a_chinese_text(matches):
    folder = Path(export.__file__).parent
    chinese = json.loads((folder / "viewer_chinese.json").read_text("utf-8"))
    said = {text for name in ("viewer", "scrub_bar", "death_notice") for text in _said(folder / f"{name}.js")}
    said |= {
        phrase.template for match in matches for event in events(recorded_timeline(match)) for phrase in event.phrases
    }
    assert said - chinese.keys() == set()
    for english, text in chinese.items():
        assert {*re.findall(r"\{\w+\}", english)} == {*re.findall(r"\{\w+\}", text)}


def _said(path):
    return re.findall(r'\bsay\("([^"]+)"', path.read_text("utf-8"))


def test_events_are_listed_and_lead_to_their_turn(shown, matches):
    found = events(recorded_timeline(matches[LONG]))
    expected = [{"turn": e.turn, "kind": e.kind, "team": e.team, "text": e.text} for e in found]
    assert shown.value("snakes.events()") == expected
    assert shown.value("[...document.querySelectorAll('#events button span')].map(e => e.textContent)") == [
        event["text"] for event in expected
    ]
    shown.press("e")
    shown.click("#events li:nth-child(3) button")
    assert turn(shown) == expected[2]["turn"] - 1
    shown.press("e")
    assert not shown.value("document.body.classList.contains('events')")
    death = next(event for event in expected if event["kind"] == "death")
    x, y = shown.place("#scrub", across=death["turn"] / 200)
    shown.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
    shown.wait("!document.querySelector('#tip').hidden")
    tip = shown.value("document.querySelector('#tip').innerText")
    assert tip.startswith(f"turn {death['turn']}: ")
    assert death["text"] in tip


def at_turn(page, k: int) -> None:
    page.value(f"snakes.seek({k})")
    page.wait(f"document.querySelector('.turn b').textContent === '{k} / 200'")


NOTICE = "document.querySelector('#notice')"


def test_a_notice_says_when_a_snake_is_already_lost_and_of_what_it_died(shown):
    lost = "snake 5 (blue) is already lost: no safe move since turn 113"
    died = "turn 116: snake 5 (blue) hit snake 1, lost 14; no safe move since turn 113"
    for k, expected in ((112, ""), (113, lost), (115, lost), (116, died), (118, died), (119, "")):
        at_turn(shown, k)
        assert shown.value(f"{NOTICE}.hidden ? '' : {NOTICE}.textContent") == expected, k


def test_the_notice_leaves_the_lost_snake_in_sight(shown, states):
    for k, snake in ((113, 5), (166, 4)):
        at_turn(shown, k)
        is_low = states[LONG][k]["snakes"][snake][0][0] >= 5
        assert shown.value(f"{NOTICE}.classList.contains('top')") == is_low


def marks(page, colour: tuple[int, int, int]) -> list[float]:
    """Where the scrub bar has a colour, in turns: the first and the last column."""
    at_turn(page, 200)
    page.value("new Promise(requestAnimationFrame)")
    data = page.value("document.querySelector('#scrub canvas').toDataURL()").partition(",")[2]
    pixels = np.asarray(Image.open(io.BytesIO(base64.b64decode(data))).convert("RGB")).astype(int)
    columns = np.flatnonzero((np.abs(pixels - np.array(colour)).max(2) <= 6).any(0))
    assert len(columns), colour
    return [column * 200 / pixels.shape[1] for column in (columns[0], columns[-1])]


def test_the_scrub_bar_marks_the_decisive_turn_and_where_there_was_no_safe_move(shown):
    first, last = marks(shown, (255, 228, 92))
    assert abs((first + last) / 2 - 116) < 0.5
    first, last = marks(shown, SNAKE_COLOURS[5])  # from where it was lost to its second death
    assert abs(first - 113) < 0.5
    assert abs(last - 175) < 1


def test_a_page_shows_what_the_policies_said(chrome, tmp_path):
    output = {"probs": [None, [0.9, 0.0, 0.1, 0.0], *[None] * 4], "values": [None, -1.25, *[None] * 4]}
    match = wild_match(5)
    export.html(tmp_path / "policy.html", [replace(match.with_policy([output] * 5), date="2026-11-15")], turn=2)
    page = chrome.open((tmp_path / "policy.html").as_uri())
    assert page.value("snakes.output(2)") == output
    assert page.value("snakes.output(5)") is None  # nobody moves after the end
    page.wait("document.querySelectorAll('.chip .value')[1].textContent === '−1.25'")
    assert page.value("document.querySelectorAll('.chip .value[hidden]').length") == 5
    before = drawn(page, 2)
    page.press("o")
    assert page.value("snakes.shown().policy")
    page.value("new Promise(requestAnimationFrame)")
    assert (drawn(page, 2) != before).any(-1).sum() > 200
    assert "match 0 of seed 5 · 2026-11-15" in page.value("document.title")
    page.close()


def test_names_have_room_beside_the_values_and_the_events(chrome, tmp_path):
    output = {"probs": [[0.0, 0.0, 1.0, 0.0]] * 6, "values": [-12.25] * 6}
    match = replace(wild_match(5), red="champion", blue="territory")
    export.html(tmp_path / "policy.html", [match.with_policy([output] * 5)], turn=2)
    page = chrome.open((tmp_path / "policy.html").as_uri())
    page.press("e")
    for width, height, phone in ((1200, 700, False), (1920, 1000, False), (844, 390, True), (390, 844, True)):
        page.resize(width, height, phone=phone)
        page.value("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        cut = "[...document.querySelectorAll('.team h2')].filter(name => name.scrollWidth > name.clientWidth).length"
        assert page.value(cut) == 0, (width, height)
    page.close()


def test_nothing_went_wrong_in_all_of_this(page, address):
    assert page.errors == []
    assert [asked for asked in page.requests if not asked.startswith("blob:")] == [address]
