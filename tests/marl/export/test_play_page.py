"""The play page in a real browser: rules like the arena's, a policy like torch's, and a human can play."""

import io
import json
import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers import browser
from helpers.exporting import (
    ENCODERS,
    TIE,
    arena_of,
    games,
    legal_logits,
    margins,
    player,
    recorded_states,
    round_to_halves,
    rows,
    saved_run,
    steps,
    with_few_beans,
)
from helpers.pages import called, in_cells, opened, opened_again, shown, text
from helpers.training import here

from arena import BatchArena
from arena.encoders import FORMER_NAMES
from arena.match_dict import to_dict
from arena.rules import SNAKES, TURNS
from marl.export import play_page as page_export
from marl.export import submission_file
from marl.export.dense_layers import packed, policy_layers, widths
from marl.export.play_page import play_page
from marl.storage.saved_player import load_policy
from opponents.match import play

pytestmark = pytest.mark.skipif(bool(browser.missing()), reason=browser.missing() or "there is a browser")

SEED = 11
UP, DOWN, LEFT, RIGHT = range(4)


@pytest.fixture(scope="module")
def chrome():
    with browser.chromium() as found:
        yield found


@pytest.fixture(scope="module")
def exported(tmp_path_factory) -> dict[str, tuple[Path, Path]]:
    """For each encoder a run, and the page that `export` makes of it."""
    folder = tmp_path_factory.mktemp("pages")
    found = {}
    for encoder in ENCODERS:
        run, file = saved_run(folder, encoder), folder / f"{encoder}.html"
        result = here("export", run, "--html", file)
        assert result.returncode == 0, result.stderr
        found[encoder] = run, file
    return found


@pytest.fixture(scope="module")
def rules_page(chrome, exported):
    """A page for tests of the rules."""
    page = opened(chrome, exported["features"][1])
    yield page
    page.close()


@pytest.fixture(scope="module", params=ENCODERS)
def policy_page(request, chrome, exported):
    """An encoder, its run, and the page with its policy, for tests of the computation."""
    page = opened(chrome, exported[request.param][1])
    yield request.param, exported[request.param][0], page
    page.close()


@pytest.fixture(scope="module")
def tab(chrome, exported):
    return opened(chrome, exported["features"][1])


@pytest.fixture
def page(tab, exported):
    """A page that begins anew; every error of the page fails the test."""
    file = exported["features"][1]
    yield opened_again(tab, file)
    assert tab.errors == []
    assert tab.requests == [file.as_uri()], "nothing is fetched"


def test_the_page_computes_all_encoders_that_the_export_accepts(rules_page) -> None:
    known = rules_page.value("Object.keys(encoders)")
    assert page_export.ENCODERS == submission_file.ENCODERS == set(ENCODERS) == {*known} - FORMER_NAMES.keys()


# --- rules ------------------------------------------------------------------------------------------------------------


PLAY_STEPS = """(([seed, steps]) => steps.map(([before, moves], i) => {
  const played = rules.playTurn({ ...before, key: rules.matchKey(seed, i), over: false }, moves);
  const { match: { key, ...match }, ...events } = played;
  return [match, events];
}))"""


def test_the_rules_replay_recorded_steps(rules_page) -> None:
    """Steps of the original game, among them all crafted cases; new beans, which it drew in its own way, as the arena
    draws them."""
    numbers = [number for number, step in enumerate(steps()) if step.case or number % 4 == 0]
    some = [steps()[number] for number in numbers]
    arena = arena_of(recorded_states()[numbers], SEED)
    arena.play_turn(torch.tensor([step.taken for step in some]))
    answers = called(rules_page, PLAY_STEPS, [SEED, [[in_cells(step.before), step.taken] for step in some]])
    assert len(answers) > 1600
    state = arena.state.numpy()
    for i, (step, (match, events)) in enumerate(zip(some, answers, strict=True)):
        assert match == in_cells(to_dict(state[i])) | {"over": step.over}, step.name
        recorded = in_cells(step.after)
        assert [match[key] for key in ("turn", "snakes", "directions")] == [
            recorded[key] for key in ("turn", "snakes", "directions")
        ], step.name
        surviving = len(step.after["beans"]) - len(step.new_beans)
        assert match["beans"][:surviving] == recorded["beans"][:surviving], step.name
        expected = {"taken": step.taken, "ate": step.ate, "died": step.died, "reward": step.reward}
        assert events == expected, step.name


