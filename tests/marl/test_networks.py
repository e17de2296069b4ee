"""Networks and the player made of one: scaling, mates in any order, the barred reversal, matches played."""

import pytest
import torch
from torch import nn

from arena import BatchArena
from arena.batch import encoder_named
from arena.rules import DIRECTION, SNAKES
from marl.networks import Actor, Critic, Critics, FirstLayer, value_of
from marl.policy import BARRED, PolicyPlayer, about, legal
from opponents.match import play

SEED = 7
ENCODERS = ("features", "planes")
FORMS = [(form, team) for form in ("heads", "joined") for team in (False, True)]


@pytest.fixture(autouse=True)
def seeded():
    print(f"seed {SEED}")
    torch.manual_seed(SEED)


def some_rows(encoder: str, turns: int = 20) -> torch.Tensor:
    """What three snakes of 16 matches see after some turns: [16, 3, W] small integers."""
    arena = BatchArena(16, seed=SEED)
    arena.start()
    generator = torch.Generator().manual_seed(SEED)
    for _ in range(turns):
        arena.play_turn(torch.randint(0, 4, (16, SNAKES), generator=generator))
    return arena.observe(encoder)[:, :3].contiguous()


def some_shares(rows: torch.Tensor) -> torch.Tensor:
    return torch.randn(*rows.shape[:-1], 4).softmax(-1)


# --- layers -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoder", ENCODERS)
def test_the_first_layer_reads_integers_as_scaled_floats(encoder) -> None:
    described, rows = encoder_named(encoder), some_rows(encoder)
    layer = FirstLayer(described, 16)
    nn.init.normal_(layer.bias)
    scaled = rows.double() * torch.from_numpy(described.scale).double()
    expected = scaled @ layer.weight.double().T + layer.bias.double()
    torch.testing.assert_close(layer(rows).double(), expected, rtol=1e-4, atol=1e-4)
    assert torch.equal(layer(rows), layer(rows.float())), "floats of the same numbers are read the same"


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_every_number_of_an_encoder_is_exact_in_narrow_floats(encoder, dtype) -> None:
    described = encoder_named(encoder)
    numbers = torch.arange(int(described.low.min()), int(described.high.max()) + 1)
    assert torch.equal(numbers.to(dtype).long(), numbers)


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("body", [(8,), (16, 8), (16, 12, 8)])
def test_an_actor_is_dense_layers_with_relu_between(encoder, body) -> None:
    described, rows = encoder_named(encoder), some_rows(encoder)
    actor = Actor(described, body)
    hidden = rows.float() * torch.from_numpy(described.scale)
    layers = [actor.first, *actor.tail.layers]
    assert [layer.weight.shape[0] for layer in layers] == list(body)
    for layer in layers:
        hidden = (hidden @ layer.weight.T + layer.bias).clamp(min=0)
    expected = hidden @ actor.tail.head.weight.T + actor.tail.head.bias
    assert actor(rows).shape == (16, 3, 4)
    torch.testing.assert_close(actor(rows), expected, rtol=1e-4, atol=1e-5)


def test_a_new_actor_plays_nearly_at_random() -> None:
    """Small logits at first: no move is ruled out before anything was learnt."""
    actor, rows = Actor(encoder_named("features"), (64, 64)), some_rows("features")
    assert actor(rows).abs().max() < 0.2


def test_the_scale_is_no_weight() -> None:
    actor = Actor(encoder_named("features"), (8, 8))
    assert not [name for name in actor.state_dict() if "scale" in name]
    assert not [name for name, _ in actor.named_parameters() if "scale" in name]


# --- critics ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize(("form", "team"), FORMS)
def test_critics_answer_for_every_snake_and_differ(form, team, encoder) -> None:
    rows = some_rows(encoder)
    critics = Critics(2, encoder_named(encoder), (16, 8), form, team)
    values = critics(rows, some_shares(rows))
    assert values.shape == (2, 16, 3, 4 if form == "heads" else 1)
    assert not torch.allclose(values[0], values[1]), "two critics that are alike are one"


@pytest.mark.parametrize(("form", "team"), FORMS)
def test_a_critic_treats_snakes_alike_whatever_their_order(form, team) -> None:
    """Snakes exchanged, so are their values; a snake's mates exchanged, its value stays."""
    rows = some_rows("features")
    shares = some_shares(rows)
    critic = Critic(encoder_named("features"), (16, 8), form, team)
    values = critic(rows, shares)
    for order in ([1, 0, 2], [0, 2, 1], [2, 0, 1]):
        torch.testing.assert_close(critic(rows[:, order], shares[:, order]), values[:, order], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("form", "team"), FORMS)
