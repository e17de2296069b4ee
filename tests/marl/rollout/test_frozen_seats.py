"""Seats of networks that do not learn: past selves, and the other side of one-sided self-play."""

from collections import Counter

import pytest
import torch
from helpers.collecting import CPU, WholeNumbers, a_rollout, seat_frozen_players, started

from arena.encoders import encoder_named
from arena.rules import DIRECTION, SNAKES, TEAM, TURN, TURNS
from marl.learners.precision import Precision
from marl.networks.actors import make_actor
from marl.networks.spec import NetworkSpec
from marl.rollout.assignment import MatchAssignment
from marl.rollout.frozen_seats import FrozenSeats
from marl.rollout.rollout import Rollout
from marl.rollout.turn_kernels import Matches, Seats, draw_actions
from marl.storage.policy_player import PolicyPlayer

SEED = 1961
FEATURES = encoder_named("features")


@pytest.fixture(autouse=True)
def seed_printed():
    print(f"seed {SEED}")


def drawn_by(rollout: Rollout, seats: torch.Tensor, actor: WholeNumbers) -> torch.Tensor:
    """Actions of the seats as this actor would draw them now."""
    arena, actions = rollout.arena, torch.full((rollout.matches, SNAKES), -1, dtype=torch.int8)
    drawn = Seats(seats, torch.zeros(len(seats), dtype=torch.int8), actor(arena.observe("features", seats)))
    matches = Matches(arena.state, arena.keys)
    draw_actions.bind(len(seats), CPU, matches, drawn, torch.zeros(1), True, actions)()
    return actions.view(-1)[seats.long()]


@pytest.mark.parametrize("kind", ["itself", "past selves"])
def test_seats_of_networks_that_do_not_learn_are_played_by_those_and_by_nobody_else(kind) -> None:
    """The other side of these matches, whose turns are not stored. It does not explore, although the team does."""
    slots = (2, 3, 6, 7)
    assignment = MatchAssignment(8, self_play_one=slots)
    if kind == "past selves":
        assignment = MatchAssignment(8, past_selves=(slots[:2], slots[2:]))
    team, others = WholeNumbers(FEATURES, SEED), [WholeNumbers(FEATURES, SEED + i) for i in (1, 2)]
    rollout = a_rollout(assignment, turns=4, seed=SEED)
    assert rollout.assignment.teams == rollout.buffer.teams == 8
    seat_frozen_players(rollout, others[: len(rollout.past_self_seats)], itself=team)
    started(rollout, epsilon=1.0)
    rollout.set_mix({"level1": 1.0})
    seats = [rollout.self_play_seats] if kind == "itself" else rollout.past_self_seats
    sides = rollout.team_side.tolist()
    foes = [b * SNAKES + TEAM * (1 - sides[b]) + k for b in slots for k in range(TEAM)]
    assert torch.cat(seats).tolist() == foes
    for turn in range(30):
        players = [team] if kind == "itself" else others
        expected = [drawn_by(rollout, each, player) for each, player in zip(seats, players, strict=True)]
        rollout.play_turn(team)
        for each, actions in zip(seats, expected, strict=True):
            assert torch.equal(rollout.board_actions.view(-1)[each.long()], actions), f"turn {turn}, seed {SEED}"


def test_results_tell_past_selves_and_the_team_itself_apart() -> None:
    assignment = MatchAssignment(12, self_play_both=(0, 1), self_play_one=(2, 3), past_selves=((4, 5), (6, 7)))
    rollout = seat_frozen_players(
        a_rollout(assignment, turns=4, seed=SEED),
        [WholeNumbers(FEATURES, 1), WholeNumbers(FEATURES, 2)],
        itself=WholeNumbers(FEATURES, SEED),
    )
    rollout.set_mix({"level1": 1.0})
    started(rollout)
    for _ in range(TURNS):
        rollout.play_turn(WholeNumbers(FEATURES, SEED))
    tally = rollout.pop_results().tally
    assert tally.sum(1).tolist() == [0, 4, 0, 2, 2, 4, 0], (
        "level0, level1, level2, two past selves, the team itself, nobody"
    )


