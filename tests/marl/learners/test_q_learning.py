"""VDN and QMIX: an update against slow formulas, greedy play, and what surrounds an update."""

import copy

import pytest
import torch
from helpers.collecting import CPU, a_copy, a_filled_buffer, a_rollout, add_weight_noise
from helpers.training_states import LEAGUE, small_state

from arena.rules import TEAM
from marl.config.learner_configs import QLearningConfig
from marl.config.sections import NetworkConfig
from marl.learners.adam import views_of
from marl.learners.precision import Precision
from marl.learners.q_learning import QLearning
from marl.learners.replay_buffer import ReplayBuffer
from marl.networks.policy import mask_reversal
from marl.ranks.process_group import Solo

SEED = 21
BODY = NetworkConfig(body=(16, 12))
both_mixers = pytest.mark.parametrize("mixer", ["sum", "monotonic"])
pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def filled() -> ReplayBuffer:
    """Turns of real matches, with more ends of matches than there were."""
    print(f"seed {SEED}")
    buffer = a_filled_buffer(SEED)
    buffer.terminated |= torch.rand(buffer.terminated.shape, generator=torch.Generator().manual_seed(SEED)) < 0.1
    return buffer


@pytest.fixture
def buffer(filled) -> ReplayBuffer:
    return a_copy(filled)


def learner(buffer: ReplayBuffer, sync_freq: int = 1, **options) -> QLearning:
    """A learner with noise in its weights: targets differ from the online networks."""
    config = QLearningConfig(**({"batch_size": 24, "max_grad_norm": 0.0} | options))
    made = QLearning(config, BODY, buffer, Solo(CPU), Precision("fp32", CPU), sync_freq, SEED)
    add_weight_noise(made, SEED)
    return made


def update(made: QLearning) -> None:
    """An update from the learner's next batch."""
    made.update(made.sampler.draw())


def weights_of(made: QLearning) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in made.named_weights()}


def slow_loss(made: QLearning, batch) -> torch.Tensor:
    """The loss of a batch, one turn and one snake after another."""
    losses = []
    rows = made.buffer.obs.flatten(0, 1)
    for i in range(len(batch.idx)):
        obs, next_obs = rows[batch.idx[i]].float(), rows[batch.next_idx[i]].float()
        chosen, next_chosen = [], []
        for snake in range(TEAM):
            chosen.append((made.actor(obs[snake]) * batch.actions[i, snake]).sum())
            direction = next_obs[snake, 12:16].tolist().index(1)
            legal = [action for action in range(4) if action != direction ^ 1]
            online = made.actor(next_obs[snake]).detach()
            best = max(legal, key=lambda action, online=online: online[action].item())
            next_chosen.append(made.target.actor(next_obs[snake])[best])
        if made.config.mixer == "sum":
            q_team, next_value = sum(chosen), sum(next_chosen)
        else:
            q_team = made.mixer(torch.stack(chosen)[None], obs[None])[0]
            next_value = made.target.mixer(torch.stack(next_chosen)[None], next_obs[None])[0]
        reward = sum(batch.returns[i, snake] for snake in range(TEAM))
        losses.append((q_team - (reward + batch.discounts[i] * next_value.detach())) ** 2)
    return torch.stack(losses).mean()


@both_mixers
def test_an_update_is_what_the_slow_formulas_say(mixer, buffer) -> None:
    made = learner(buffer, mixer=mixer)
    peek = buffer.sampler(made.batch_turns, made.config.n_step, made.config.gamma).draw()
    buffer.counts[1] -= 1
    assert 0 < int((peek.discounts == 0).sum()) < len(peek.discounts)
    loss = slow_loss(made, peek)
    expected = torch.autograd.grad(loss, list(made.team_q.parameters()))
    update(made)
    stats = made.pop_stats().tolist()
    assert stats[1] == pytest.approx(loss.item(), rel=1e-4)
    found = made.optimizer.gradients  # before clipping
    assert stats[3] == pytest.approx(found.norm().item(), rel=1e-4)
    for mine, its in zip(views_of(found, made.optimizer.parameters), expected, strict=True):
        torch.testing.assert_close(mine, its, rtol=1e-3, atol=3e-4)