def test_a_value_rests_on_what_its_critic_may_see(form, team) -> None:
    rows = some_rows("features").float()
    shares = some_shares(rows)
    critic = Critic(encoder_named("features"), (16, 8), form, team)
    rows.requires_grad_()
    shares.requires_grad_()
    of_rows, of_shares = torch.autograd.grad(
        critic(rows, shares)[:, 0].sum(), (rows, shares), materialize_grads=True, allow_unused=True
    )
    rests = [bool(of_rows[:, snake].any()) for snake in range(3)] + [
        bool(of_shares[:, snake].any()) for snake in range(3)
    ]
    own_move = form == "joined"  # heads answer for each own move, so they need not be told which
    assert rests == [True, team, team, own_move, team, team]


def test_the_value_of_shares() -> None:
    shares = torch.tensor([[0.25, 0.75, 0, 0], [0, 0, 0, 1.0]])
    heads = torch.tensor([[4.0, 8, 100, 100], [1, 2, 3, 4]])
    assert value_of(heads, shares).tolist() == [7, 4]
    assert value_of(torch.tensor([[5.0], [6.0]]), shares).tolist() == [5, 6]
    assert value_of(heads.expand(2, 2, 4), shares).shape == (2, 2)


# --- the policy -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("dtype", [None, torch.float32, torch.bfloat16])
def test_exactly_the_reversal_is_barred(encoder, dtype) -> None:
    arena = BatchArena(64, seed=SEED)
    arena.start()
    arena.play_turn(torch.arange(64 * SNAKES).view(64, SNAKES) % 4)
    rows = arena.observe(encoder)
    directions = arena.state[:, DIRECTION : DIRECTION + SNAKES].long()
    assert set(directions.flatten().tolist()) == {0, 1, 2, 3}
    logits = torch.randn(64, SNAKES, 4)
    barred = legal(logits, rows if dtype is None else rows.to(dtype), encoder_named(encoder))
    expected = logits.scatter(-1, (directions ^ 1)[..., None], BARRED)
    assert torch.equal(barred, expected)


def test_barred_moves_get_no_share_and_no_gradient() -> None:
    rows = some_rows("features")
    logits = torch.randn(16, 3, 4, requires_grad=True)
    log_shares = legal(logits, rows, encoder_named("features")).log_softmax(-1)
    shares = log_shares.exp()
    barred = log_shares.detach() < BARRED / 2
    assert (barred.sum(-1) == 1).all()
    assert (shares[barred] == 0).all()
    (-(shares * log_shares).sum() + (shares * torch.randn(16, 3, 4)).sum()).backward()
    assert torch.isfinite(logits.grad).all()
    assert (logits.grad[barred] == 0).all()
    assert (logits.grad[~barred] != 0).all()


def test_bf16_logits_are_made_legal_in_full_precision() -> None:
    rows = some_rows("features")
    assert legal(torch.randn(16, 3, 4).bfloat16(), rows, encoder_named("features")).dtype == torch.float32


@pytest.mark.parametrize("encoder", ENCODERS)
def test_a_player_takes_the_likeliest_legal_move_of_its_own_seats(encoder) -> None:
    arena = BatchArena(32, seed=SEED)
    arena.start()
    arena.play_turn(torch.arange(32 * SNAKES).view(32, SNAKES) % 4)
    described = encoder_named(encoder)
    actor = Actor(described, (16, 8))
    nn.init.normal_(actor.tail.head.weight, std=5)
    seats = torch.arange(1, 32 * SNAKES, 2, dtype=torch.int32)
    moves = torch.full((32, SNAKES), -1, dtype=torch.int8)
    player = PolicyPlayer(actor, described, "team")
    player.begin(arena, seats)
    player.act(arena, seats, moves)
    assert (moves.flatten()[::2] == -1).all(), "moves of others are left alone"
    logits = actor(arena.observe(encoder).flatten(0, 1)[seats.long()])
    directions = arena.state[:, DIRECTION : DIRECTION + SNAKES].flatten()[seats.long()].tolist()
    for logit, direction, move in zip(logits.tolist(), directions, moves.flatten()[1::2].tolist(), strict=True):
        assert move == max((m for m in range(4) if m != direction ^ 1), key=lambda m: logit[m])
    player.close()


@pytest.mark.parametrize("encoder", ENCODERS)
def test_a_player_plays_whole_matches(encoder) -> None:
    described = encoder_named(encoder)
    a, b = (PolicyPlayer(Actor(described, (8, 8)), described, name) for name in ("a", "b"))
    results = play(a, "level1", 6, seed=SEED)
    assert (results.home, results.away, results.matches) == ("a", "level1", 6)
    assert results.wins + results.draws + results.losses == 6
    assert results.turns == 6 * 200
    again = play(a, "level1", 6, seed=SEED, batch=2)
    assert (again.wins, again.home_score, again.away_score) == (results.wins, results.home_score, results.away_score)
    assert play(a, b, 2, seed=SEED).matches == 2


def test_what_is_told_about_an_actor_builds_it_again() -> None:
    described = encoder_named("features")
    actor = Actor(described, (16, 8))
    told = about(described, (16, 8))
    assert told == {"encoder": "features", "encoder_version": described.version, "body": [16, 8]}
    Actor(encoder_named(told["encoder"]), told["body"]).load_state_dict(actor.state_dict())