PLAY_MATCHES = """(([seed, first, matches]) => matches.map((turns, i) => {
  let match = rules.start(seed, BigInt(first) + BigInt(i));
  const plain = ({ key, ...rest }) => rest;
  return [plain(match), ...turns.map((moves) => plain((match = rules.playTurn(match, moves).match)))];
}))"""


@pytest.mark.parametrize(("seed", "first"), [(0, 0), (SEED, 5), (2**63 - 1, 2**40 + 3)])
def test_whole_random_matches_are_those_of_the_arena(rules_page, seed, first) -> None:
    """Every state of whole matches; a quarter of the moves are reversals, so every kind of draw is made."""
    print(f"seed {SEED}")
    matches = 3
    moves = torch.randint(0, 4, (TURNS, matches, SNAKES), generator=torch.Generator().manual_seed(SEED))
    arena = BatchArena(matches, seed=seed, first_match=first)
    arena.start()
    expected = [[in_cells(arena.get_match(i)) | {"over": False}] for i in range(matches)]
    for turn in range(TURNS):
        over = arena.play_turn(moves[turn]).over.tolist()
        for i in range(matches):
            expected[i].append(in_cells(arena.get_match(i)) | {"over": over[i]})
    sent = [str(seed), str(first), moves.transpose(0, 1).tolist()]
    assert called(rules_page, PLAY_MATCHES, sent) == expected


# --- the policy -------------------------------------------------------------------------------------------------------

EVALUATE = """((positions) => positions.map(([match, snake]) => {
  const { policy } = snakes, row = policy.encode(match, snake);
  return [[...row], [...policy.forward(row)], policy.policyOutput(match, snake)];
}))"""


def asked(page: browser.Page, places: list[tuple[int, int, int]]) -> list:
    sent = [[in_cells(games()[game][turn].match), snake] for game, turn, snake in places]
    return called(page, EVALUATE, sent)


def some_places(count: int) -> list[tuple[int, int, int]]:
    print(f"seed {SEED}")
    generator = np.random.default_rng(SEED)
    return [tuple(place) for place in generator.integers(0, (len(games()), TURNS, SNAKES), (count, 3)).tolist()]


def test_the_policy_sees_says_and_does_what_torch_does(policy_page) -> None:
    encoder, run, page = policy_page
    places = some_places(400)
    answers = asked(page, places)
    who, obs = load_policy(str(run)), rows(encoder)[tuple(np.array(places).T)]
    assert np.array_equal(np.array([row for row, _, _ in answers]), obs)
    said = who.actor(torch.from_numpy(obs)).numpy()
    assert np.abs(np.array([answer for _, answer, _ in answers]) - said).max() < 1e-4
    logits = legal_logits(who, obs)
    moves = np.array([output["move"] for _, _, output in answers])
    clear = margins(logits) > TIE
    assert clear.sum() >= 396
    assert (moves == logits.argmax(-1))[clear].all()
    shares = np.array([output["probabilities"] for _, _, output in answers])
    assert np.abs(shares - torch.from_numpy(logits).softmax(-1).numpy()).max() < 1e-4
    assert {output["value"] for _, _, output in answers} == {None}


def test_missing_beans_are_seen_as_in_training(policy_page) -> None:
    encoder, _, page = policy_page
    positions, expected = zip(*with_few_beans(encoder), strict=True)
    sent = [[in_cells(position.match), snake] for position in positions for snake in range(SNAKES)]
    assert np.array_equal(np.array([row for row, _, _ in called(page, EVALUATE, sent)]), np.concatenate(expected))


def test_the_canonical_encoder_is_also_known_by_its_earlier_name(rules_page) -> None:
    assert rules_page.value("encoders.turned === encoders.canonical && encoders.turned instanceof Function")


@pytest.mark.parametrize("halves", [False, True])
def test_the_page_reads_the_weights_that_were_written(rules_page, halves) -> None:
    who = player("tactical")
    if halves:
        round_to_halves(who)
    layers = policy_layers(who)
    text = packed(layers, who.encoder.scale)
    numbers = np.concatenate([part.ravel() for layer in layers for part in (layer.weight.T, layer.bias)])
    assert len(text) == pytest.approx(numbers.size * (2 if halves else 4) * 4 / 3, rel=0.05)
    read = rules_page.value(f"Array.from(decodeFloats({json.dumps(text)}, {widths(layers)}))")
    assert np.array_equal(np.array(read, np.float32), numbers)


