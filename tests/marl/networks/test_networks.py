"""Networks and the player made of one: scaling, the torus, mates in any order, the masked reversal, matches played."""

import json
from dataclasses import replace

import pytest
import torch
from helpers.in_play import in_play
from torch import nn
from torch.nn import functional as F

from arena import BatchArena
from arena.encoders import encoder_named
from arena.encoders.orientation import LOCAL_ACTIONS
from arena.encoders.planes import PLANES
from arena.rules import COLUMNS, DIRECTION, ROWS, SNAKES
from marl.networks.actors import Actor, RecurrentActor, make_actor
from marl.networks.critics import Critic, Critics, expected_q
from marl.networks.policy import MASKED_LOGIT, build_actor, describe_actor, mask_reversal
from marl.networks.spec import NetworkSpec
from marl.networks.stems import DenseStem, TorusConvStem
from marl.storage.policy_player import PolicyPlayer
from opponents.match import play

SEED = 7
ENCODERS = ("features", "canonical", "planes")
FORMS = [(form, team) for form in ("heads", "joined") for team in (False, True)]


@pytest.fixture(autouse=True)
def seeded():
    print(f"seed {SEED}")
    torch.manual_seed(SEED)


def some_obs(encoder: str, turns: int = 20) -> torch.Tensor:
    """Observations of three snakes of 16 matches after some turns: [16, 3, W] small integers."""
    return in_play(16, SEED, turns).observe(encoder)[:, :3].contiguous()


def some_probs(obs: torch.Tensor) -> torch.Tensor:
    return torch.randn(*obs.shape[:-1], 4).softmax(-1)


# --- layers -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoder", ENCODERS)
def test_the_first_layer_reads_integers_as_scaled_floats(encoder) -> None:
    described, obs = encoder_named(encoder), some_obs(encoder)
    layer = DenseStem(described, NetworkSpec((16,)))
    nn.init.normal_(layer.bias)
    scaled = obs.double() * torch.from_numpy(described.scale).double()
    expected = scaled @ layer.weight.double().T + layer.bias.double()
    torch.testing.assert_close(layer(obs).double(), expected, rtol=1e-4, atol=1e-4)
    assert torch.equal(layer(obs), layer(obs.float())), "floats of the same numbers are read the same"


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_every_number_of_an_encoder_is_exact_in_narrow_floats(encoder, dtype) -> None:
    described = encoder_named(encoder)
    numbers = torch.arange(int(described.low.min()), int(described.high.max()) + 1)
    assert torch.equal(numbers.to(dtype).long(), numbers)


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("body", [(8,), (16, 8), (16, 12, 8)])
def test_an_actor_is_dense_layers_with_relu_between(encoder, body) -> None:
    described, obs = encoder_named(encoder), some_obs(encoder)
    actor = Actor(described, NetworkSpec(body))
    hidden = obs.float() * torch.from_numpy(described.scale)
    layers = [actor.first, *actor.tail.layers]
    assert [layer.weight.shape[0] for layer in layers] == list(body)
    for layer in layers:
        hidden = (hidden @ layer.weight.T + layer.bias).clamp(min=0)
    expected = hidden @ actor.tail.head.weight.T + actor.tail.head.bias
    assert actor(obs).shape == (16, 3, 4)
    torch.testing.assert_close(actor(obs), expected, rtol=1e-4, atol=1e-5)


def test_a_new_actor_plays_nearly_at_random() -> None:
    """Small logits at first: no action is ruled out before anything was learned."""
    actor, obs = Actor(encoder_named("features"), NetworkSpec((64, 64))), some_obs("features")
    assert actor(obs).abs().max() < 0.2


@pytest.mark.parametrize(
    "spec", [NetworkSpec((64, 64), 5), NetworkSpec((64, 64), 5, lstm_size=64)], ids=["dense", "lstm"]
)
def test_a_value_begins_much_larger_than_the_logits(spec) -> None:
    """A value of nothing but zeros would take long to learn; actions should begin nearly equal."""
    actor, obs = make_actor(encoder_named("features"), spec), some_obs("features").flatten(0, 1)
    outputs, _ = actor.step(obs, torch.ones(len(obs), dtype=torch.bool), actor.initial_state(len(obs), obs.device))
    assert outputs[:, :4].abs().max() < 0.2
    assert outputs[:, 4].std() > 20 * outputs[:, :4].std()
    head = actor.head if spec.lstm_size else actor.tail.head
    torch.testing.assert_close(head.weight.norm(dim=1), torch.tensor([0.01, 0.01, 0.01, 0.01, 1.0]))


