"""DDPG's update against slow formulas, and what surrounds it: targets, accumulation, clipping, precision, saving."""

import copy
import io
import math
from collections.abc import Sequence
from types import SimpleNamespace

import pytest
import torch
from helpers.collecting import CPU, a_buffer, a_copy, a_filled_buffer, a_rollout, add_weight_noise

from arena.encoders import encoder_named
from arena.rules import TEAM
from marl.config.learner_configs import DdpgConfig
from marl.config.sections import NetworkConfig
from marl.learners.adam import Adam
from marl.learners.ddpg import Ddpg
from marl.learners.precision import Precision
from marl.learners.replay_buffer import BatchRows, ReplayBuffer
from marl.learners.replay_learner import batch_turns_of
from marl.ranks.process_group import Solo

SEED = 31
BODY = NetworkConfig(body=(16, 12))
ALL_FORMS = [
    {"critic_form": form, "critic": critic, "twin": twin}
    for form in ("heads", "joined")
    for critic in ("snake", "team")
    for twin in (False, True)
]


def form_name(form: dict) -> str:
    return f"{form['critic_form']}-{form['critic']}{'-twin' * form['twin']}"


# Torch tells at length that this CPU has no bf16 products of its own.
pytestmark = pytest.mark.filterwarnings("ignore:mkldnn_matmul failed")
every_form = pytest.mark.parametrize("form", ALL_FORMS, ids=form_name)
# What does not depend on the form of the critic is tried with the plainest and the fullest.
two_forms = pytest.mark.parametrize("form", [ALL_FORMS[0], ALL_FORMS[-1]], ids=form_name)


@pytest.fixture(autouse=True)
def seed_printed():
    print(f"seed {SEED}")


@pytest.fixture(scope="module")
def filled() -> ReplayBuffer:
    """With more ends of matches than there were."""
    buffer = a_filled_buffer(SEED)
    buffer.terminated |= torch.rand(buffer.terminated.shape, generator=torch.Generator().manual_seed(SEED)) < 0.1
    return buffer


@pytest.fixture
def buffer(filled) -> ReplayBuffer:
    """A copy, so that batches are counted from 0."""
    return a_copy(filled)


class Watched:
    """The gradients of each step of a learner, before clipping: of the critic, then of the actor."""

    def __init__(self, made: Ddpg) -> None:
        self.before: list[torch.Tensor] = []
        for optimizer in made.optimizers().values():
            self._watch(optimizer)

    def _watch(self, optimizer: Adam) -> None:
        step = optimizer.step

        def watched(*arguments) -> torch.Tensor:
            self.before.append(optimizer.gradients.clone())
            return step(*arguments)

        optimizer.step = watched


def learner(
    buffer: ReplayBuffer,
    precision: Precision | str = "fp32",
    sync_freq: int = 1,
    seed: int = 3,
    **options,
) -> Ddpg:
    """A learner with noise in its weights."""
    config = DdpgConfig(
        **({"batch_size": 24, "a_lr": 1e-3, "c_lr": 1e-3, "entropy": 0.02, "max_grad_norm": 0.0} | options)
    )
    if isinstance(precision, str):
        precision = Precision(precision, CPU)
    made = Ddpg(config, BODY, buffer, Solo(CPU), precision, sync_freq, seed)
    add_weight_noise(made, seed)
    return made


def weights_of(made: Ddpg) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in made.named_weights()}


def drawn(buffer: ReplayBuffer, made: Ddpg) -> BatchRows:
    """The batch that the learner's next update will draw; the draw is not counted."""
    peek = buffer.sampler(len(made.sampler.batch.idx), made.config.n_step, made.config.gamma)
    batch = peek.draw()
    buffer.counts[1] -= 1
    return batch


# --- the slow formulas: one turn, one snake, one action after another -------------------------------------------------


def slow_dense(layer, x: torch.Tensor) -> torch.Tensor:
    return layer.weight @ x + layer.bias