NAME = "</script><script>document.title = 'taken over'</script><b>&amp;"


def test_a_value_is_told_and_a_name_is_only_text(chrome, tmp_path) -> None:
    who = player("features", value=True)
    file = tmp_path / "page.html"
    file.write_text(play_page(policy_layers(who), who.encoder, NAME), "utf-8")
    page = opened(chrome, file)
    places = some_places(50)
    obs = rows("features")[tuple(np.array(places).T)]
    values = [output["value"] for _, _, output in asked(page, places)]
    assert np.abs(np.array(values) - who.actor(torch.from_numpy(obs)).numpy()[:, 4]).max() < 1e-4
    page.wait("document.querySelector('.team.blue h2').textContent !== ''")
    assert page.value("document.querySelector('.team.blue h2').textContent") == f"{NAME} · easy"
    page.value("snakes.setLevel(FULL)")
    page.wait(f"document.querySelector('.team.blue h2').textContent === {json.dumps(NAME)}")
    assert page.value("document.title") == f"{NAME} · Snakes 3v3"
    assert "the policy expects" in page.value("document.querySelector('.chip').title")
    assert page.errors == []
    page.close()


@pytest.mark.parametrize("policy_page", ["canonical", "tactical_board"], indirect=True)
def test_watching_shows_the_match_that_python_plays(policy_page) -> None:
    _, run, page = policy_page
    page.value("snakes.takeSeat(null), snakes.begin(0, 5), snakes.play(false)")
    page.value("(() => { while (!snakes.shown().over) snakes.advance(); })()")
    replay = play(str(run), str(run), 1, seed=5, record=True, loader=load_policy).replays["first"]
    assert page.value("snakes.shown().last") == TURNS
    assert page.value("Array.from({length: 201}, (_, k) => snakes.state(k))") == replay.states()
    died = page.value("snakes.steps().slice(1).map(step => step.died)")
    assert died == [turn.get("died", []) for turn in replay.turns]


# --- a person plays ---------------------------------------------------------------------------------------------------


def sideways(page: browser.Page) -> tuple[int, int]:
    """A move of the own snake to the side, and the opposite one."""
    direction = page.value("snakes.state(0).directions[0]")
    return (LEFT, RIGHT) if direction in (UP, DOWN) else (UP, DOWN)


KEYS = {
    "arrows": ("ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight"),
    "letters": ("w", "s", "a", "d"),
}


@pytest.mark.parametrize("keys", KEYS.values(), ids=KEYS)
def test_the_own_snake_goes_where_the_keys_say_and_the_others_as_the_policy_says(page, keys) -> None:
    page.value("snakes.setLevel(FULL)")
    now = shown(page)
    assert (now["seat"], now["waiting"], now["playing"], now["last"]) == (0, True, False, 0)
    aside, _ = sideways(page)
    straight = page.value("snakes.state(0).directions[0]")
    page.press(keys[straight ^ 1])  # a reversal is not taken up; it starts the match
    page.press(keys[aside])
    page.wait("snakes.shown().last >= 4")
    page.press(" ")
    taken = page.value("snakes.steps().slice(1).map(step => step.moves)")
    own = [moves[0] for moves in taken if moves[0] >= 0]
    assert straight ^ 1 not in own[:1]
    assert aside in own
    said = page.value("snakes.steps().slice(1).map((_, k) => snakes.policyOutputs(k).map(output => output.move))")
    for moves, outputs in zip(taken, said, strict=True):
        assert all(move in (-1, output) for move, output in zip(moves[1:], outputs[1:], strict=True))


def test_two_turns_can_be_pressed_ahead(page) -> None:
    page.value("snakes.play(true), snakes.play(false)")
    aside, _ = sideways(page)
    straight = page.value("snakes.state(0).directions[0]")
    for move in (aside, straight, aside):
        page.value(f"snakes.steer({move}), snakes.play(false)")
    assert shown(page)["queue"] == [aside, straight]
    page.value("snakes.advance()")
    assert shown(page)["queue"] == [straight]
    page.value(f"snakes.advance(), snakes.steer({straight ^ 1}), snakes.play(false)")
    assert shown(page)["queue"] == [], "the way back is not taken up"
    assert page.value("snakes.steps().slice(1).map(step => step.moves[0])") == [aside, straight]


