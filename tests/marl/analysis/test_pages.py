"""The page of a league: its numbers, and a match behind every cell."""

import dataclasses
import json
import re

import pytest
from helpers import browser

from marl.analysis.pages import league_page
from marl.analysis.telling import EXAMPLES, TellingMatches
from marl.cli.main import main
from opponents.intervals import wilson
from opponents.league_entries import BrokenEntry
from opponents.round_robin import Conduct, play_round_robin

MATCHES, TURNS = 6, 80
EVIL = "<script>hacked = 1</script>"
RUN = "runs/snakes_3v3/run1_20260101_120000"
# Weak to strong, under the names of what they stand for.
NAMES = {
    "level0": f"{RUN}/checkpoints/episode_0",
    "level1": f"{RUN}/checkpoints/episode_4000",
    "level2": EVIL,
    "level3": f"{RUN}/checkpoints/episode_8000",
}


@pytest.fixture(scope="module")
def results():
    pairs, telling = [], TellingMatches(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("opponents.match.TURNS", TURNS)
        table = play_round_robin(list(NAMES), MATCHES, seed=1, progress=pairs.append, record=True, examples=EXAMPLES)
    faulty = Conduct(errors=1234, forfeits=7, mean_ms=1.25, longest_ms=980.0)
    table = dataclasses.replace(table, names=tuple(NAMES[name] for name in table.names))
    table = dataclasses.replace(table, conduct=(faulty, *table.conduct[1:]))
    pairs = [dataclasses.replace(pair, home=NAMES[pair.home], away=NAMES[pair.away]) for pair in pairs]
    for pair in pairs:
        telling.add(pair)
    return table, pairs, telling, [BrokenEntry("李四", "cannot be loaded: <b>")]


@pytest.fixture(scope="module")
def chrome():
    if browser.missing():
        pytest.skip(browser.missing())
    with browser.chromium() as opened:
        yield opened


@pytest.fixture(scope="module")
def path(results, tmp_path_factory):
    path = tmp_path_factory.mktemp("league") / "league.html"
    path.write_text(league_page(*results))
    return path


@pytest.fixture(scope="module")
def page(chrome, path):
    opened = chrome.open(path.as_uri(), 1280, 900, few_frames=True)
    # No smooth scrolling: a cell must not move away from under the mouse.
    still = [{"name": "prefers-reduced-motion", "value": "reduce"}]
    opened.send("Emulation.setEmulatedMedia", features=still)
    yield opened
    assert (opened.errors, opened.requests) == ([], [path.as_uri()])


def test_the_table_shows_the_points_best_player_first(page, results):
    table, *_ = results
    order, points = table.order(), table.points
    cells = "[...document.querySelectorAll('#league tbody tr')].map(r => [...r.querySelectorAll('button')]"
    shown = page.value(f"{cells}.map(b => Number(b.firstChild.textContent)))")
    for i, row in zip(order, shown, strict=True):
        # The page rounds halves up, Python to even.
        assert row == pytest.approx([100 * points[i, j] for j in order if j != i], abs=0.51)
    titles = page.value("[...document.querySelectorAll('#league tbody th')].map(e => e.title)")
    assert titles == [table.names[i] for i in order]
    # The number stands first: on a phone a long name is cut off at its end.
    heads = page.value("[...document.querySelectorAll('#league tbody th')].map(e => e.textContent.split('  ')[0])")
    assert heads == [str(place) for place in range(1, len(order) + 1)]


def test_a_cell_shows_the_match_that_went_best_for_its_row(page, results):
    table, pairs, *_ = results
    for at, i in enumerate(table.order(), start=1):
        for across, j in enumerate(table.order(), start=1):
            if i == j:
                continue
            page.click(f"#league tbody tr:nth-child({at}) td:nth-of-type({across}) button")
            (pair,) = (p for p in pairs if {p.home, p.away} == {table.names[i], table.names[j]})
            match = pair.replays["best" if pair.home == table.names[i] else "worst"]
            names = page.value("['red', 'blue'].map(t => document.querySelector(`.team.${t} h2`).textContent)")
            assert names == [match.red, match.blue]
            assert page.value("snakes.state(snakes.shown().last)") == match.states()[-1]
            assert page.value("document.querySelector('#shows').textContent").startswith(table.names[i])
            chosen = page.value("[...document.querySelectorAll('#league [aria-pressed=true]')].map(b => b.title)")
            assert len(chosen) == 1
            assert chosen[0].startswith(f"{table.names[i]} against {table.names[j]}: ")


def test_each_team_has_its_most_telling_matches(page, results):
    table, _, telling, _ = results
    buttons = "#teams article:nth-child({at}) button"
    for at, i in enumerate(table.order(), start=1):
        name, wanted = table.names[i], telling.of(table.names[i])
        selector = buttons.format(at=at)
        assert page.value(f"document.querySelectorAll('{selector}').length") == len(wanted) == 3
        for number, match in enumerate(wanted, start=1):
            page.click(f"{selector}:nth-of-type({number})")
            assert page.value("snakes.state(snakes.shown().last)") == match.replay.states()[-1]
            # It plays on from there.
            assert match.turn - 10 <= page.value("snakes.shown().turn") or match.turn < 10
            told = page.value("document.querySelector('#shows').textContent")
            assert told.startswith(f"{name} {'lost' if match.loser == name else 'won'} ")
            assert f"turn {match.turn}: " in told
            decisive = page.value("snakes.events().filter(e => e.kind === 'decisive').map(e => e.turn)")
            assert decisive == [match.turn]
            assert page.value("document.querySelectorAll('#league [aria-pressed=true]').length") == 1


def test_errors_forfeits_and_times_are_told(page, results):
    table, _, _, broken = results
    at = table.order().index(0) + 1
    line = page.value(f"document.querySelector('#teams article:nth-child({at}) p').textContent")
    assert line == "1,234 errors · 7 forfeits · 1.3 ms a move, 980 at most"
    assert page.value("document.querySelectorAll('#teams article p').length") == 1  # the others are no submissions
    told = page.value("[...document.querySelectorAll('#broken dl > *')].map(e => e.textContent)")
    assert told == [broken[0].label, broken[0].cause]


def test_cells_of_a_large_league_have_no_match(chrome, path, results, tmp_path):
    table, pairs, telling, _ = results
    text = league_page(table, [dataclasses.replace(pair, replays={}) for pair in pairs], telling)
    assert len(text) < len(path.read_text())
    (tmp_path / "large.html").write_text(text)
    opened = chrome.open((tmp_path / "large.html").as_uri(), few_frames=True)
    assert opened.value("[...document.querySelectorAll('#league td button')].every(b => b.disabled)")
    assert "Click" not in opened.value("document.querySelector('#about').textContent")
    opened.click("#teams button")
    assert opened.value("snakes.shown().match") == 0
    assert opened.errors == []
    opened.close()


CONTRASTS = """(() => {
    const light = (rgb) => rgb.map((v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4))
        .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
    const numbers = (text) => text.match(/[\\d.]+/g).slice(0, 3).map(Number);
    return [...document.querySelectorAll("#league td button")].map((button) => {
        const style = getComputedStyle(button), of = [style.color, style.backgroundColor].map((c) => light(numbers(c)));
        return (Math.max(...of) + 0.05) / (Math.min(...of) + 0.05);
    });
})()"""


def test_letters_can_be_read_on_every_cell(page):
    assert min(page.value(CONTRASTS)) >= 4.5


def test_cells_show_intervals_and_the_axis_has_round_numbers(page, results):
    table, *_ = results
    i, j = table.order()[:2]
    low, high = wilson(float(table.wins[i, j] + table.draws[i, j] / 2), MATCHES)
    told = page.value("document.querySelector('#league td button small').textContent").split(" – ")
    assert [int(end) for end in told] == pytest.approx([100 * low, 100 * high], abs=0.51)
    ticks = page.value("[...document.querySelectorAll('#league tfoot text')].map(e => Number(e.textContent))")
    assert 2 <= len(ticks) <= 6
    assert all(tick % 10 == 0 for tick in ticks)
    assert ticks[0] <= min(table.ratings - table.margins)
    assert ticks[-1] >= max(table.ratings + table.margins)
    widths = page.value("[...document.querySelectorAll('#league td.pair')].map(e => e.offsetWidth)")
    assert len(set(widths)) == 1


def test_the_table_scrolls_on_a_phone(page):
    page.resize(390, 844, phone=True)
    page.wait("document.querySelector('#league .wide').classList.contains('more')")
    assert page.value("document.documentElement.scrollWidth") == 390
    page.value("document.querySelector('#league .wide').scrollLeft = 5000")
    page.wait("!document.querySelector('#league .wide').classList.contains('more')")
    page.resize(1280, 900)


def test_the_page_speaks_chinese(page, results):
    """The league's part and the viewer's; it is said again after every switch."""
    titles = "[...document.querySelectorAll('[title]')].map(each => each.title)"
    seen = f"document.body.innerText + {titles}"
    page.click("#league td button")
    page.value("snakes.show(snakes.shown().match, 50, false)")
    page.wait("document.querySelector('.turn b').textContent.startsWith('50 ')")
    english = page.value(seen)
    page.click("#language")
    page.wait("!document.querySelector('.chip').title.startsWith('Follow')")  # with the next frame
    chinese = page.value(seen)
    assert page.value("document.documentElement.lang") == "zh-CN"
    for name in (results[3][0].cause, *results[0].names, "English", "Elo", "run1_20260101_120000", "Home", "End"):
        chinese = chinese.replace(name, "")
    chinese = re.sub(r"…\w+|level\d", "", chinese)  # the end of a long name, names in the matches
    assert re.findall(r"[A-Za-z]{2,}", chinese) == []
    page.click("#language")
    page.wait("document.querySelector('.chip').title.startsWith('Follow')")
    assert page.value(seen) == english


def test_ratings_over_the_episodes_of_a_run(page):
    places = "[...document.querySelectorAll('#history circle')].map(e => ['cx', 'cy'].map(a => +e.getAttribute(a)))"
    dots = page.value(places)
    assert len(dots) == 3
    assert dots == sorted(dots)
    heights = [y for _, y in dots]
    assert heights == sorted(heights, reverse=True)  # stronger with every checkpoint: further up


def test_names_are_text(page):
    assert EVIL in page.value("document.querySelector('#league').textContent")
    assert page.value("[window.hacked, document.scripts.length]") == [None, 5]


def test_the_command_writes_it(tmp_path, capsys):
    words = ["league", "--players", "level0,level1", "--matches", "4", "--json", "--html", str(tmp_path / "l.html")]
    assert main(words) == 0
    assert json.loads(capsys.readouterr().out)["matches"] == 4
    text = (tmp_path / "l.html").read_text()
    assert '"level0"' in text
    assert len(text) < 300_000
