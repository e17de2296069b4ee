"""Every recorded step of the original game, played again: one turn from the recorded state, recorded directions."""

from typing import Any

import pytest
import torch
from helpers.recorded import Step, cases, steps

from arena import BatchArena

FIELDS = ("snakes", "directions", "turn", "ate", "died", "reward", "over", "surviving beans", "number of beans")


def expected(step: Step) -> dict[str, Any]:
    return {
        "snakes": step.after["snakes"],
        "directions": step.after["directions"],
        "turn": step.after["turn"],
        "ate": step.ate,
        "died": step.died,
        "reward": step.reward,
        "over": step.over,
        "surviving beans": [bean for bean in step.after["beans"] if bean not in step.new_beans],
        "number of beans": len(step.after["beans"]),
    }


def set_up(some: list[Step]) -> BatchArena:
    """The states before these steps, all in one batch."""
    arena = BatchArena(len(some))
    for i, step in enumerate(some):
        arena.set_match(i, step.before)
    return arena


def played(some: list[Step], moves: str, before: BatchArena) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """What an arena makes of these steps: comparable fields, and the matches."""
    arena = BatchArena(len(some))
    arena.state.copy_(before.state)
    arena.keys.copy_(before.keys)
    ate, died, reward, over = (t.tolist() for t in arena.play_turn(torch.tensor([getattr(s, moves) for s in some])))
    matches = [arena.get_match(i) for i in range(len(some))]
    fields = []
    for i, (step, match) in enumerate(zip(some, matches, strict=True)):
        surviving = len(step.after["beans"]) - len(step.new_beans)
        fields.append(
            {
                "snakes": match["snakes"],
                "directions": match["directions"],
                "turn": match["turn"],
                "ate": ate[i],
                "died": died[i],
                "reward": reward[i],
                "over": over[i],
                "surviving beans": match["beans"][:surviving],
                "number of beans": len(match["beans"]),
            }
        )
    return fields, matches


@pytest.fixture(scope="module")
def before() -> BatchArena:
    """The states before all steps. Setting them takes as long as the rest."""
    return set_up(steps())


@pytest.fixture(scope="module")
def everything(before) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    return played(steps(), "taken", before)


@pytest.fixture(scope="module")
def as_asked(before) -> list[dict[str, Any]]:
    return played(steps(), "asked", before)[0]


def test_all_6362_recorded_steps_are_here() -> None:
    assert len(steps()) == 6362
    assert len(cases()) == 48
    assert {step.case for step in steps()} == {"", *cases()}


@pytest.mark.parametrize("field", FIELDS)
def test_every_recorded_step_plays_out_as_recorded(everything, field: str) -> None:
    wrong = [
        f"{step.name}: {field} is {got[field]}, recorded {expected(step)[field]}"
        for step, got in zip(steps(), everything[0], strict=True)
        if got[field] != expected(step)[field]
    ]
    assert not wrong, f"{len(wrong)} of {len(steps())} steps differ:\n" + "\n".join(wrong[:10])


def test_new_beans_lie_on_cells_that_nothing_else_holds(everything) -> None:
    wrong = []
    for step, match in zip(steps(), everything[1], strict=True):
        bodies = {tuple(cell) for body in match["snakes"] for cell in body}
        beans = [tuple(bean) for bean in match["beans"]]
        if bodies & set(beans) or len(set(beans)) != len(beans):
            wrong.append(f"{step.name}: beans {beans}, bodies {sorted(bodies)}")
    assert not wrong, "\n".join(wrong[:5])


def test_setting_and_getting_a_recorded_state_changes_nothing(before) -> None:
    for i, step in enumerate(steps()):
        assert before.get_match(i) == step.before, step.name


@pytest.mark.parametrize("case", cases())
def test_crafted_case(case: str) -> None:
    some = [step for step in steps() if step.case == case]
    fields, _ = played(some, "taken", set_up(some))
    for step, got in zip(some, fields, strict=True):
        assert got == expected(step), step.name


def test_requested_moves_are_taken_and_a_reversal_never_is(as_asked) -> None:
    for step, got in zip(steps(), as_asked, strict=True):
        for snake in range(6):
            if got["died"][snake]:
                continue  # the direction is that of the new body
            asked, now = step.asked[snake], got["directions"][snake]
            if asked == step.before["directions"][snake] ^ 1:
                assert now != asked, f"{step.name}: snake {snake} reversed"
            else:
                assert now == asked, f"{step.name}: snake {snake} asked for {asked}, went {now}"


def test_requested_moves_without_a_reversal_play_out_as_recorded(as_asked) -> None:
    compared = 0
    for step, got in zip(steps(), as_asked, strict=True):
        if not any(a == d ^ 1 for a, d in zip(step.asked, step.before["directions"], strict=True)):
            assert got == expected(step), step.name
            compared += 1
    assert compared > 3000