@pytest.mark.parametrize("spec", [NetworkSpec((8, 8)), NetworkSpec((8,), channels=(4, 4))], ids=["dense", "torus"])
def test_the_scale_is_no_weight(spec) -> None:
    actor = Actor(encoder_named("planes"), spec)
    for names in (actor.state_dict(), dict(actor.named_parameters())):
        assert not [name for name in names if "scale" in name or "around" in name]


# --- the board without an edge ----------------------------------------------------------------------------------------


def slow_convolutions(stem: TorusConvStem, obs: torch.Tensor) -> torch.Tensor:
    """Torch's own convolutions with circular padding, over the scaled board: [N, rows, columns, channels]."""
    scale = torch.from_numpy(encoder_named("planes").scale).double()
    board = (obs.double() * scale)[:, : PLANES * ROWS * COLUMNS].view(-1, PLANES, ROWS, COLUMNS)
    for i, layer in enumerate(stem.convolutions):
        last = i == len(stem.convolutions) - 1
        kernel = layer.weight.double().view(len(layer.bias), 3, 3, -1).permute(0, 3, 1, 2)
        board = F.conv2d(F.pad(board, (1, 1, 1, 1), "circular"), kernel, layer.bias.double(), stride=2 if last else 1)
        board = board.relu()
    return board.permute(0, 2, 3, 1)


