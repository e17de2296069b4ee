"""marl.planning: what a plan is worth, what it must not know, and what it finds."""

import math
from itertools import product

import pytest
import torch
from helpers.drawn_boards import arena_of, draw
from helpers.exporting import actor
from helpers.in_play import in_play
from helpers.plain_levels import distance
from torch.utils._python_dispatch import TorchDispatchMode

from arena import BatchArena
from arena.dangers import is_dead_end
from arena.encoders import encoder_named
from arena.rules import DIRECTION, DOWN, HEAD, LENGTH, RIGHT, SNAKES, START_LENGTH, TEAM, TURN, TURNS, UP
from marl.networks.policy import mask_reversal, to_board_logits
from marl.planning import planner as module
from marl.planning.foe_models import LEVEL4
from marl.planning.judge import DISCOUNT, PRIOR
from marl.planning.planner import (
    CANDIDATES,
    DEAD_END,
    LEAST_SHARE,
    LOOKED_AGAIN,
    NEAR,
    REPLIES_AGAIN,
    Budget,
    Planner,
)
from marl.planning.second_turn import DEVIATIONS
from marl.planning.value_scale import ValueScale
from opponents.players import find

SEED = 11
pytestmark = pytest.mark.usefixtures("one_thread")


def seats_of(matches: int, side: int) -> torch.Tensor:
    return (torch.arange(matches)[:, None] * SNAKES + side * TEAM + torch.arange(TEAM)).flatten().int()


def a_planner(
    arena: BatchArena,
    side: int = 0,
    budget: Budget = Budget(2),  # noqa: B008
    encoder: str = "canonical",
    learns_foes: bool = True,
) -> Planner:
    net, seats = actor(encoder, value=True), seats_of(arena.matches, side)
    return Planner(net, encoder_named(encoder), arena, seats, budget, learns_foes)


def play_turn(planner: Planner, arena: BatchArena, side: int = 0) -> torch.Tensor:
    """A turn of the planner's team against level4; returns the values of the plan."""
    moves = torch.zeros(arena.matches, SNAKES, dtype=torch.int8)
    moves[:, side * TEAM : side * TEAM + TEAM], values = planner.plan()
    find("level4").act(arena, seats_of(arena.matches, 1 - side), moves)
    arena.play_turn(moves)
    return values


@pytest.mark.parametrize("encoder", ["features", "canonical", "planes"])
@pytest.mark.parametrize("side", [0, 1])
def test_actions_are_legal_and_the_same_again(encoder, side) -> None:
    arena = in_play(6, SEED)
    before = arena.state.clone()
    actions, values = a_planner(arena, side, encoder=encoder).plan()
    again, same_values = a_planner(arena, side, encoder=encoder).plan()
    assert torch.equal(actions, again)
    assert torch.equal(values, same_values)
    assert torch.equal(arena.state, before), "the matches themselves are left alone"
    directions = arena.state[:, DIRECTION + side * TEAM : DIRECTION + side * TEAM + TEAM]
    assert (actions != directions ^ 1).all(), "no reversal"
    assert torch.equal(values.isinf(), torch.nn.functional.one_hot((directions ^ 1).long(), 4).bool())


@pytest.mark.needs_cuda
@pytest.mark.parametrize("encoder", ["planes", "tactical"])
def test_a_gpu_plans_what_a_cpu_plans(encoder) -> None:
    """Four plans: the last ones are replays of a CUDA graph. bf16 may choose otherwise between nearly equal actions."""
    arena = in_play(64, SEED)
    twin = BatchArena(64, "cuda", seed=SEED)
    twin.start()
    for name in ("state", "keys", "numbers"):
        getattr(twin, name).copy_(getattr(arena, name))
    expected = a_planner(arena, encoder=encoder).plan()[0]
    policy, seats = actor(encoder, value=True).to("cuda"), seats_of(64, 0).to("cuda")
    planner = Planner(policy, encoder_named(encoder), twin, seats, Budget(2))
    plans = [planner.plan()[0].cpu() for _ in range(4)]
    assert all(torch.equal(plan, plans[0]) for plan in plans)
    assert (plans[0] == expected).float().mean() > 0.9, f"seed {SEED}"