def test_pause_speed_restart_next_match_and_seats(page) -> None:
    page.click("#watch")
    page.wait("snakes.shown().last > 0")
    assert shown(page)["seat"] is None
    page.press(" ")
    held = page.wait("!snakes.shown().playing && snakes.shown()")
    page.wait("document.querySelector('#banner').textContent === 'Paused'")
    page.value("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert shown(page)["time"] == held["time"]
    page.press("+")
    page.click("#faster")
    page.press("-")
    assert shown(page)["speed"] > held["speed"]
    page.wait(f"document.querySelector('#speed').textContent === '{shown(page)['speed']} turns/s'")

    page.press("r")
    assert page.value("snakes.state(0)") == page.value("rules.dictionary(rules.start(0, 0))")
    page.click("#next")
    assert shown(page)["number"] == "1"
    assert page.value("snakes.state(0)") == page.value("rules.dictionary(rules.start(0, 1))")
    page.value(
        "document.querySelector('#seed').value = '9007199254740993', document.querySelector('#which').requestSubmit()"
    )
    page.value("document.querySelector('#which').dispatchEvent(new Event('change'))")
    assert page.value("snakes.state(0)") == page.value("rules.dictionary(rules.start('9007199254740993', '1'))")

    for snake in (5, 0, 3):
        page.press(str(snake))  # the keys are the numbers that the snakes carry
        assert shown(page)["seat"] == snake
        page.wait(f"document.querySelector('#banner').textContent.startsWith('You are snake {snake}')")
    page.press("v")
    assert shown(page)["seat"] is None
    page.press("6")
    assert shown(page)["seat"] is None
    page.click(".team.red .chip:nth-child(2)")
    now = shown(page)
    assert (now["seat"], now["waiting"], now["playing"]) == (1, True, False)
    page.wait("document.querySelector('#banner').textContent.startsWith('You are snake 1')")
    assert f"{text(page, '.team.red h2')} · easy" == f"You and {text(page, '.team.blue h2')}"
    assert page.value("[...document.querySelectorAll('.chip .name')].map(name => name.textContent)") == [*"012345"]


def test_the_end_is_told_and_space_goes_on(page) -> None:
    page.value("snakes.takeSeat(null), snakes.play(false)")
    page.value("(() => { while (!snakes.shown().over) snakes.advance(); })()")
    page.value("(now => { requestAnimationFrame = f => setTimeout(() => f(now += 100)); })(0)")  # a faster clock
    for _ in range(9):
        page.press("+")
    page.press(" ")
    page.wait("snakes.shown().time === snakes.shown().last && !snakes.shown().playing")
    lengths = [len(body) for body in page.value("snakes.state(200)")["snakes"]]
    red, blue = sum(lengths[:3]) - 9, sum(lengths[3:]) - 9
    page.wait(f"document.querySelector('.result .red').textContent === '{red}'")
    assert text(page, ".result .blue") == str(blue)
    chips = "[...document.querySelectorAll('.chip .gain')].map(chip => Number(chip.textContent))"
    assert page.value(chips) == [length - 3 for length in lengths], "they add up to the score"
    winner = "A draw" if red == blue else f"{'red' if red > blue else 'blue'} wins"
    assert text(page, "#banner").startswith(f"{winner} {max(red, blue)} : {min(red, blue)}"), "the winner's first"
    page.press(" ")
    assert (shown(page)["number"], shown(page)["over"]) == ("1", False)


def test_help_pauses_and_goes_away_by_the_same_key(page) -> None:
    page.value("snakes.takeSeat(null), snakes.play(true)")
    page.press("?")
    assert page.value("document.querySelector('#help').open")
    assert not shown(page)["playing"]
    page.press("4")
    assert shown(page)["seat"] is None
    page.press("?")
    assert not page.value("document.querySelector('#help').open")


TURNED = (RIGHT, LEFT, UP, DOWN)  # on the board turned clockwise, of up, down, left and right


@pytest.mark.parametrize(("width", "height"), [(390, 844), (844, 390), (360, 640)])
def test_a_phone_steers_by_swiping_and_by_buttons(chrome, exported, width, height) -> None:
    """Upright, the board is turned; steering is in directions of the screen."""
    file = exported["planes"][1]
    page = opened(chrome, file, width=width, height=height, scale=2, phone=True)
    turned = shown(page)["turned"]
    assert turned == (height == 844)
    board = page.value("(c => [c.clientWidth, c.clientHeight])(document.querySelector('#board'))")
    assert (board[0] < board[1]) == turned
    aside, other = sideways(page)
    ends = {UP: (0.5, 0.1), DOWN: (0.5, 0.9), LEFT: (0.2, 0.5), RIGHT: (0.8, 0.5)}
    page.swipe("#board", (0.5, 0.5), ends[TURNED[aside] if turned else aside])
    page.wait("snakes.shown().last >= 1")
    page.value("snakes.play(false)")
    assert page.value("snakes.steps()[1].moves[0]") in (aside, -1)
    if height > width:  # a phone on its side has no room for the buttons
        page.value("snakes.begin()")
        page.tap(f'#pad [data-move="{TURNED[other] if turned else other}"]')
        assert shown(page)["playing"]
        page.wait("snakes.shown().last >= 1")
        assert page.value("snakes.steps()[1].moves[0]") in (other, -1)
        page.tap("#board")
        assert not shown(page)["playing"]
        tops = "Array.from(document.querySelectorAll('#controls button, #controls select'), e => e.offsetTop)"
        assert len({*page.value(tops)}) == 2, "rows of controls"
    for selector in (".chip", "#controls button, #controls select"):
        boxes = page.value(
            "document.querySelectorAll('.gain').forEach(gain => { gain.textContent = 27; }),"
            f"[...document.querySelectorAll('{selector}')].map(e => e.getBoundingClientRect())"
            ".filter(b => b.width).map(b => [b.left, b.top, b.right, b.bottom])"
        )
        for (_, above, right, _), (left, top, _, bottom) in pairwise(boxes):
            assert left >= right or top > above, "nothing overlaps"
            assert bottom <= height, "all controls are on the screen"
    assert page.value("document.documentElement.scrollWidth") <= width
    assert page.errors == []
    assert page.requests == [file.as_uri()]
    page.close()


TEXTS = """[...document.querySelectorAll('body *')].filter(e => e.checkVisibility()
  && [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim())).map(e => {
  let on = e, back;
  do { back = getComputedStyle(on).backgroundColor; on = on.parentElement; } while (/, 0\\)$/.test(back) && on);
  return [e.textContent, getComputedStyle(e).color, back];
})"""


def contrast(*colours: str) -> float:
    """The contrast of two colours, `rgb(...)`, as WCAG 2 defines it."""
    parts = [np.array([float(part) for part in re.findall(r"[\d.]+", colour)[:3]]) / 255 for colour in colours]
    linear = [np.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4) for part in parts]
    dark, light = sorted(float(part @ [0.2126, 0.7152, 0.0722]) for part in linear)
    return (light + 0.05) / (dark + 0.05)