def by_neighbourhoods(stem: TorusConvStem, obs: torch.Tensor) -> torch.Tensor:
    """The stem as a gather: each cell's nine neighbours, the whole board as a torus, through a dense layer."""
    scale = torch.from_numpy(encoder_named("planes").scale).double()
    scaled, size = obs.double() * scale, PLANES * ROWS * COLUMNS
    board = scaled[:, :size].view(-1, PLANES, ROWS, COLUMNS).permute(0, 2, 3, 1)
    for i, layer in enumerate(stem.convolutions):
        stride = 2 if i == len(stem.convolutions) - 1 else 1
        cells = []
        for row in range(0, ROWS, stride):
            for column in range(0, COLUMNS, stride):
                around = [
                    board[:, (row + down) % ROWS, (column + right) % COLUMNS]
                    for down in (-1, 0, 1)
                    for right in (-1, 0, 1)
                ]
                cells.append((torch.cat(around, -1) @ layer.weight.double().T + layer.bias.double()).relu())
        board = torch.stack(cells, 1).view(len(obs), ROWS // stride, COLUMNS // stride, -1)
    seen = torch.cat((board.flatten(1), scaled[:, size:]), 1)
    return seen @ stem.out.weight.double().T + stem.out.bias.double()


@pytest.mark.parametrize("channels", [(6,), (4, 3, 2)])
def test_a_stem_is_what_a_gather_of_neighbourhoods_says(channels) -> None:
    stem, obs = torus_stem(channels), some_obs("planes").flatten(0, 1)[:12]
    torch.testing.assert_close(stem(obs).double(), by_neighbourhoods(stem, obs), rtol=1e-4, atol=1e-4)


def torus_stem(channels: tuple[int, ...]) -> TorusConvStem:
    stem = TorusConvStem(encoder_named("planes"), NetworkSpec((16,), channels=channels))
    for layer in (*stem.convolutions, stem.out):
        nn.init.normal_(layer.bias)
    return stem


@pytest.mark.parametrize("channels", [(6,), (5, 4), (4, 3, 2)])
def test_convolutions_go_across_the_edges_of_the_board(channels) -> None:
    stem, obs = torus_stem(channels), some_obs("planes").flatten(0, 1)
    seen = slow_convolutions(stem, obs)
    assert seen.shape == (48, ROWS // 2, COLUMNS // 2, channels[-1])
    scale = torch.from_numpy(encoder_named("planes").scale)
    scalars = (obs * scale)[:, PLANES * ROWS * COLUMNS :]
    expected = stem.out(torch.cat((seen.flatten(1).float(), scalars), 1))
    torch.testing.assert_close(stem(obs), expected, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(stem(obs.view(16, 3, -1)), expected.view(16, 3, -1), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("down", "right"), [(2, 0), (0, 2), (4, -6), (8, 18)])
def test_a_shifted_board_gives_what_the_board_gives_shifted(down, right) -> None:
    stem, obs = torus_stem((5, 4)), some_obs("planes").flatten(0, 1).float()
    seen: list[torch.Tensor] = []  # what the dense layer is shown
    stem.out.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    size = PLANES * ROWS * COLUMNS
    board = obs[:, :size].view(-1, PLANES, ROWS, COLUMNS).roll((down, right), (2, 3))
    stem(torch.cat((board.flatten(1), obs[:, size:]), 1))
    stem(obs)
    (shifted, before), cells = seen, 4 * ROWS * COLUMNS // 4
    expected = before[:, :cells].view(-1, ROWS // 2, COLUMNS // 2, 4).roll((down // 2, right // 2), (1, 2))
    torch.testing.assert_close(shifted[:, :cells], expected.flatten(1), rtol=1e-5, atol=1e-5)
    assert torch.equal(shifted[:, cells:], before[:, cells:])
    assert not torch.equal(shifted, before)


def test_actors_and_critics_may_read_the_board() -> None:
    obs, spec = some_obs("planes"), NetworkSpec((16, 8), channels=(4,))
    assert Actor(encoder_named("planes"), spec)(obs).shape == (16, 3, 4)
    critics = Critics(2, encoder_named("planes"), spec, "heads", team=True)
    assert critics(obs, some_probs(obs)).shape == (2, 16, 3, 4)


# --- messages ---------------------------------------------------------------------------------------------------------


def outputs_of(actor: nn.Module, obs: torch.Tensor) -> torch.Tensor:
    """For obs [..., W], at the first turn of their matches."""
    flat = obs.flatten(0, -2)
    is_first = torch.ones(len(flat), dtype=torch.bool)
    return actor.step(flat, is_first, actor.initial_state(len(flat), flat.device))[0].view(*obs.shape[:-1], -1)


@pytest.mark.parametrize("lstm_size", [0, 8])
@pytest.mark.parametrize("messages", [False, True])
def test_an_output_depends_on_mates_only_through_messages(messages, lstm_size) -> None:
    actor = make_actor(encoder_named("features"), NetworkSpec((16, 8), messages=messages, lstm_size=lstm_size))
    obs = some_obs("features").float().requires_grad_()
    output = outputs_of(actor, obs)[5, 1].sum()
    (of_obs,) = torch.autograd.grad(output, obs)
    depends = of_obs.abs().sum(-1) > 0
    expected = torch.zeros(16, 3, dtype=torch.bool)
    expected[5] = torch.tensor([messages, True, messages])
    assert torch.equal(depends, expected), "no other team, and the mates only through messages"


@pytest.mark.parametrize("lstm_size", [0, 8])
def test_messages_treat_mates_alike_whatever_their_order(lstm_size) -> None:
    actor = make_actor(encoder_named("features"), NetworkSpec((16, 8), messages=True, lstm_size=lstm_size))
    obs = some_obs("features")
    outputs = outputs_of(actor, obs)
    for order in ([1, 0, 2], [0, 2, 1], [2, 0, 1]):
        torch.testing.assert_close(outputs_of(actor, obs[:, order]), outputs[:, order], rtol=1e-4, atol=1e-6)


def test_teams_may_come_flat_or_apart() -> None:
    """As a rollout shows them, and as batches do."""
    actor, obs = Actor(encoder_named("features"), NetworkSpec((16, 8), messages=True)), some_obs("features")
    torch.testing.assert_close(actor(obs.flatten(0, 1)).view(16, 3, 4), actor(obs))


def test_an_lstm_makes_another_kind_of_actor() -> None:
    assert type(make_actor(encoder_named("features"), NetworkSpec((8,)))) is Actor
    assert type(make_actor(encoder_named("features"), NetworkSpec((8,), lstm_size=4))) is RecurrentActor


# --- critics ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize(("form", "team"), FORMS)
def test_critics_value_every_snake_and_differ(form, team, encoder) -> None:
    obs = some_obs(encoder)
    critics = Critics(2, encoder_named(encoder), NetworkSpec((16, 8)), form, team)
    values = critics(obs, some_probs(obs))
    assert values.shape == (2, 16, 3, 4 if form == "heads" else 1)
    assert not torch.allclose(values[0], values[1]), "two critics that are alike are one"


@pytest.mark.parametrize(("form", "team"), FORMS)
def test_a_critic_treats_snakes_alike_whatever_their_order(form, team) -> None:
    """Snakes exchanged, so are their values; a snake's mates exchanged, its value stays."""
    obs = some_obs("features")
    probs = some_probs(obs)
    critic = Critic(encoder_named("features"), NetworkSpec((16, 8)), form, team)
    values = critic(obs, probs)
    for order in ([1, 0, 2], [0, 2, 1], [2, 0, 1]):
        torch.testing.assert_close(critic(obs[:, order], probs[:, order]), values[:, order], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("form", "team"), FORMS)
def test_a_value_depends_on_what_its_critic_may_see(form, team) -> None:
    obs = some_obs("features").float()
    probs = some_probs(obs)
    critic = Critic(encoder_named("features"), NetworkSpec((16, 8)), form, team)
    obs.requires_grad_()
    probs.requires_grad_()
    of_obs, of_probs = torch.autograd.grad(
        critic(obs, probs)[:, 0].sum(), (obs, probs), materialize_grads=True, allow_unused=True
    )
    depends = [bool(of_obs[:, snake].any()) for snake in range(3)] + [
        bool(of_probs[:, snake].any()) for snake in range(3)
    ]
    own_move = form == "joined"  # heads value each own action, so they need not know which
    assert depends == [True, team, team, own_move, team, team]


def test_the_value_of_probabilities() -> None:
    probs = torch.tensor([[0.25, 0.75, 0, 0], [0, 0, 0, 1.0]])
    heads = torch.tensor([[4.0, 8, 100, 100], [1, 2, 3, 4]])
    assert expected_q(heads, probs).tolist() == [7, 4]
    assert expected_q(torch.tensor([[5.0], [6.0]]), probs).tolist() == [5, 6]
    assert expected_q(heads.expand(2, 2, 4), probs).shape == (2, 2)


# --- the policy -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("dtype", [None, torch.float32, torch.bfloat16])
def test_exactly_the_reversal_is_masked(encoder, dtype) -> None:
    arena = BatchArena(64, seed=SEED)
    arena.start()
    arena.play_turn(torch.arange(64 * SNAKES).view(64, SNAKES) % 4)
    obs = arena.observe(encoder)
    directions = arena.state[:, DIRECTION : DIRECTION + SNAKES].long()
    assert set(directions.flatten().tolist()) == {0, 1, 2, 3}
    logits = torch.randn(64, SNAKES, 4)
    masked = mask_reversal(logits, obs if dtype is None else obs.to(dtype), encoder_named(encoder))
    orientations = encoder_named(encoder).orientations(obs.flatten(0, 1)).view(64, SNAKES).long()
    reversals = torch.from_numpy(LOCAL_ACTIONS)[orientations, directions ^ 1]
    assert torch.equal(masked, logits.scatter(-1, reversals[..., None], MASKED_LOGIT))


def test_masked_actions_get_no_probability_and_no_gradient() -> None:
    obs = some_obs("features")
    logits = torch.randn(16, 3, 4, requires_grad=True)
    log_probs = mask_reversal(logits, obs, encoder_named("features")).log_softmax(-1)
    probs = log_probs.exp()
    masked = log_probs.detach() < MASKED_LOGIT / 2
    assert (masked.sum(-1) == 1).all()
    assert (probs[masked] == 0).all()
    (-(probs * log_probs).sum() + (probs * torch.randn(16, 3, 4)).sum()).backward()
    assert torch.isfinite(logits.grad).all()
    assert (logits.grad[masked] == 0).all()
    assert (logits.grad[~masked] != 0).all()


def test_bf16_logits_are_made_legal_in_full_precision() -> None:
    obs = some_obs("features")
    assert mask_reversal(torch.randn(16, 3, 4).bfloat16(), obs, encoder_named("features")).dtype == torch.float32


@pytest.mark.parametrize("encoder", ENCODERS)
def test_a_player_takes_the_likeliest_legal_move_of_its_own_seats(encoder) -> None:
    arena = BatchArena(32, seed=SEED)
    arena.start()
    arena.play_turn(torch.arange(32 * SNAKES).view(32, SNAKES) % 4)
    described = encoder_named(encoder)
    actor = Actor(described, NetworkSpec((16, 8)))
    nn.init.normal_(actor.tail.head.weight, std=5)
    seats = torch.arange(1, 32 * SNAKES, 2, dtype=torch.int32)
    moves = torch.full((32, SNAKES), -1, dtype=torch.int8)
    player = PolicyPlayer(actor, described, "team")
    player.begin(arena, seats)
    player.act(arena, seats, moves)
    assert (moves.flatten()[::2] == -1).all(), "actions of others are left alone"
    obs = arena.observe(encoder).flatten(0, 1)[seats.long()]
    local_actions = torch.from_numpy(LOCAL_ACTIONS)[described.orientations(obs).long()]
    logits = actor(obs).gather(-1, local_actions)  # of the actions on the board
    directions = arena.state[:, DIRECTION : DIRECTION + SNAKES].flatten()[seats.long()].tolist()
    for logit, direction, move in zip(logits.tolist(), directions, moves.flatten()[1::2].tolist(), strict=True):
        assert move == max((m for m in range(4) if m != direction ^ 1), key=lambda m: logit[m])
    player.close()


@pytest.mark.parametrize("encoder", ENCODERS)
def test_a_player_plays_whole_matches(encoder) -> None:
    described = encoder_named(encoder)
    a, b = (PolicyPlayer(Actor(described, NetworkSpec((8, 8))), described, name) for name in ("a", "b"))
    results = play(a, "level1", 6, seed=SEED)
    assert (results.home, results.away, results.matches) == ("a", "level1", 6)
    assert results.wins + results.draws + results.losses == 6
    assert results.turns == 6 * 200
    again = play(a, "level1", 6, seed=SEED, batch=2)
    assert (again.wins, again.home_score, again.away_score) == (results.wins, results.home_score, results.away_score)
    assert play(a, b, 2, seed=SEED).matches == 2


class TurnByTurn(PolicyPlayer):
    """Is asked for every turn: nothing is recorded."""

    bind_turn = None


@pytest.mark.needs_cuda
@pytest.mark.parametrize("spec", [NetworkSpec((16, 8)), NetworkSpec((16, 16), lstm_size=32)])
@pytest.mark.parametrize("away", ["evasive", "level2:0.1"])
def test_recorded_turns_on_a_gpu_are_those_of_a_player_who_is_asked(spec, away) -> None:
    described = encoder_named("tactical")
    actor = make_actor(described, spec)
    results = []
    for kind in (PolicyPlayer, TurnByTurn):
        found = play(kind(actor, described, "team"), away, 300, "cuda", SEED, record=True, batch=200)
        results.append(replace(found, turns_per_second=0.0))
    assert results[0] == results[1]


def test_the_description_of_an_actor_builds_it_again(monkeypatch) -> None:
    described = encoder_named("features")
    actor = Actor(described, NetworkSpec((16, 8)))
    monkeypatch.setattr(nn.init, "orthogonal_", None)  # no first weights: they would be replaced at once
    description = json.loads(json.dumps(describe_actor(described, NetworkSpec((16, 8)))))
    spec = {"body": [16, 8], "outputs": 4, "channels": [], "messages": False, "lstm_size": 0, "kind": ""}
    assert description == {"encoder": "features", "encoder_version": described.version, **spec}
    again, encoder = build_actor(description, actor.state_dict(), "here")
    assert encoder is described
    obs = some_obs("features")
    assert torch.equal(again(obs), actor(obs))
    assert not any(parameter.requires_grad for parameter in again.parameters())