def test_a_plan_does_not_know_the_beans_to_come() -> None:
    arena = in_play(8, SEED)
    actions, values = a_planner(arena).plan()
    arena.keys += 12345  # other random numbers: other beans, other respawns
    other_actions, other_values = a_planner(arena).plan()
    assert torch.equal(actions, other_actions)
    assert torch.equal(values, other_values)


def test_every_turn_has_other_random_numbers() -> None:
    arena = in_play(64, SEED)  # in some of them a bean is eaten
    planner = a_planner(arena)
    first = planner.plan()[1]
    keys = planner._sim.keys.clone()
    arena.numbers += 1
    assert not torch.equal(planner.plan()[1], first)
    assert not (planner._sim.keys == keys).any()


@pytest.mark.parametrize("side", [0, 1])
def test_replies_are_the_likeliest_joint_actions_of_the_foes(side) -> None:
    """By the mean of the models' predictions; a foe that is far from all own heads has one action."""
    arena = in_play(18, SEED)  # planned in one part
    planner = a_planner(arena, side, Budget(27, 1))
    planner.plan()
    foes = [TEAM - side * TEAM + place for place in range(TEAM)]
    probs = (planner._weights[..., None] * planner._predictions).sum(2)
    torch.testing.assert_close(probs.sum(-1), torch.ones(18, TEAM, dtype=torch.float64))
    counts = set()
    for b in range(18):
        heads = arena.state[b, HEAD : HEAD + SNAKES].tolist()
        own = [head for snake, head in enumerate(heads) if snake not in foes]
        options = []
        for place, foe in enumerate(foes):
            near = min(distance(heads[foe], head) for head in own) <= NEAR
            likeliest = int(probs[b, place].argmax())
            options.append({move: float(probs[b, place, move]) for move in range(4)} if near else {likeliest: 1.0})
        joint = {
            moves: math.prod(each[m] for each, m in zip(options, moves, strict=True)) for moves in product(*options)
        }
        expected = sorted(joint.values(), reverse=True)[:27]
        expected = [share for i, share in enumerate(expected) if share >= LEAST_SHARE or i == 0]
        found = planner._shares[b, : len(expected)]
        torch.testing.assert_close(found, torch.tensor(expected) / sum(expected), rtol=1e-4, atol=1e-6)
        assert not planner._shares[b, len(expected) :].any()
        for r, share in enumerate(expected):
            assert joint[tuple(planner._replies[b, r].tolist())] == pytest.approx(share, abs=1e-6)
        counts.add(len(expected))
    assert len(counts) > 3, f"some have more near foes than others, seed {SEED}"


def test_all_candidates_of_a_match_share_their_random_numbers() -> None:
    planner = a_planner(in_play(3, SEED))
    planner.plan()
    keys = planner._sim.keys.view(3, CANDIDATES, 2)
    assert (keys == keys[:, :1]).all()
    assert len(keys[:, 0].unique()) == 6


def test_a_batch_in_parts_plans_the_same(monkeypatch) -> None:
    arena = in_play(7, SEED)
    actions, values = a_planner(arena).plan()
    monkeypatch.setitem(module.MOST_MATCHES, "cpu", 3 * LOOKED_AGAIN * DEVIATIONS * 2)
    in_parts = a_planner(arena)
    assert in_parts._chunk == 3
    torch.testing.assert_close(in_parts.plan()[1], values, rtol=1e-4, atol=1e-4)
    assert (in_parts.plan()[0] == actions).float().mean() > 0.9, "but for ties"