def test_all_texts_can_be_read(page) -> None:
    """At least 4.5 : 1, as WCAG AA asks."""
    page.press("p")
    page.press("?")
    page.wait("!document.querySelector('#thinking').hidden && snakes.plannerWorker.plan(snakes.match(), 1)")
    found = page.value(TEXTS)
    assert len(found) > 40
    for said, *colours in found:
        assert contrast(*colours) >= 4.5, (said, colours)
    page.requests[1:] = []  # the worker


def test_the_picture_shows_the_board(page) -> None:
    from PIL import Image

    from arena.render.theme import BEAN_COLOUR, SNAKE_COLOURS

    page.value("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    before = page.picture()
    picture = np.asarray(Image.open(io.BytesIO(before)).convert("RGB")).astype(int)
    cell = page.value("document.querySelector('#board').clientWidth / 20")
    for colour in SNAKE_COLOURS:
        near = (np.abs(picture - colour).max(-1) < 12).sum()
        assert near > 0.1 * cell**2, f"{colour} is hardly to be seen: {near} pixels"
    left, top = page.value("(b => [b.x, b.y])(document.querySelector('#board').getBoundingClientRect())")
    for row, column in page.value("snakes.state(0).beans"):
        at = picture[round(top + (row + 0.5) * cell), round(left + (column + 0.5) * cell)]
        assert np.abs(at - BEAN_COLOUR).max() < 12
    page.press("t")
    page.wait("document.querySelector('#policy').getAttribute('aria-pressed') === 'true'")
    assert page.picture() != before