@both_mixers
def test_every_network_learns_and_targets_follow_by_tau(mixer, buffer) -> None:
    made = learner(buffer, mixer=mixer, tau=0.25)
    before = weights_of(made)
    update(made)
    after = weights_of(made)
    assert {name.partition(".")[0] for name in after} >= {"actor", "target_actor"}
    assert ("mixer.first.weight" in after) == (mixer == "monotonic")
    for name, tensor in after.items():
        assert not torch.equal(tensor, before[name]), name
        if name.startswith("target_"):
            expected = 0.75 * before[name] + 0.25 * after[name.removeprefix("target_")]
            torch.testing.assert_close(tensor, expected, rtol=1e-5, atol=1e-6)


def test_small_batches_added_up_are_one_step(buffer) -> None:
    made = learner(buffer, sync_freq=2)
    before = weights_of(made)
    update(made)
    assert all(torch.equal(tensor, before[name]) for name, tensor in made.named_weights())
    update(made)
    assert not any(torch.equal(tensor, before[name]) for name, tensor in made.named_weights())


def test_it_plays_the_best_legal_move_or_a_random_one() -> None:
    rollout = a_rollout(32, turns=8, opponents=("level0",), seed=SEED)
    made = learner(rollout.buffer)
    rollout.start()
    rollout.set_mix({"level0": 1.0})

    def share_of_best(epsilon: float) -> float:
        rollout.epsilon.fill_(epsilon)
        rollout.play_turn(made.act)
        row = (int(rollout.buffer.counts[0]) - 1) % rollout.buffer.turns
        obs = rollout.buffer.obs[row].flatten(0, 1)
        with torch.no_grad():
            best = mask_reversal(made.actor(obs.float()), obs, made.encoder).argmax(-1)
        return (rollout.buffer.actions[row].flatten() == best).float().mean().item()

    assert share_of_best(0.0) == 1
    assert 0.2 < share_of_best(1.0) < 0.5, "one of three legal moves"


def test_past_selves_and_the_other_side_play_their_best_moves() -> None:
    words = ["--algo", "vdn", *LEAGUE, "--self_play", "0.25", "--no-learn_both_sides", "--turns", "2", "--updates", "1"]
    state = small_state(*words, "--buffer_size", "2000", "--warmup_turns", "4")
    state.rollout.arena.start()
    assert len(state.frozen_seats) > 1
    chosen = []
    for _ in range(2):  # drawn moves would depend on the turn alone, so that the same turn is played again
        for frozen in state.frozen_seats:
            with torch.no_grad():
                for parameter in frozen.actor.parameters():
                    parameter.zero_()
                frozen.actor.tail.head.bias.copy_(torch.tensor([0.0, 0.2, 0.1, 0.3]))
            frozen.play()
        chosen.append(copy.deepcopy(state.rollout.board_actions))
        state.rollout.arena.keys += 1  # other draws
    assert torch.equal(*chosen)


@pytest.mark.parametrize(("done", "share"), [(0.0, 1.0), (0.5, 0.6), (1.0, 0.2)])
def test_the_learning_rate_falls_in_a_straight_line(done, share, buffer) -> None:
    made = learner(buffer, q_lr=1e-3, lr_end=0.2)
    made.anneal(0.5, done)
    assert made.optimizer.lr.item() == pytest.approx(5e-4 * share)
    assert made.lrs == {"lr/q": pytest.approx(5e-4 * share)}
    assert (made.lr_text(), made.lower_lr_flags()) == ("0.001", "--q_lr 0.0003")


def test_a_saved_learner_goes_on_as_if_it_had_not_been_saved(buffer) -> None:
    made, again = learner(buffer, mixer="monotonic"), learner(buffer, mixer="monotonic")
    for _ in range(3):
        update(made)
    state, weights = copy.deepcopy(made.state_dict()), weights_of(made)
    update(made)
    again.load_weights(weights)
    again.load_state_dict(state)
    update(again)
    for name, tensor in again.named_weights():
        assert torch.equal(tensor, dict(made.named_weights())[name]), name