def test_matches_with_a_past_self_that_was_replaced_count_for_nobody() -> None:
    """Neither for the one who began them nor for the one who takes over; the next ones count again."""
    rollout = a_rollout(MatchAssignment(12, past_selves=((0, 1, 2, 3), (4, 5, 6, 7))), turns=4, seed=SEED)
    seat_frozen_players(rollout, [WholeNumbers(FEATURES, 1), WholeNumbers(FEATURES, 2)])
    rollout.set_mix({"level1": 1.0})
    started(rollout)
    actor, tallies = WholeNumbers(FEATURES, SEED), []
    for _ in range(3):
        for _ in range(TURNS):
            rollout.play_turn(actor)
        tallies.append(rollout.pop_results().tally.sum(1).tolist())
        if len(tallies) == 1:
            rollout.void_matches(0)
    assert tallies == [[0, 4, 0, 4, 4, 0, 0], [0, 4, 0, 0, 4, 0, 4], [0, 4, 0, 4, 4, 0, 0]]


@pytest.mark.parametrize("masks_reversal", [True, False])
def test_reversals_are_drawn_only_without_a_mask(masks_reversal) -> None:
    assignment = MatchAssignment(40, self_play_both=(0, 1), past_selves=((2, 3),))
    rollout = a_rollout(assignment, turns=4, seed=SEED, masks_reversal=masks_reversal)
    seat_frozen_players(rollout, [WholeNumbers(FEATURES, 1)])
    started(rollout, epsilon=0.5)
    rollout.set_mix({"level1": 1.0})
    reversals = Counter()
    for _ in range(40):
        before = rollout.arena.state[:, DIRECTION : DIRECTION + SNAKES].flatten().clone()
        rollout.play_turn(WholeNumbers(FEATURES, SEED))
        reverses = rollout.board_actions.flatten() == (before ^ 1).to(torch.int8)
        reversals.update(learning=int(reverses[rollout.seats.long()].sum()))
        reversals.update(past=int(reverses[rollout.past_self_seats[0].long()].sum()))
    assert (min(reversals.values()) > 5) if not masks_reversal else (sum(reversals.values()) == 0)


@pytest.mark.parametrize("encoder", ["planes", "canonical"])
def test_a_named_policy_takes_the_actions_of_its_player(encoder) -> None:
    """Of another shape and another encoder than the team's; its likeliest actions, as in every other command."""
    torch.manual_seed(SEED)
    encoder = encoder_named(encoder)
    player = PolicyPlayer(make_actor(encoder, NetworkSpec((12,), outputs=5)), encoder, "other")
    rollout = a_rollout(MatchAssignment(8, named=((0, 1), (4, 5))), turns=4, seed=SEED)
    precision = Precision("fp32", CPU)
    frozen = [FrozenSeats(player.actor, rollout, seats, precision, encoder) for seats in rollout.named_seats]
    rollout.frozen_players = [seats.play for seats in frozen]
    started(rollout)
    rollout.set_mix({"level1": 1.0})
    seats, team = torch.cat(rollout.named_seats), WholeNumbers(FEATURES, SEED)
    for turn in range(30):
        expected = torch.zeros(8, SNAKES, dtype=torch.int8)
        player.act(rollout.arena, seats, expected)
        rollout.play_turn(team)
        actions, expected = (each.view(-1)[seats.long()] for each in (rollout.board_actions, expected))
        assert torch.equal(actions, expected), f"turn {turn}, seed {SEED}"


def test_a_past_self_with_an_lstm_remembers_its_match_and_forgets_it_at_the_end() -> None:
    torch.manual_seed(SEED)
    actor = make_actor(FEATURES, NetworkSpec((12,), lstm_size=6))
    rollout = a_rollout(MatchAssignment(8, past_selves=((0, 1, 4, 5),)), turns=4, seed=SEED)
    (seats,) = rollout.past_self_seats
    frozen = FrozenSeats(actor, rollout, seats, Precision("fp32", CPU))
    rollout.frozen_players = [frozen.play]
    rollout.set_mix({"level1": 1.0})
    started(rollout)
    team, expected, began = WholeNumbers(FEATURES, SEED), frozen.hidden.clone(), 0
    assert expected.abs().sum() > 0
    for turn in range(60):
        is_first = rollout.arena.state[:, TURN][seats.long() // SNAKES] == 0
        began += int(is_first.sum())
        with torch.no_grad():
            _, expected = actor.step(rollout.arena.observe("features", seats), is_first, expected)
        rollout.play_turn(team)
        assert torch.allclose(frozen.hidden, expected, atol=1e-6), f"turn {turn}, seed {SEED}"
    assert began > 0