def slow_first(net, obs: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return net.first.weight @ (obs.float() * scale) + net.first.bias


def slow_tail(tail, x: torch.Tensor) -> torch.Tensor:
    for layer in tail.layers:
        x = torch.relu(slow_dense(layer, x))
    return slow_dense(tail.head, x)


def slow_probs(actor, obs: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """Softmax over the three actions that are no reversal."""
    logits = slow_tail(actor.tail, torch.relu(slow_first(actor, obs, scale)))
    direction = obs[12:16].tolist().index(1)
    legal = [action for action in range(4) if action != direction ^ 1]
    powers = {action: torch.exp(logits[action]) for action in legal}
    total = sum(powers.values())
    return torch.stack([powers[action] / total if action in legal else torch.zeros(()) for action in range(4)])


def slow_value(critic, obs: torch.Tensor, probs: torch.Tensor, own: torch.Tensor, snake: int, scale) -> torch.Tensor:
    """One critic's value of snake `snake` with the probabilities `own` while its mates have theirs."""
    hidden = slow_first(critic, obs[snake], scale)
    if critic.mates is not None:
        both = 0
        for mate in range(TEAM):
            if mate != snake:
                both = both + torch.cat((slow_first(critic, obs[mate], scale), probs[mate]))
        hidden = hidden + slow_dense(critic.mates.layer, both)
    hidden = torch.relu(hidden)
    if critic.joined:
        return slow_tail(critic.tail, torch.cat((hidden, own)))[0]
    q_values = slow_tail(critic.tail, hidden)
    return sum(q_values[action] * own[action] for action in range(4))


def slow_update(made: Ddpg, batch: BatchRows) -> SimpleNamespace:
    """Losses of a batch and their gradients, by autograd of the plain formulas."""
    scale, rows = torch.from_numpy(made.encoder.scale), made.buffer.obs.flatten(0, 1)
    obs, next_obs, actions = rows[batch.idx], rows[batch.next_idx], batch.actions
    count = obs.shape[0] * TEAM
    critic_loss = actor_loss = entropy = mean_value = cross_entropy = 0
    targets = torch.zeros(obs.shape[:2])
    critics = made.critics.each
    for i in range(obs.shape[0]):
        with torch.no_grad():
            next_probs = [slow_probs(made.target_actor, next_obs[i, s], scale) for s in range(TEAM)]
        probs = [slow_probs(made.actor, obs[i, s], scale) for s in range(TEAM)]
        # Heads give the value of an action beside the mates' actions that were played; a joined critic is asked about
        # what the whole team would play now.
        mates = actions[i] if made.config.critic_form == "heads" else probs
        for s in range(TEAM):
            with torch.no_grad():
                next_values = [
                    slow_value(critic, next_obs[i], next_probs, next_probs[s], s, scale)
                    for critic in made.target_critics.each
                ]
                targets[i, s] = batch.returns[i, s] + batch.discounts[i] * min(next_values)
            for critic in critics:
                q_value = slow_value(critic, obs[i], actions[i], actions[i, s], s, scale)
                critic_loss = critic_loss + (q_value - targets[i, s]) ** 2 / count
            value = torch.stack([slow_value(critic, obs[i], mates, probs[s], s, scale) for critic in critics]).min()
            log_probs = [torch.log(prob) for prob in probs[s] if prob > 0]
            of_snake = -sum(prob * torch.log(prob) for prob in probs[s] if prob > 0)
            mean_value, entropy = mean_value + value / count, entropy + of_snake / count
            cross_entropy = cross_entropy - sum(log_probs) / len(log_probs) / count
    actor_loss = -mean_value - made.config.entropy * entropy + (made.config.uniform_kl or 0) * cross_entropy
    return SimpleNamespace(
        targets=targets,
        losses=[x.item() for x in (critic_loss, actor_loss, entropy, mean_value)],
        critic=flat(torch.autograd.grad(critic_loss, list(made.critics.parameters()), retain_graph=True)),
        actor=flat(torch.autograd.grad(actor_loss, list(made.actor.parameters()))),
    )


def flat(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    return torch.cat([tensor.flatten() for tensor in tensors])


def update(made: Ddpg) -> None:
    """An update from the learner's next batch."""
    made.update(made.sampler.draw())


# The term of the actor does not depend on the form of the critic.
@pytest.mark.parametrize(
    ("form", "uniform_kl"),
    [*((form, 0.3) for form in ALL_FORMS), (ALL_FORMS[0], None), (ALL_FORMS[-1], None)],
    ids=lambda value: form_name(value) if isinstance(value, dict) else str(value),
)
def test_an_update_is_what_the_slow_formulas_say(form, uniform_kl, buffer) -> None:
    """Losses, targets and both gradients: so the actor's loss moves no critic, and the critic's no actor."""
    made = learner(buffer, uniform_kl=uniform_kl, **form)
    watched = Watched(made)
    for _ in range(2):
        batch = drawn(buffer, made)
        assert 0 < int((batch.discounts == 0).sum()) < len(batch.discounts)
        expected = slow_update(made, batch)
        targets = made._target(batch, buffer.obs_at(batch.next_idx))
        torch.testing.assert_close(targets, expected.targets, rtol=1e-4, atol=1e-5)
        watched.before.clear()
        update(made)
        logged = made.pop_stats().tolist()
        assert logged[1:5] == pytest.approx(expected.losses, rel=1e-4, abs=1e-5)
        of_critic, of_actor = watched.before
        torch.testing.assert_close(of_actor, expected.actor, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(of_critic, expected.critic, rtol=1e-4, atol=1e-5)
        assert logged[0] == 1
        assert logged[7:] == [0, 0]  # nothing is skipped
        for norm, grads in zip(logged[5:7], (of_actor, of_critic), strict=True):
            assert norm == pytest.approx(grads.norm().item(), rel=1e-4)


@every_form
def test_each_network_is_moved_by_its_own_loss_only(form, buffer) -> None:
    still_critic, still_actor = learner(buffer, c_lr=0.0, **form), learner(buffer, a_lr=0.0, **form)
    for made, still, moved in ((still_critic, "critic", "actor"), (still_actor, "actor", "critic")):
        before = weights_of(made)
        for _ in range(3):
            update(made)
        after = weights_of(made)
        same = {name: torch.equal(before[name], after[name]) for name in before}
        assert all(same[name] for name in before if name.startswith(f"{still}."))
        assert not any(same[name] for name in before if name.startswith(f"{moved}."))


@every_form
def test_nothing_is_left_behind_by_an_update(form, buffer) -> None:
    """No gradient that the next one would add to, and critics that can learn again."""
    made = learner(buffer, **form)
    update(made)
    for net in (made.actor, made.critics):
        assert all(p.grad is None and p.requires_grad for p in net.parameters())
    assert not any(p.requires_grad for p in (*made.target_actor.parameters(), *made.target_critics.parameters()))


@pytest.mark.parametrize("tau", [0.0, 0.01, 0.3, 1.0])
def test_targets_move_by_tau(tau, buffer) -> None:
    made = learner(buffer, tau=tau, twin=True)
    for _ in range(3):
        before = weights_of(made)
        update(made)
        after = weights_of(made)
        for name in before:
            if name.startswith("target_"):
                expected = (1 - tau) * before[name] + tau * after[name.removeprefix("target_")]
                torch.testing.assert_close(after[name], expected, rtol=1e-5, atol=1e-6)


def test_targets_begin_as_copies() -> None:
    made = Ddpg(
        DdpgConfig(batch_size=24, a_lr=1e-3, c_lr=1e-3), BODY, a_buffer(8, 2), Solo(CPU), Precision("fp32", CPU)
    )
    weights = weights_of(made)
    assert len(weights) > 10
    for name, tensor in weights.items():
        if name.startswith("target_"):
            online = weights[name.removeprefix("target_")]
            assert torch.equal(tensor, online)
    assert made.target_actor.first.weight.data_ptr() != made.actor.first.weight.data_ptr()


@pytest.mark.parametrize(("batch_size", "turns"), [(1, 8), (24, 8), (25, 16), (96, 32), (1024, 344), (8192, 2736)])
def test_a_batch_takes_whole_turns_in_eights(batch_size, turns) -> None:
    assert batch_turns_of(batch_size) == turns
    assert turns * TEAM >= batch_size


# --- gradients added up -----------------------------------------------------------------------------------------------


def test_the_warmup_is_as_long_as_a_return_needs(buffer) -> None:
    assert learner(buffer, warmup_turns=1, n_step=5).warmup_turns == 6
    assert learner(buffer, warmup_turns=40, n_step=5).warmup_turns == 40


def some_batches(buffer: ReplayBuffer, count: int) -> list[BatchRows]:
    sampler = buffer.sampler(8, 3, 0.97)
    return [copy.deepcopy(sampler.draw()) for _ in range(count)]


def together(batches: list[BatchRows]) -> BatchRows:
    return BatchRows(*(torch.cat(tensors) for tensors in zip(*batches, strict=True)))


@two_forms
@pytest.mark.parametrize("sync_freq", [2, 4])
def test_small_batches_added_up_are_one_large_batch(sync_freq, form, buffer) -> None:
    batches = some_batches(buffer, sync_freq)
    a, b = learner(buffer, sync_freq=sync_freq, **form), learner(buffer, **form)
    added, at_once = Watched(a), Watched(b)
    start = weights_of(a)
    for batch in batches[:-1]:
        a.update(batch)
        assert not added.before, "no step before the last of them"
        assert all(torch.equal(tensor, start[name]) for name, tensor in a.named_weights()), "and targets wait too"
    a.update(batches[-1])
    b.update(together(batches))
    assert len(added.before) == len(at_once.before) == 2
    for mine, its in zip(added.before, at_once.before, strict=True):
        torch.testing.assert_close(mine, its, rtol=1e-4, atol=1e-6)
    for name, tensor in a.named_weights():
        if name.startswith("target_"):
            assert not torch.equal(tensor, start[name])


def test_gradients_do_not_leak_into_the_next_round(buffer) -> None:
    made = learner(buffer, sync_freq=2, a_lr=0.0, c_lr=0.0, tau=0.0)
    watched = Watched(made)
    for batch in 2 * some_batches(buffer, 2):
        made.update(batch)
    assert len(watched.before) == 4
    for first, second in zip(watched.before[:2], watched.before[2:], strict=True):
        assert torch.equal(first, second)


# --- clipping ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("most", "share"), [(0.0, 1.0), (1e6, 1.0), (1e-3, None)])
def test_gradients_are_scaled_down_to_the_norm_allowed(most, share, buffer) -> None:
    """Adam's mean of the gradients after one step is a tenth of what it went along."""
    made = learner(buffer, max_grad_norm=most)
    watched = Watched(made)
    update(made)
    norms = [gradients.norm().item() for gradients in watched.before]
    assert min(norms) > 2e-3
    optimizers = (made.critic_optimizer, made.actor_optimizer)
    for optimizer, gradients, norm in zip(optimizers, watched.before, norms, strict=True):
        expected = 0.1 * gradients * (share or most / norm)
        torch.testing.assert_close(optimizer.exp_avg, expected, rtol=1e-3, atol=1e-9)
    assert made.pop_stats()[5:7].tolist() == pytest.approx(norms[::-1], rel=1e-4)


# --- learning rates ---------------------------------------------------------------------------------------------------


def test_learning_rates_follow_the_factor(buffer) -> None:
    made = learner(buffer, a_lr=1e-3, c_lr=2e-3)
    made.anneal(0.5, 0.3)
    assert made.actor_optimizer.lr.item() == pytest.approx(5e-4)
    assert made.critic_optimizer.lr.item() == pytest.approx(1e-3)
    made.anneal(0.0, 0.0)
    before = weights_of(made)
    update(made)
    assert all(torch.equal(t, before[n]) for n, t in made.named_weights() if not n.startswith("target_"))


@pytest.mark.parametrize(("done", "share"), [(0.0, 1.0), (0.5, 0.6), (1.0, 0.2)])
def test_learning_rates_fall_in_a_straight_line_to_the_share_that_is_left(done, share, buffer) -> None:
    made = learner(buffer, a_lr=1e-3, c_lr=2e-3, lr_end=0.2)
    made.anneal(0.5, done)
    assert made.actor_optimizer.lr.item() == pytest.approx(5e-4 * share)
    assert made.critic_optimizer.lr.item() == pytest.approx(1e-3 * share)


def test_exploration_falls_with_the_episodes_and_stays_at_its_least(buffer) -> None:
    made = learner(buffer, epsilon=0.5, epsilon_speed=0.99, epsilon_min=0.05)
    assert [made.epsilon(episodes) for episodes in (0, 10, 10_000)] == pytest.approx([0.5, 0.5 * 0.99**10, 0.05])


# --- precision --------------------------------------------------------------------------------------------------------


@two_forms
@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_narrow_products_are_those_of_fp32_within_their_rounding(precision, form, buffer) -> None:
    """Outputs and the first losses; what is learned stays in fp32 and finite. (In fp16 the first steps overflow.)"""
    narrow, full = learner(buffer, precision, **form), learner(buffer, "fp32", **form)
    obs = buffer.obs[0].flatten(0, 1)
    torch.testing.assert_close(narrow.act(obs).float(), full.act(obs), rtol=0.02, atol=0.05)
    update(full)
    buffer.counts[1] = 0
    update(narrow)
    torch.testing.assert_close(narrow.pop_stats()[:5], full.pop_stats()[:5], rtol=0.02, atol=0.02)
    before = weights_of(narrow)
    for _ in range(20):
        update(narrow)
    assert torch.isfinite(narrow.pop_stats()).all()
    for name, tensor in narrow.named_weights():
        assert tensor.dtype == torch.float32
        assert not torch.equal(tensor, before[name]), f"{name} does not learn"


def test_a_step_that_overflows_in_fp16_is_left_out_and_logged_as_a_number(buffer) -> None:
    """The scale of losses is raised until a gradient overflows now and then: that is no reason to end a run."""
    precision = Precision("fp16", CPU)
    made = learner(buffer, precision)
    update(made)
    made.pop_stats()
    before = weights_of(made)
    precision._scaler.update(2.0**60)
    update(made)
    assert all(torch.equal(t, before[n]) for n, t in made.named_weights() if not n.startswith("target_"))
    logged = made.pop_stats()
    assert torch.isfinite(logged).all()
    assert logged[SKIPPED] == 1
    assert precision._scaler.get_scale() < 2.0**60, "the next one is scaled less"


# --- gradients that are not finite ------------------------------------------------------------------------------------

SKIPPED = 1 + Ddpg.LOGGED.index("updates/skipped")  # the first is the number of batches


def spoilt(made: Ddpg, number: float) -> pytest.MonkeyPatch:
    """A patch to be undone: batches whose targets have one such number."""
    draw = made.sampler.draw
    patch = pytest.MonkeyPatch()

    def spoil():
        batch = draw()
        batch.returns[0, 0] = number
        return batch

    patch.setattr(made.sampler, "draw", spoil)
    return patch


@two_forms
@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_a_step_along_a_gradient_that_is_not_finite_is_left_out_and_counted(form, number, buffer) -> None:
    made = learner(buffer, **form)
    update(made)
    made.pop_stats()
    before = weights_of(made)
    patch = spoilt(made, number)
    update(made)
    update(made)
    assert all(torch.equal(t, before[n]) for n, t in made.named_weights() if n.startswith("critic."))
    assert made.critic_optimizer.steps == 1
    logged = made.pop_stats()
    assert torch.isfinite(logged).all()
    assert logged[SKIPPED:].tolist() == [2, 2]  # since the last log, and in a row
    update(made)
    assert made.pop_stats()[SKIPPED:].tolist() == [1, 3]
    patch.undo()
    update(made)
    assert made.pop_stats()[SKIPPED:].tolist() == [0, 0]
    assert made.critic_optimizer.steps == 2
    assert all(torch.isfinite(tensor).all() for _, tensor in made.named_weights())
    assert not any(torch.equal(t, before[n]) for n, t in made.named_weights() if n.startswith("critic."))


def test_a_spoilt_batch_spoils_the_step_it_is_part_of_and_no_other(buffer) -> None:
    made = learner(buffer, sync_freq=2)
    patch = spoilt(made, float("nan"))
    update(made)  # no step yet
    patch.undo()
    before = weights_of(made)
    update(made)
    assert all(torch.equal(t, before[n]) for n, t in made.named_weights() if n.startswith("critic."))
    assert made.pop_stats()[SKIPPED:].tolist() == [1, 1]
    spoilt(made, float("nan"))
    for row in (2, 3, 4):
        update(made)
        update(made)
        assert made.pop_stats()[SKIPPED:].tolist() == [1, row], "steps in a row, whatever batches come between"


# --- the same again ---------------------------------------------------------------------------------------------------


def trained(buffer: ReplayBuffer, updates: int, seed: int = 3, **options) -> tuple[Ddpg, list[list[float]]]:
    buffer.counts[1] = 0
    made = learner(buffer, seed=seed, **options)
    losses = []
    for _ in range(updates):
        update(made)
        losses.append(made.pop_stats().tolist())
    return made, losses


@every_form
def test_the_same_seed_gives_bit_identical_losses(form, buffer) -> None:
    first, again, other = (trained(buffer, 5, seed, **form)[1] for seed in (3, 3, 4))
    assert first == again
    assert first != other


def test_whole_runs_with_one_seed_are_bit_identical() -> None:
    """Matches, actions drawn from the learning actor, batches and updates."""

    def run() -> tuple[list[list[float]], torch.Tensor]:
        rollout = a_rollout(8, turns=20, opponents=("level0", "level1"), seed=SEED)
        made = Ddpg(
            DdpgConfig(batch_size=24, a_lr=1e-3, c_lr=1e-3),
            BODY,
            rollout.buffer,
            Solo(CPU),
            Precision("fp32", CPU),
            seed=SEED,
        )
        rollout.start()
        rollout.set_mix({"level0": 0.5, "level1": 0.5})
        rollout.epsilon.fill_(0.2)
        losses = []
        for turn in range(60):
            rollout.play_turn(made.act)
            if turn > 5:
                update(made)
                losses.append(made.pop_stats().tolist())
        return losses, rollout.buffer.obs.clone()

    (losses, obs), (losses_again, obs_again) = run(), run()
    assert len(losses) == 54
    assert losses == losses_again
    assert torch.equal(obs, obs_again)


def test_first_weights_depend_on_the_seed_alone(buffer) -> None:
    torch.manual_seed(0)
    a = Ddpg(DdpgConfig(batch_size=24, a_lr=1e-3, c_lr=1e-3), BODY, buffer, Solo(CPU), Precision("fp32", CPU), seed=5)
    torch.manual_seed(1)
    b = Ddpg(DdpgConfig(batch_size=24, a_lr=1e-3, c_lr=1e-3), BODY, buffer, Solo(CPU), Precision("fp32", CPU), seed=5)
    assert all(torch.equal(x, y) for (_, x), (_, y) in zip(a.named_weights(), b.named_weights(), strict=True))


@two_forms
@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_a_learner_that_was_saved_goes_on_identically(precision, form, buffer) -> None:
    made = learner(buffer, precision, **form)
    for _ in range(4):
        update(made)
    file = io.BytesIO()
    torch.save({"weights": dict(made.named_weights()), "state": made.state_dict()}, file)
    at = buffer.counts.clone()
    file.seek(0)
    saved = torch.load(file, weights_only=True)
    other = learner(buffer, precision, seed=99, **form)
    other.load_weights(saved["weights"])
    other.load_state_dict(saved["state"])
    made.pop_stats()  # sums of what was not logged yet belong to a rank, not to the learner
    losses = []
    for each in (made, other):
        buffer.counts.copy_(at)
        losses.append([])
        for _ in range(4):
            update(each)
            losses[-1].append(each.pop_stats().tolist())
    assert losses[0] == losses[1]
    assert all(torch.equal(a, b) for (_, a), (_, b) in zip(made.named_weights(), other.named_weights(), strict=True))


def test_weights_have_names_without_wrappers(buffer) -> None:
    names = [name for name, _ in learner(buffer).named_weights()]
    assert {name.split(".")[0] for name in names} == {"actor", "critic", "target_actor", "target_critic"}
    assert len(names) == len(set(names))
    assert not [name for name in names if "module" in name]


def test_loading_weights_of_another_network_is_an_error(buffer) -> None:
    wide = Ddpg(
        DdpgConfig(batch_size=24, a_lr=1e-3, c_lr=1e-3),
        NetworkConfig(body=(32, 12)),
        buffer,
        Solo(CPU),
        Precision("fp32", CPU),
    )
    with pytest.raises(RuntimeError, match="size mismatch"):
        learner(buffer).load_weights(dict(wide.named_weights()))


def test_what_is_logged_adds_up_until_it_is_asked_for(buffer) -> None:
    losses = trained(buffer, 3)[1]
    buffer.counts[1] = 0
    again = learner(buffer)
    for _ in range(3):
        update(again)
    logged = again.pop_stats().tolist()
    assert len(logged) == 1 + len(Ddpg.LOGGED) + 1
    assert logged[0] == 3
    assert logged == pytest.approx([sum(column) for column in zip(*losses, strict=True)], rel=1e-5)
    assert not again.pop_stats().any()


def test_acting_gives_logits_without_a_graph(buffer) -> None:
    made = learner(buffer)
    obs = buffer.obs[3].flatten(0, 1)
    logits = made.act(obs)
    assert not logits.requires_grad
    torch.testing.assert_close(logits, made.actor(obs))
    assert encoder_named("features") is made.encoder


@pytest.mark.parametrize("masks_reversal", [True, False])
def test_a_reversal_has_a_probability_only_without_a_mask(masks_reversal, buffer) -> None:
    """In targets and in the actor's loss, as in the actions that are drawn."""
    config = DdpgConfig(batch_size=24, a_lr=1e-3, c_lr=1e-3)
    made = Ddpg(config, BODY, buffer, Solo(CPU), Precision("fp32", CPU), masks_reversal=masks_reversal)
    obs = buffer.obs[0]
    backwards = obs[..., 12:16].argmax(-1) ^ 1
    with torch.no_grad():
        probs = made._masked(made.actor(obs), obs).softmax(-1).gather(-1, backwards[..., None])
    assert (probs == 0).all() if masks_reversal else (probs > 0.1).all()
    update(made)
    entropy = made.pop_stats()[1 + Ddpg.LOGGED.index("policy/entropy")].item()
    actions = 3 if masks_reversal else 4
    assert entropy == pytest.approx(math.log(actions), abs=0.01), "all actions are nearly alike at first"


# --- TD3's additions --------------------------------------------------------------------------------------------------


def moved(before: dict[str, torch.Tensor], made: Ddpg) -> set[str]:
    """The networks with a weight that is not what it was."""
    return {name.partition(".")[0] for name, tensor in made.named_weights() if not torch.equal(tensor, before[name])}


@pytest.mark.parametrize("sync_freq", [1, 2])
@pytest.mark.parametrize("delay", [2, 3])
def test_only_the_last_of_the_delayed_steps_moves_actor_and_targets(delay, sync_freq, buffer) -> None:
    made = learner(buffer, sync_freq=sync_freq, policy_delay=delay, twin=True, critic="team")
    for _ in range(2):
        for step in range(delay):
            before = weights_of(made)
            for _ in range(sync_freq):
                update(made)
            everything = {"actor", "critic", "target_actor", "target_critic"}
            assert moved(before, made) == (everything if step == delay - 1 else {"critic"})
    batches, critic, actor, entropy = made.pop_stats()[:4].tolist()
    assert batches == 2 * delay * sync_freq
    assert critic > 0
    assert abs(actor) > 0
    assert 0.9 < entropy / batches < math.log(3), "the mean over the batches that move the actor"


def test_smoothed_targets_are_those_of_noisy_logits(buffer) -> None:
    made = learner(buffer, target_noise=0.7, target_noise_clip=0.9, twin=True, critic="team")
    batch = made.sampler.draw()
    noise = made._target_noise.draw().clone()
    assert 0.8 < noise.abs().max() <= 0.9
    next_obs = buffer.obs_at(batch.next_idx)
    with torch.no_grad():
        logits = made.target_actor(next_obs)
        legal = made._masked(torch.zeros_like(logits), next_obs) == 0
        powers = torch.exp(logits + noise) * legal
        probs = powers / powers.sum(-1, keepdim=True)
        values = [(critic(next_obs, probs) * probs).sum(-1) for critic in made.target_critics.each]
        expected = batch.returns + batch.discounts[:, None] * torch.minimum(*values)
    torch.testing.assert_close(made._target(batch, next_obs), expected, rtol=1e-4, atol=1e-5)
    quiet = learner(buffer, twin=True, critic="team")
    quiet.load_weights(weights_of(made))
    buffer.counts[1] = 0
    update(made)
    buffer.counts[1] = 0
    update(quiet)
    assert made.pop_stats()[1] != quiet.pop_stats()[1], "updates use it"
