"""The opponents of the play page in a real browser: their levels, and planning in a Web Worker."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers import browser, drawn_boards
from helpers.drawn_boards import beside
from helpers.drawn_plans import drawn_plan
from helpers.exporting import ENCODERS, arena_of, player, recorded_states
from helpers.pages import called, in_cells, opened, opened_again, shown, text

from arena import BatchArena
from arena.rules import BEANS_MAX, CELLS, COLUMNS, ROWS, SNAKES, TEAM, TURNS
from marl.bench.planning import FILE as POSITIONS
from marl.export.dense_layers import policy_layers
from marl.export.play_page import play_page
from marl.planning.planner import write_losses
from marl.planning.positions import load as load_positions
from marl.planning.value_scale import value_scale
from opponents.match import play

pytestmark = [
    pytest.mark.skipif(bool(browser.missing()), reason=browser.missing() or "there is a browser"),
    pytest.mark.usefixtures("one_thread"),
]

SEED = 5
BLUE = 1


@pytest.fixture(scope="module")
def chrome():
    with browser.chromium() as found:
        yield found


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> dict[str, Path]:
    """For each encoder the page of an untrained policy with a value head."""
    folder = tmp_path_factory.mktemp("pages")
    found = {}
    for encoder in ENCODERS:
        who = player(encoder, value=True)
        found[encoder] = folder / f"{encoder}.html"
        found[encoder].write_text(play_page(policy_layers(who), who.encoder, "it", value_scale(who.reward)), "utf-8")
    return found


@pytest.fixture(scope="module")
def tab(chrome, files):
    return opened(chrome, files["canonical"])


@pytest.fixture
def page(tab, files):
    """A page that begins anew; every error of the page fails the test."""
    yield opened_again(tab, files["canonical"])
    assert tab.errors == []


# --- levels -----------------------------------------------------------------------------------------------------------


def test_random_opponents_are_those_of_the_arena(page) -> None:
    page.value("snakes.takeSeat(null), snakes.setLevel(0), snakes.begin(0, 5), snakes.play(false)")
    page.value("(() => { while (!snakes.shown().over) snakes.advance(); })()")
    replay = play(player("canonical", value=True), "level0", 1, seed=5, record=True).replays["first"]
    assert page.value("Array.from({length: 201}, (_, k) => snakes.state(k))") == replay.states()


def test_weaker_opponents_play_more_moves_at_random_and_mates_none(page) -> None:
    played = """((seat, levels) => levels.map((level) => {
      snakes.takeSeat(seat), snakes.setLevel(level), snakes.begin(0, 3), snakes.play(false);
      while (!snakes.shown().over) snakes.advance();
      const other = Array(6).fill(0);
      snakes.steps().slice(1).forEach(({ moves, lunges }, turn) => moves.forEach((move, snake) => {
        if ((move < 0 ? lunges[snake] : move) !== snakes.policyOutputs(turn)[snake].move) other[snake]++;
      }));
      return other;
    }))"""
    noise = page.value("LEVELS.slice(0, AHEAD).map(({ noise }) => noise)")
    assert noise == sorted(noise, reverse=True)
    assert (noise[0], noise[-1]) == (1, 0)
    for seat, rivals, levels in ((0, [3, 4, 5], [*range(len(noise))]), (4, [0, 1, 2], [2])):
        counts = np.array(page.value(f"{played}({seat}, {levels})"))
        assert not counts[:, [s for s in range(SNAKES) if s not in (seat, *rivals)]].any()
        shares = counts[:, rivals].mean(1) / TURNS
        # A random move is the policy's own in a third of all cases.
        assert np.abs(shares - np.array(noise)[levels] * 2 / 3).max() < 0.06, shares


def test_the_level_is_chosen_in_the_page(page) -> None:
    choose = "(s => { s.value = {}; s.dispatchEvent(new Event('change')); })(document.querySelector('#level'))"
    names = page.value("[...document.querySelectorAll('#level option')].map(option => option.textContent)")
    assert (names[0], names[-1]) == ("random", "full strength")
    page.wait("document.querySelector('#banner').textContent.includes('opponents: easy')")
    page.value(choose.replace("{}", str(names.index("hard"))))
    page.wait("document.querySelector('.team.blue h2').textContent === 'it · hard'")
    page.press("v")
    assert shown(page)["level"] == len(names) - 1, "who only watches sees the policy at its best"
    page.press("5")
    page.wait("document.querySelector('.team.red h2').textContent === 'it · hard'")


# --- planning ---------------------------------------------------------------------------------------------------------

PLAN = """(async (positions) => {
  const plans = [];
  for (const [match, team, options] of positions) {
    const worker = snakes.plannerWorker;
    worker.ask(match, team, options);
    while (!worker.plan(match, team) && !worker.note()) await new Promise(done => setTimeout(done));
    plans.push(worker.plan(match, team));
  }
  return plans;
})"""


@pytest.mark.parametrize(("encoder", "budget"), [("tactical", (1, 6)), ("canonical", (3, 4)), ("planes", (2, 4))])
def test_plans_are_those_of_the_reference(tab, files, encoder, budget) -> None:
    """The same draws, a fixed number of rollouts; both teams.

    Recorded positions up to the last turns of matches, and mined ones in which dead ends decide.
    """
    page = opened_again(tab, files[encoder])
    recorded = recorded_states()[torch.tensor([*range(5, 400, 99), 197, 198, 199])]
    mined = load_positions(POSITIONS).take(torch.arange(3, 226, 45))
    teams = torch.cat([torch.arange(len(recorded)) % 2, mined.snakes // TEAM]).tolist()
    arena = arena_of(torch.cat([recorded, mined.states]), SEED)
    who = player(encoder, value=True)
    plans = [drawn_plan(who, arena, b, team, *budget) for b, team in enumerate(teams)]
    dead_ends = [((plan.losses > 0) & plan.values.isfinite()).any() for plan in plans]  # reversals are not legal
    assert all(dead_ends[len(recorded) :]), "every mined position has a dead end"
    options = {"seed": SEED, "rollouts": budget[0], "turns": budget[1]}
    sent = [
        [in_cells(arena.get_match(b)) | {"over": False}, team, options | {"number": int(arena.numbers[b])}]
        for b, team in enumerate(teams)
    ]
    for found, plan in zip(called(page, PLAN, sent), plans, strict=True):
        assert found["rollouts"] == [budget[0], budget[0]]
        legal = np.isfinite(plan.values.numpy())
        assert [[value is not None for value in row] for row in found["values"]] == legal.tolist()
        planned = np.array(found["values"], float)
        np.testing.assert_allclose(planned[legal], plan.values.numpy()[legal], rtol=1e-4, atol=1e-3)
        assert found["moves"] == plan.actions
    assert page.errors == []


@pytest.fixture(scope="module")
def narrow_boards() -> BatchArena:
    """All mined positions, recorded ones, full boards, and a room in which only a short snake can turn in a circle."""
    drawn = [drawn_boards.draw(drawing) for drawing in drawn_boards.CIRCLE.values()]
    full = [full_board(np.random.default_rng([SEED, i])) for i in range(40)]
    states = drawn_boards.arena_of(*drawn, *full).state
    return arena_of(torch.cat([states, load_positions(POSITIONS).states, recorded_states()[::29]]))


def full_board(generator: np.random.Generator) -> dict[str, Any]:
    """Six snakes, one behind the other, on a way through all cells; a few cells are free or hold a bean."""
    way = [(row, column if row % 2 else COLUMNS - 1 - column) for row in range(ROWS) for column in range(COLUMNS)]
    shift = int(generator.integers(CELLS))
    way = way[shift:] + way[:shift]
    ends = sorted(10 * generator.choice(np.arange(1, 19), 5, replace=False))
    bodies = [way[start : end - generator.integers(2)][::-1] for start, end in pairwise([0, *ends, CELLS - BEANS_MAX])]
    steps = [[beside(neck, step) == head for step in range(4)] for head, neck, *_ in bodies]
    free = set(way).difference(*bodies)
    return {
        "turn": 100,
        "snakes": bodies,
        "directions": [step.index(True) for step in steps],
        "beans": sorted(free)[: generator.integers(BEANS_MAX + 1)],
    }


def test_dead_ends_are_those_of_the_arena(page, narrow_boards) -> None:
    arena, count = narrow_boards, narrow_boards.matches
    losses = torch.zeros(2, count, TEAM, 4)
    for side in range(2):
        sides = torch.full((count,), side)
        write_losses.bind(losses[side].numel(), arena.device, arena.state, torch.arange(count), sides, losses[side])()
    sent = [in_cells(arena.get_match(b)) for b in range(count)]
    page.value("window.planner = makePlanner(null, null)")
    found = called(page, "(all => all.map(match => planner.deadEndLosses(match, [0, 1, 2, 3, 4, 5])))", sent)
    assert torch.equal(torch.tensor(found).float(), losses.transpose(0, 1).flatten(1, 2))


def test_searches_find_what_those_of_the_arena_find(page, narrow_boards) -> None:
    sent = [in_cells(narrow_boards.get_match(b)) for b in range(narrow_boards.matches)]
    encode = "(all => all.map(match => match.snakes.map((_, snake) => [...encoders.tactical(match, snake)])))"
    found = called(page, encode, sent)
    expected = narrow_boards.observe("tactical")
    assert torch.equal(torch.tensor(found), expected.float()), f"seed {SEED}"
    *_, tail_may_stay, dead_end = expected[..., -32:].reshape(-1, 8).bool().sum(0).tolist()
    assert min(tail_may_stay, dead_end) > 50


def moves_of_blue(page: browser.Page) -> list[int]:
    """The moves that blue made in the last turn, also those that ended in death."""
    return page.value(
        "(({ moves, lunges }) => [3, 4, 5].map(s => moves[s] < 0 ? lunges[s] : moves[s]))(snakes.steps().at(-1))"
    )


def policy_moves(page: browser.Page) -> list[int]:
    """The policy's own moves of blue in the turn played last."""
    return page.value("snakes.policyOutputs(snakes.shown().last - 1).slice(3).map(output => output.move)")