def test_a_batch_in_parts_learns_the_same_about_its_foes(monkeypatch) -> None:
    """Every match has its own weights of the models, whichever part it is planned in."""
    print(f"seed {SEED}")
    arena = in_play(7, SEED)
    whole = a_planner(arena, budget=Budget(2, 1))
    monkeypatch.setitem(module.MOST_MATCHES, "cpu", 3 * CANDIDATES * 2)
    in_parts = a_planner(arena, budget=Budget(2, 1))
    for _ in range(6):
        found = in_parts.plan()[1]
        torch.testing.assert_close(found, play_turn(whole, arena), rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(in_parts._models.weights(), whole._models.weights(), rtol=1e-4, atol=1e-6)
    weights = whole._models.weights().flatten(1)
    assert (weights[:-1] - weights[-1]).abs().amax(1).min() > 1e-3, "no two alike"


@pytest.mark.parametrize("side", [0, 1])
def test_the_models_of_the_foes_learn_from_the_foes_and_begin_anew_with_the_match(side) -> None:
    print(f"seed {SEED}")
    arena = BatchArena(2, seed=SEED)
    arena.start()
    planner = a_planner(arena, side, Budget(1, 1))
    at_first = planner._models.weights().clone()
    for _ in range(12):
        play_turn(planner, arena, side)
    planner.plan()
    assert (planner._models.weights()[..., LEVEL4] > at_first[..., LEVEL4]).all()
    arena.start()
    play_turn(planner, arena, side)
    torch.testing.assert_close(planner._models.weights(), at_first)
    planner.plan()
    assert not torch.equal(planner._models.weights(), at_first)


def test_a_planner_that_does_not_learn_depends_on_the_position_alone() -> None:
    """As a run needs that goes on from a checkpoint."""
    print(f"seed {SEED}")
    arena = in_play(4, SEED)
    planner, learner = (a_planner(arena, budget=Budget(4, 1), learns_foes=learns) for learns in (False, True))
    for _ in range(6):
        learner.plan()
        play_turn(planner, arena)
    fresh = a_planner(arena, budget=Budget(4, 1), learns_foes=False).plan()[1]
    assert torch.equal(planner.plan()[1], fresh)
    assert not torch.equal(learner.plan()[1], fresh)


class ByHand:
    """The planner's worth of actions in one match, each played alone in an arena of its own, step by step."""

    def __init__(self, net, encoder, scale: ValueScale, side: int) -> None:
        self.net, self.encoder, self.scale = net, encoder, scale
        self.own, self.foes = [slice(0, TEAM), slice(TEAM, SNAKES)][:: 1 - 2 * side]

    def outputs(self, sim: BatchArena) -> tuple[torch.Tensor, torch.Tensor]:
        """Log-probabilities [6, 4] of actions on the board, and values [6, 1] or [6, 0]."""
        obs = sim.observe(self.encoder.name)[0]
        outputs = self.net.step(obs, None, None)[0].detach()
        logits = to_board_logits(mask_reversal(outputs[:, :4], obs, self.encoder), obs, self.encoder)
        return logits.log_softmax(-1), outputs[:, 4:]

    def promised(self, sim: BatchArena) -> float:
        """By the value heads; without them what three turns of the likeliest actions bring."""
        values = self.outputs(sim)[1]
        if values.shape[1]:
            return self.scale.leaf * values[self.own].sum().item()
        total = 0.0
        for turn in range(3):
            if not sim.events.over:
                likely = self.outputs(sim)[0].argmax(-1)
                sim, lead = self.played(sim, likely[self.own].tolist(), likely[self.foes].tolist())
                total += DISCOUNT**turn * lead
        return total

    def played(self, sim: BatchArena, own: list[int], foes: list[int]) -> tuple[BatchArena, float]:
        """The match one turn later, and the lead won on it."""
        after = BatchArena(1)
        after.state.copy_(sim.state)
        after.keys.copy_(sim.keys)
        actions = torch.zeros(1, SNAKES, dtype=torch.int8)
        actions[0, self.own], actions[0, self.foes] = (
            torch.tensor(own).to(torch.int8),
            torch.tensor(foes).to(torch.int8),
        )
        before = sim.state[0, LENGTH : LENGTH + SNAKES].int()
        after.play_turn(actions)
        growth = after.state[0, LENGTH : LENGTH + SNAKES].int() - before
        return after, (growth[self.own].sum() - self.scale.foes * growth[self.foes].sum()).item()

    def worth(self, sim: BatchArena, own: list[int], foes: list[int], turns: int = 1) -> float:
        after, lead = self.played(sim, own, foes)
        if after.events.over:
            return lead
        if turns == 1:
            return lead + DISCOUNT * self.promised(after)
        log_probs = self.outputs(after)[0]
        likely = log_probs[self.foes].argmax(-1).tolist()
        ranked = log_probs[self.own].argsort(-1, descending=True)[:, :3].tolist()
        joint = {tuple(r[int(s == snake) * k] for s, r in enumerate(ranked)) for snake in range(TEAM) for k in range(3)}
        assert len(joint) == DEVIATIONS
        return lead + DISCOUNT * max(
            self.worth(after, list(moves), likely)
            + PRIOR * sum(float(log_probs[self.own][s, move]) for s, move in enumerate(moves))
            for moves in joint
        )


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("value", [True, False])
@pytest.mark.parametrize("turns", [1, 2])
def test_plans_are_those_of_matches_played_one_by_one(side, turns, value) -> None:
    print(f"seed {SEED}")
    budget, encoder, net = Budget(3, turns), encoder_named("canonical"), actor("canonical", value=value)
    scale = ValueScale(1.0, 1 / 3)  # of the team's lead
    by_hand = ByHand(net, encoder, scale, side)
    changed = 0
    for seed in range(SEED, SEED + 12):
        arena = in_play(1, seed)
        planner = Planner(net, encoder, arena, seats_of(1, side), budget, scale=scale)
        actions, (values,) = planner.plan()
        replies, shares = planner._replies[0].tolist(), planner._shares[0].tolist()
        keys = planner._sim.keys.view(CANDIDATES, -1)[0]
        log_probs, state = by_hand.outputs(arena)[0][by_hand.own], arena.state[0].numpy()
        lost = [
            [is_dead_end(state, snake, action) * (int(state[LENGTH + snake]) - START_LENGTH) for action in range(4)]
            for snake in range(side * TEAM, side * TEAM + TEAM)
        ]
        prior = PRIOR * log_probs - DEAD_END * torch.tensor(lost)

        def worth(moves: tuple[int, ...], turns: int, arena=arena, keys=keys, replies=replies, shares=shares) -> float:
            total = 0.0
            shares = shares if turns == 1 else shares[:REPLIES_AGAIN]
            for key, reply, share in zip(keys, replies, shares, strict=False):
                arena.keys[:] = key
                total += share * by_hand.worth(arena, list(moves), reply, turns) if share else 0.0
            return total / sum(shares)

        ranked = prior.argsort(-1, descending=True)[:, :3].tolist()
        for snake, place in product(range(TEAM), range(3)):
            moves = tuple(r[place if s == snake else 0] for s, r in enumerate(ranked))
            expected = worth(moves, 1) + prior[snake, moves[snake]].item()
            assert values[snake, moves[snake]].item() == pytest.approx(expected, abs=1e-3)
        two_best = values.argsort(-1, descending=True)[:, :2].tolist()
        of_actions = {moves: sum(float(prior[s, m]) for s, m in enumerate(moves)) for moves in product(*two_best)}
        found = {moves: worth(moves, 1) + of_actions[moves] for moves in of_actions}
        best = max(found, key=found.get)
        if turns == 2:
            again = sorted(found, key=found.get, reverse=True)[:LOOKED_AGAIN]
            found = {moves: worth(moves, 2) + of_actions[moves] for moves in again}
            changed += max(found, key=found.get) != best
            best = max(found, key=found.get)
        assert tuple(actions[0].tolist()) == best, f"seed {seed}"
    assert (changed > 0) == (turns == 2), "a second turn changes some plans"


@pytest.mark.parametrize("budget", [Budget(8, 1), Budget(3, 2)])
def test_a_plan_is_the_same_if_positions_that_do_not_count_are_looked_at(budget) -> None:
    print(f"seed {SEED}")
    arena = in_play(12, SEED)
    planner, whole = a_planner(arena, budget=budget), a_planner(arena, budget=budget)
    looked_at = []
    observe = planner.judge._outputs
    planner.judge._outputs = lambda sim, seats: (looked_at.append(len(seats)), observe(sim, seats))[1]
    whole.judge.skips = False
    actions, values = planner.plan()
    expected, expected_values = whole.plan()
    torch.testing.assert_close(values, expected_values, rtol=1e-4, atol=1e-4)
    assert torch.equal(actions, expected), "no ties at this seed"
    roots, first, second, *again = looked_at
    most = 12 * budget.replies * TEAM
    assert roots == 12 * SNAKES
    assert 0 < first <= DEVIATIONS * most
    assert 0 < second < CANDIDATES * most, "some combinations are known from the first stage"
    if budget.turns == 2:
        positions, copies = again
        assert 0 < positions <= LOOKED_AGAIN * 2 * most
        assert 0 < copies <= LOOKED_AGAIN * DEVIATIONS * most
        assert copies == positions // 2 * DEVIATIONS, "no match ends within two turns"


class Operations(TorchDispatchMode):
    """The names of the operations that run."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        self.names.add(operation.overloadpacket.__name__)
        if operation is torch.ops.aten.index.Tensor:
            assert all(index is None or index.dtype != torch.bool for index in args[1]), "as many as are true"
        return operation(*args, **(kwargs or {}))


def test_looking_at_all_positions_waits_for_no_numbers() -> None:
    """As a CUDA graph needs: no shape and no value of a tensor is asked for."""
    planner = a_planner(in_play(4, SEED))
    waits = {"_local_scalar_dense", "nonzero", "masked_select"}
    with torch.no_grad():
        with pytest.raises(AssertionError, match="as many as are true"), Operations():
            planner._simulate_chunk()
        planner.judge.skips = False
        with Operations() as operations:
            planner._simulate_chunk()
    assert "topk" in operations.names
    assert not operations.names & waits


def test_the_last_turn_has_no_positions_to_look_at() -> None:
    arena = in_play(3, SEED)
    arena.state[:, TURN] = TURNS - 1
    planner = a_planner(arena, budget=Budget(4))
    actions, values = planner.plan()
    assert planner._sim.events.over.all()
    assert values.isfinite().sum() == 3 * TEAM * 3
    assert (actions != arena.state[:, DIRECTION : DIRECTION + TEAM] ^ 1).all()


def test_it_takes_the_bean_beside_it_and_keeps_off_bodies() -> None:
    """With a policy that knows nothing: two turns of looking ahead are enough for that."""
    bean = arena_of(
        draw("""
        ..*....
        >>A....
        """)
    )
    net = actor("features", value=False)
    for parameter in net.parameters():
        torch.nn.init.zeros_(parameter)  # all actions alike
    planner = Planner(net, encoder_named("features"), bean, seats_of(1, 0), Budget(8))
    assert planner.plan()[0][0, 0] == UP
    wall = arena_of(
        draw("""
        D<<<<<<<<
        >>>>>>A..
        """)
    )
    values = Planner(net, encoder_named("features"), wall, seats_of(1, 0), Budget(8)).plan()[1][0, 0]
    assert values[[DOWN, RIGHT]].min() > values[UP] + 2, "running into a body costs four cells of length"