def test_the_switch_turns_planning_on_and_off(page) -> None:
    page.value("snakes.takeSeat(null), snakes.play(false)")
    page.press("p")
    page.wait("document.querySelector('#ahead').getAttribute('aria-pressed') === 'true'")
    assert text(page, ".team.blue h2") == "it · thinks ahead"
    differ = 0
    for _ in range(6):
        plan = page.wait(f"snakes.plannerWorker.plan(snakes.match(), {BLUE})")
        page.value("snakes.advance()")
        assert moves_of_blue(page) == (plan["moves"] or policy_moves(page))
        differ += moves_of_blue(page) != policy_moves(page)
    assert differ, "planning changes something"
    page.click("#ahead")
    page.wait("document.querySelector('#ahead').getAttribute('aria-pressed') === 'false'")
    assert shown(page)["level"] == page.value("FULL")
    for _ in range(6):
        page.value("snakes.advance()")
        assert moves_of_blue(page) == policy_moves(page)
    assert page.requests[0].startswith("file:")
    assert [address[:5] for address in page.requests[1:]] == ["blob:"], "nothing is fetched; the worker is of the page"


SLOW = """function makePlanner() {
  const wait = (until) => { while (performance.now() < until); };
  const plan = ({ directions }) => (wait(performance.now() + 60), { moves: directions.slice(3), rollouts: [1, 1] });
  return { plan };
}"""


def test_a_match_waits_for_the_plans(page) -> None:
    """At 64 turns a second every move is a planned one (straight on), though a plan takes as long as four turns."""
    page.value("snakes.takeSeat(null), snakes.begin(), snakes.play(false)")
    page.value(f"document.getElementById('planner_script').textContent = {json.dumps(SLOW)}")
    page.value(  # an hour: a busy machine may be slow
        "(s => { s.append(new Option('', 3600000)); s.value = 3600000; s.dispatchEvent(new Event('change')); })"
        "(document.querySelector('#budget'))"
    )
    page.value("snakes.setLevel(AHEAD)")
    for _ in range(9):
        page.press("+")
    page.press(" ")
    page.wait("snakes.shown().last >= 5")
    page.press(" ")
    for turn in range(5):
        straight, moved = page.value(f"[snakes.state({turn}).directions, snakes.steps()[{turn + 1}].moves]")
        assert all(move in (-1, way) for move, way in zip(moved[3:], straight[3:], strict=True))


def test_the_page_stays_smooth_while_the_worker_plans(page) -> None:
    frames, plan = page.value(
        f"""(async () => {{
          const match = snakes.match();
          let frames = 0;
          snakes.plannerWorker.ask(match, {BLUE}, {{ seed: 0, number: 0, milliseconds: 300 }});
          for (; !snakes.plannerWorker.plan(match, {BLUE}); frames++) await new Promise(requestAnimationFrame);
          return [frames, snakes.plannerWorker.plan(match, {BLUE})];
        }})()"""
    )
    assert all(plan["rollouts"])
    assert frames > 0, "the page has drawn while the worker planned"


BROKEN = {
    "no worker": ("window.Worker = class { constructor() { throw new Error('forbidden'); } }", "forbidden"),
    "a bad script": ("document.getElementById('planner_script').textContent = 'throw new Error(\"bad\");'", "bad"),
    "a bad plan": (
        "document.getElementById('planner_script').textContent ="
        " 'function makePlanner() { return { plan() { throw new Error(\"lost\"); } }; }'",
        "lost",
    ),
}


@pytest.mark.parametrize(("breaks", "reason"), BROKEN.values(), ids=BROKEN)
def test_an_error_in_the_worker_is_told_and_leaves_the_policys_moves(tab, files, breaks, reason) -> None:
    page = opened_again(tab, files["canonical"])
    page.value("snakes.takeSeat(null), snakes.play(false)")
    page.value(f"void ({breaks})")
    page.press("p")
    page.wait(f"document.querySelector('#note').textContent.includes('{reason}')")
    assert page.value("document.querySelector('#note').checkVisibility()")
    page.press(" ")
    page.wait("snakes.shown().last >= 2")
    page.value("snakes.play(false)")
    assert moves_of_blue(page) == policy_moves(page)
    page.press("p")
    page.wait("document.querySelector('#note').textContent === ''")


def test_a_plan_without_time_leaves_the_policys_moves(page) -> None:
    page.value("snakes.takeSeat(null), snakes.play(false), snakes.setLevel(AHEAD)")
    page.wait(f"snakes.plannerWorker.plan(snakes.match(), {BLUE})")
    ask = f"snakes.plannerWorker.ask(snakes.match(), {BLUE}, {{ seed: 0, number: 0, milliseconds: -1 }})"
    page.value(ask)
    plan = page.wait(f"snakes.plannerWorker.plan(snakes.match(), {BLUE})")
    assert plan == {"moves": None, "values": None, "rollouts": [0, 0]}
    page.wait("document.querySelector('#note').textContent.includes('too long')")
    page.value("snakes.advance()")
    assert moves_of_blue(page) == policy_moves(page)
    page.wait("document.querySelector('#note').textContent === ''")
