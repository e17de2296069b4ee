"""PPO's round of updates against slow formulas, and what surrounds it: minibatches, schedules, the KL stop, precision,
the golden curve, the command line. The loss alone is tested in test_ppo_loss.py."""

import copy
import io
import json
from types import SimpleNamespace

import pytest
import torch
import yaml
from helpers import golden_ppo
from helpers.command import assert_one_line
from helpers.ppo_rounds import a_ppo, batches_of, begin, means, play, same_weights, weights_of
from helpers.training import SMOKE, here, logged, manifest, the_run

from arena.encoders.features import F_DIRECTION, F_TURNS_LEFT
from arena.rules import ACTIONS, TEAM, TURNS
from marl.config.autoscale import resolve
from marl.config.learner_configs import PpoConfig
from marl.config.train_config import TrainConfig
from marl.errors import UserError
from marl.learners.adam import views_of
from marl.learners.ppo import KL, Ppo
from marl.rollout.assignment import MatchAssignment
from marl.rollout.rollout import Rollout

SEED = 23
CPU = torch.device("cpu")
SKIPPED = 1 + Ppo.LOGGED.index("updates/skipped")
# Torch tells at length that this CPU has no bf16 products of its own.
pytestmark = [
    pytest.mark.usefixtures("one_thread"),
    pytest.mark.filterwarnings("ignore:mkldnn_matmul failed"),
]
both_kinds = pytest.mark.parametrize("recurrent", [False, True], ids=["mlp", "lstm"])


class Watched:
    """Weights and gradients before each step of a learner, flat and before clipping."""

    def __init__(self, learner: Ppo) -> None:
        self.weights: list[torch.Tensor] = []
        self.gradients: list[torch.Tensor] = []
        optimizer, step = learner.optimizer, learner.optimizer.step

        def watched(*arguments) -> torch.Tensor:
            self.weights.append(optimizer.weights.clone())
            self.gradients.append(optimizer.gradients.clone())
            return step(*arguments)

        optimizer.step = watched


def a_round(**options) -> tuple[Ppo, Rollout]:
    """A learner that has just played, with matches that ended on the way."""
    learner, rollout = a_ppo(**({"seed": SEED, "spread": 0.2, "matches": 16, "turns": 16} | options))
    begin(rollout)
    if learner.recurrent:
        play(learner, rollout)  # so that hidden states are not zero
    learner.before = {name: tensor.clone() for name, tensor in learner.rank_state().items()}
    play(learner, rollout)
    assert learner.buffer.terminated[:-1].any(), "no match ended within the round"
    return learner, rollout


# --- the slow formulas


class Slow:
    """What a round should do, from observations, actions, rewards and ends of matches. In double, by autograd."""

    def __init__(self, learner: Ppo, rollout: Rollout) -> None:
        buffer = learner.buffer
        self.config, self.learner = learner.config, learner
        self.obs, self.actions = buffer.obs.clone(), buffer.actions.long()
        self.rewards, self.terminated = buffer.rewards.double(), buffer.terminated.clone()
        self.first_hidden = learner.before["memory"].double() if learner.recurrent else None
        self.last_obs = rollout.observe().view(buffer.teams, TEAM, -1).clone()
        self.masks_reversal = rollout.masks_reversal
        with torch.no_grad():
            outputs, last = self.outputs(self.network(learner.optimizer.weights))
            self.old_log_probs = self.log_probs(outputs).gather(-1, self.actions[..., None])[..., 0]
            self.old_values = outputs[..., ACTIONS]
        self.estimate(torch.cat((self.old_values, last[None, ..., ACTIONS])))

    def network(self, weights: torch.Tensor) -> torch.nn.Module:
        net = copy.deepcopy(self.learner.actor).double()
        parameters = list(net.parameters())
        for parameter, tensor in zip(parameters, views_of(weights, parameters), strict=True):
            parameter.data.copy_(tensor)
        return net

    def outputs(self, net) -> tuple[torch.Tensor, torch.Tensor]:
        """Of all turns [T, G, 3, 5], and of the turn after them. The observed turns left show a match's first turn."""
        every = torch.cat((self.obs, self.last_obs[None]))
        if self.first_hidden is None:
            outputs = net(every)
        else:
            is_first = every[..., F_TURNS_LEFT] == TURNS // 2
            assert torch.equal(is_first[1:-1, :, 0], self.terminated[:-1])
            hidden, outputs = self.first_hidden, []
            for obs, first in zip(every, is_first, strict=True):
                of_turn, hidden = net.step(obs.flatten(0, 1), first.flatten(), hidden)
                outputs.append(of_turn.view(*obs.shape[:2], -1))
            outputs = torch.stack(outputs)
        return outputs[:-1], outputs[-1]

    def log_probs(self, outputs: torch.Tensor) -> torch.Tensor:
        logits = outputs[..., :ACTIONS]
        if self.masks_reversal:
            up, down, left, right = self.obs[..., F_DIRECTION : F_DIRECTION + 4].bool().unbind(-1)
            logits = logits.masked_fill(torch.stack((down, up, right, left), -1), -torch.inf)
        return logits.log_softmax(-1)

    def estimate(self, values: torch.Tensor) -> None:
        """Advantages as discounted sums of all TD errors up to the end of the match."""
        gamma, gae_lambda = self.config.gamma, self.config.gae_lambda
        nonterminal = 1 - self.terminated.double()[..., None]
        deltas = self.rewards + gamma * nonterminal * values[1:] - values[:-1]
        self.advantages = torch.zeros_like(deltas)
        for t in range(len(deltas)):
            weight = torch.ones_like(nonterminal[0])
            for later in range(t, len(deltas)):
                self.advantages[t] += weight * deltas[later]
                weight = weight * gamma * gae_lambda * nonterminal[later]
        self.returns = self.advantages + values[:-1]
        self.mean, self.deviation = self.advantages.mean(), self.advantages.std(correction=0)

    def update(self, weights) -> SimpleNamespace:
        """Losses of the whole round as one batch, and their gradient by the weights."""
        config, net = self.config, self.network(weights)
        outputs, _ = self.outputs(net)
        log_probs = self.log_probs(outputs)
        legal = ~log_probs.isinf()
        finite = log_probs.masked_fill(~legal, 0)
        entropy = -(log_probs.exp() * finite).sum(-1)
        # KL(uniform || policy), up to the constant log of the number of legal actions.
        uniform_kl = -finite.sum(-1) / legal.sum(-1)
        log_ratio = log_probs.gather(-1, self.actions[..., None])[..., 0] - self.old_log_probs
        ratio = log_ratio.exp()
        advantage = (self.advantages - self.mean) / self.deviation
        policy = -torch.minimum(ratio * advantage, ratio.clamp(1 - config.clip, 1 + config.clip) * advantage)
        value = outputs[..., ACTIONS]
        error = (value - self.returns).square()
        if config.value_clip:
            near = self.old_values + (value - self.old_values).clamp(-config.value_clip, config.value_clip)
            error = torch.maximum(error, (near - self.returns).square())
        regulariser = (config.uniform_kl or 0) * uniform_kl - config.entropy * entropy
        loss = (policy + config.value_weight * error / 2 + regulariser).mean()
        kl, clipped = ratio - 1 - log_ratio, ((ratio - 1).abs() > config.clip).double()
        return SimpleNamespace(
            gradients=torch.cat([each.flatten() for each in torch.autograd.grad(loss, list(net.parameters()))]),
            stats=[each.mean().item() for each in (policy, error / 2, entropy, kl, clipped)],
        )


FORMS = {
    "plain": {},
    "value_clip": {"value_clip": 0.05},
    "entropy": {"entropy": 0.5, "value_weight": 0.1},
    "uniform_kl": {"uniform_kl": 0.5},
    "uniform_kl_and_reversals": {"uniform_kl": 0.02, "masks_reversal": False},
    "narrow_clip": {"clip": 0.01, "lr": 3e-2},
    "discounts": {"gamma": 0.5, "gae_lambda": 0.3},
    "to_the_end": {"gamma": 1.0, "gae_lambda": 1.0},
    "reversals": {"masks_reversal": False},
    "messages": {"messages": True},
    "both_sides": {"matches": MatchAssignment(16, self_play_both=(0, 1, 6, 7))},
    "clipped_gradients": {"max_grad_norm": 1e-3},
    "lstm": {"recurrent": True},
    "lstm_messages_value_clip": {"recurrent": True, "messages": True, "value_clip": 0.05},
    "lstm_uniform_kl": {"recurrent": True, "uniform_kl": 0.5},
}


@pytest.mark.parametrize("form", FORMS)
def test_a_round_is_what_the_slow_formulas_say(form, monkeypatch) -> None:
    """Three epochs of one minibatch: probabilities move away from those that were played, and ratios are clipped."""
    learner, rollout = a_round(**({"epochs": 3, "lr": 1e-2} | FORMS[form]))
    watched, slow = Watched(learner), Slow(learner, rollout)
    batches = batches_of(learner, monkeypatch)
    learner.learn()
    stats = means(batches)
    normalised = (slow.advantages - slow.mean) / slow.deviation
    torch.testing.assert_close(learner.buffer.advantages, normalised.float(), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(learner.buffer.returns, slow.returns.float(), rtol=1e-4, atol=1e-5)
    assert len(watched.gradients) == learner.updates == 3
    for step, (weights, found) in enumerate(zip(watched.weights, watched.gradients, strict=True)):
        expected = slow.update(weights)
        assert stats[step] == pytest.approx(expected.stats, rel=1e-4, abs=2e-6), step
        torch.testing.assert_close(found, expected.gradients.float(), rtol=1e-3, atol=1e-5)
    assert stats[0][KL] == pytest.approx(0, abs=1e-6)
    assert stats[-1][KL] > 1e-4
    # What is logged: sums over the minibatches, with the norm before clipping.
    sums = learner.pop_stats().tolist()
    norms = sum(gradients.norm().item() for gradients in watched.gradients)
    expected = [3, *(sum(column) for column in zip(*stats, strict=True)), norms, 0, 0]
    assert sums == pytest.approx(expected, rel=1e-4, abs=1e-6)
    assert not learner.pop_stats().any()
    assert_adam(watched, learner.optimizer.weights, learner.config)


def assert_adam(watched: Watched, end: torch.Tensor, config: PpoConfig) -> None:
    """Every step is Adam's along the clipped gradient."""
    first = second = torch.zeros_like(end, dtype=torch.double)
    after = [*watched.weights[1:], end]
    for step, (weights, gradient, moved) in enumerate(zip(watched.weights, watched.gradients, after, strict=True), 1):
        gradient = gradient.double()
        if config.max_grad_norm:
            gradient = gradient * min(1.0, config.max_grad_norm / gradient.norm().item())
        first, second = 0.9 * first + 0.1 * gradient, 0.999 * second + 0.001 * gradient.square()
        mean, square = first / (1 - 0.9**step), second / (1 - 0.999**step)
        expected = weights - config.lr * mean / (square.sqrt() + 1e-8)
        torch.testing.assert_close(moved, expected.float(), rtol=1e-5, atol=1e-3 * config.lr)


@both_kinds
def test_nothing_is_left_behind_by_a_round(recurrent) -> None:
    """No gradient that the next one would add to."""
    learner, _ = a_round(recurrent=recurrent)
    learner.learn()
    assert all(p.grad is None for p in learner.actor.parameters())


# --- batches

BATCHES = [
    # teams, turns, snake turns in a batch, batches added up -> batches of an epoch, turns of teams in each
    ((8, 6, 10**9, 1), (1, 48)),
    ((8, 6, 72, 1), (2, 24)),
    ((8, 6, 36, 1), (4, 12)),
    ((8, 6, 30, 1), (5, 9)),  # three are left out
    ((8, 6, 36, 3), (3, 16)),  # whole steps
    ((8, 6, 144, 4), (4, 12)),
    ((8, 6, 1, 1), (48, 1)),
]
SEQUENCES = [
    ((8, 6, 10**9, 1), (1, 48)),
    ((8, 6, 72, 1), (2, 24)),
    ((8, 6, 48, 1), (3, 12)),  # two teams are left out
    ((8, 6, 48, 2), (2, 24)),
    ((8, 6, 1, 1), (8, 6)),  # no less than a team with all its turns
]


@pytest.mark.parametrize(
    ("recurrent", "sizes", "expected"),
    [*((False, *case) for case in BATCHES), *((True, *case) for case in SEQUENCES)],
)
def test_batches_of_an_epoch_are_disjoint_and_leave_out_a_remainder_at_the_most(
    recurrent, sizes, expected, monkeypatch
) -> None:
    teams, turns, size, sync_freq = sizes
    learner, rollout = a_ppo(
        teams, turns, seed=SEED, batch_size=size, sync_freq=sync_freq, epochs=3, recurrent=recurrent
    )
    begin(rollout)
    play(learner, rollout)
    seen = batches_of(learner, monkeypatch)
    learner.learn()
    seen = [batch["idx"].tolist() for batch in seen]
    batches, rows = expected
    assert (learner.minibatches.batches, learner.batch_turns, learner.updates) == (batches, rows, 3 * batches)
    assert [len(batch) for batch in seen] == [rows] * 3 * batches
    epochs = [seen[i : i + batches] for i in range(0, len(seen), batches)]
    for epoch in epochs:
        together = [at for batch in epoch for at in batch]
        assert len(set(together)) == len(together) == batches * rows
        assert set(together) <= set(range(teams * turns))
        assert teams * turns - len(together) < batches * (turns if recurrent else 1)
    if batches > 1:
        assert [*map(set, epochs[0])] != [*map(set, epochs[1])], "every epoch is dealt out anew"
    if recurrent:
        for batch in seen:
            whole = {at % teams for at in batch}
            assert sorted(batch) == sorted(t * teams + g for t in range(turns) for g in whole)
    assert learner.buffer.counts.tolist() == [turns, 3]


@both_kinds
@pytest.mark.parametrize("sync_freq", [2, 4])
def test_batches_added_up_are_one_large_batch(recurrent, sync_freq, monkeypatch) -> None:
    """One step, whose gradient is that of all of them together."""
    whole, _ = a_round(recurrent=recurrent)
    parts, _ = a_round(recurrent=recurrent, sync_freq=sync_freq)
    of_all, added = Watched(whole), Watched(parts)
    assert (whole.minibatches.batches, parts.minibatches.batches) == (1, sync_freq)
    before = weights_of(parts)
    weights, update = [], parts.update
    monkeypatch.setattr(parts, "update", lambda items: (weights.append(weights_of(parts)), update(items)))
    whole.learn()
    parts.learn()
    assert len(weights) == sync_freq
    assert len(of_all.gradients) == len(added.gradients) == 1
    assert all(same_weights(before, now) for now in weights), "no step before the last of them"
    torch.testing.assert_close(added.gradients[0], of_all.gradients[0], rtol=1e-3, atol=1e-6)
    found, expected = parts.pop_stats(), whole.pop_stats()
    torch.testing.assert_close(found / found[0], expected, rtol=1e-3, atol=1e-5)


def test_gradients_do_not_leak_into_the_next_step() -> None:
    learner, _ = a_round(sync_freq=2, epochs=2, lr=0.0)
    watched = Watched(learner)
    learner.learn()
    assert len(watched.gradients) == 2
    torch.testing.assert_close(*watched.gradients, rtol=1e-3, atol=1e-6)  # other halves of the same


# --- schedules


@pytest.mark.parametrize(
    ("factor", "share", "rate", "entropy"),
    [(1.0, 0.0, 2e-3, 0.04), (1.0, 0.5, 1.2e-3, 0.03), (1.0, 1.0, 4e-4, 0.02), (0.5, 1.0, 2e-4, 0.02)],
)
def test_learning_rate_and_entropy_fall_in_a_straight_line(factor, share, rate, entropy) -> None:
    learner, _ = a_ppo(2, 1, lr=2e-3, lr_end=0.2, entropy=0.04, entropy_end=0.02, uniform_kl=0.08)
    learner.anneal(factor, share)
    assert learner.optimizer.lr.item() == pytest.approx(rate)
    assert learner.lrs == {"lr/actor": pytest.approx(rate)}
    assert learner.coefs.regularisers.tolist() == pytest.approx([entropy, 0.08 * (1 - share)])


def test_an_update_follows_the_schedules() -> None:
    """What anneal() sets is what the next round is made with."""
    options = {"lr": 1e-2, "lr_end": 0.1, "entropy": 0.9, "entropy_end": 0.3}
    late, _ = a_round(**options)
    late.anneal(0.5, 0.5)
    fixed, _ = a_round(**options | {"lr": 0.5 * 0.55e-2, "entropy": 0.6})
    begun, _ = a_round(**options)
    for learner in (late, fixed, begun):
        learner.learn()
    expected = weights_of(fixed)
    for name, tensor in weights_of(late).items():
        torch.testing.assert_close(tensor, expected[name], rtol=0, atol=1e-6)
    assert not same_weights(weights_of(begun), weights_of(fixed))


# --- the KL stop


def kl_round(patch: pytest.MonkeyPatch, target: float, recurrent: bool) -> tuple[Ppo, Watched, list[float], list[int]]:
    """A learner after two rounds, the KL of each minibatch of the first one, and the steps of both."""
    learner, rollout = a_round(recurrent=recurrent, epochs=3, batch_size=16 * 16, lr=2e-2, target_kl=target)
    assert learner.minibatches.batches == 3
    watched, batches = Watched(learner), batches_of(learner, patch)
    learner.learn()
    kls, steps = [stats[KL] for stats in means(batches)], steps_of(learner)
    learner.after_one = weights_of(learner)
    play(learner, rollout)
    learner.learn()
    return learner, watched, kls, [steps, steps_of(learner) - steps]


def steps_of(learner: Ppo) -> int:
    return int(learner.optimizer.steps)


@pytest.mark.parametrize(
    ("kls", "target", "steps"), [((1.0, 0.0), 0.4, 0), ((0.0, 1.0), 0.4, 0), ((1.0, 0.0), 0.6, 2), ((0.0, 1.0), 0.6, 2)]
)
def test_batches_added_up_are_asked_together_how_far_the_policy_has_moved(kls, target, steps, monkeypatch) -> None:
    """By the mean of what they say: that of one of them alone is another."""
    learner, _ = a_round(sync_freq=2, epochs=2, target_kl=target)
    said, gradients = iter(2 * kls), learner.gradients

    def say(items: torch.Tensor) -> torch.Tensor:
        stats = gradients(items)
        stats[KL] = next(said)
        return stats

    monkeypatch.setattr(learner, "gradients", say)
    learner.learn()
    assert steps_of(learner) == steps


@both_kinds
def test_once_the_policy_has_moved_too_far_the_rest_of_the_round_changes_nothing(recurrent, monkeypatch) -> None:
    free, _, kls, steps = kl_round(monkeypatch, 0.0, recurrent)
    assert (len(kls), steps) == (9, [9, 9])
    assert kls[0] == pytest.approx(0, abs=1e-6)
    target = 0.5 * max(kls)
    stops = next(i for i, kl in enumerate(kls) if kl > target)
    assert 1 <= stops < 8
    limited, watched, found, steps = kl_round(monkeypatch, target, recurrent)
    assert (len(found), found[: stops + 1]) == (9, kls[: stops + 1]), "up to there nothing is different"
    assert steps[0] == stops, "the batch that shows it is not learned from either"
    assert steps[1] > 0, "the next round begins anew"
    for weights in watched.weights[stops + 1 : 9]:
        assert torch.equal(weights, watched.weights[stops])
    assert not same_weights(limited.after_one, free.after_one)
    assert limited.pop_stats()[SKIPPED:].tolist() == [0, 0], "a step that was spared is no failure"


def test_a_limit_that_is_never_reached_changes_nothing(monkeypatch) -> None:
    free, limited = (kl_round(monkeypatch, target, False)[0] for target in (0.0, 1e9))
    assert same_weights(weights_of(free), weights_of(limited))


# --- gradients that are not finite


def spoil(learner: Ppo, number: float, where=(0, 0, 1)) -> pytest.MonkeyPatch:
    """A patch to be undone: NaN or infinity in the returns of one snake's turn, or of more of them."""
    estimate, patch = learner._estimate_advantages, pytest.MonkeyPatch()

    def spoilt() -> None:
        estimate()
        learner.buffer.returns[where] = number

    patch.setattr(learner, "_estimate_advantages", spoilt)
    return patch


@pytest.mark.parametrize(("recurrent", "number"), [(False, float("nan")), (True, float("inf"))])
def test_a_batch_that_is_not_finite_is_left_out_and_counted(recurrent, number, monkeypatch) -> None:
    learner, rollout = a_round(recurrent=recurrent, batch_size=12 * 16)
    watched = Watched(learner)
    assert learner.minibatches.batches == 4
    patch, batches = spoil(learner, number), batches_of(learner, monkeypatch)
    learner.learn()
    spoilt = [0 in batch["idx"].tolist() for batch in batches]
    assert sum(spoilt) == 1
    steps = zip(watched.weights, [*watched.weights[1:], learner.optimizer.weights], strict=True)
    stayed = [torch.equal(before, after) for before, after in steps]
    assert stayed == spoilt
    assert steps_of(learner) == 3
    sums = learner.pop_stats()
    assert torch.isfinite(sums).all()
    assert sums[[0, SKIPPED, SKIPPED + 1]].tolist() == [4, 1, spoilt[-1]]  # batches, skipped, skipped in a row
    patch.undo()
    patch = spoil(learner, number, ...)
    for in_a_row in (4, 8):
        play(learner, rollout)
        learner.learn()
        assert learner.pop_stats()[SKIPPED:].tolist() == [4, in_a_row + spoilt[-1]]
    assert steps_of(learner) == 3
    patch.undo()
    play(learner, rollout)
    learner.learn()
    assert learner.pop_stats()[SKIPPED:].tolist() == [0, 0]
    assert steps_of(learner) == 7
    assert all(torch.isfinite(tensor).all() for _, tensor in learner.named_weights())


def test_a_spoilt_batch_spoils_the_step_it_is_part_of_and_no_other() -> None:
    learner, _ = a_round(batch_size=12 * 16, sync_freq=2)
    spoil(learner, float("nan"))
    learner.learn()
    assert steps_of(learner) == 1
    assert learner.pop_stats()[SKIPPED].item() == 1


# --- precision


@both_kinds
def test_bf16_is_fp32_within_its_rounding(recurrent) -> None:
    """What was played, the first losses; what is learned stays in fp32."""
    options = {"recurrent": recurrent, "spread": 0.1}
    full, _ = a_round(**options)
    narrow, rollout = a_round(precision="bf16", **options)
    obs = full.buffer.obs[0].flatten(0, 1)
    if not recurrent:
        torch.testing.assert_close(narrow.act(obs).float(), full.act(obs), rtol=0.03, atol=0.1)
    full.learn()
    narrow.learn()
    found, expected = narrow.pop_stats(), full.pop_stats()
    assert found[1 + KL] < 1e-3, "the policy that learns is the one that played"
    torch.testing.assert_close(found[2:4], expected[2:4], rtol=0.5, atol=0.1)
    before = weights_of(narrow)
    for _ in range(2):
        play(narrow, rollout)
        narrow.learn()
    assert torch.isfinite(narrow.pop_stats()).all()
    for name, tensor in narrow.named_weights():
        assert tensor.dtype == torch.float32
        assert torch.isfinite(tensor).all()
        assert not torch.equal(tensor, before[name]), f"{name} does not learn"


# --- the same again


@both_kinds
def test_whole_runs_with_one_seed_are_bit_identical_and_one_that_was_saved_goes_on_identically(recurrent) -> None:
    def rounds(learner, rollout, count) -> list[list[float]]:
        stats = []
        for _ in range(count):
            play(learner, rollout)
            learner.learn()
            stats.append(learner.pop_stats().tolist())
        return stats

    def made(seed=SEED):
        learner, rollout = a_ppo(8, 6, seed=seed, recurrent=recurrent, batch_size=48, epochs=2)
        begin(rollout)
        return learner, rollout

    whole, other = rounds(*made(), 4), rounds(*made(SEED + 1), 4)
    assert whole != other
    learner, rollout = made()
    assert rounds(learner, rollout, 2) == whole[:2]
    parts = {"weights": dict(learner.named_weights()), "learner": learner.state_dict()}
    file = io.BytesIO()
    torch.save({**parts, "rank": learner.rank_state(), "rollout": rollout.state_dict()}, file)
    file.seek(0)
    saved = torch.load(file, weights_only=True)
    resumed, matches = a_ppo(8, 6, seed=SEED, recurrent=recurrent, batch_size=48, epochs=2, spread=1.0)
    resumed.load_weights(saved["weights"])
    resumed.load_state_dict(saved["learner"])
    resumed.load_rank_state(saved["rank"])
    matches.load_state_dict(saved["rollout"])
    assert rounds(resumed, matches, 2) == whole[2:]


@both_kinds
def test_a_learner_goes_on_from_the_state_of_an_older_checkpoint(recurrent) -> None:
    """Written when the optimizer was torch's: it has the state of torch's Adam, under the name of PPO's only one."""
    made, _ = a_round(recurrent=recurrent)
    optimizer = torch.optim.Adam(made.actor.parameters(), 0.25, fused=True)
    for parameter in made.actor.parameters():
        parameter.grad = torch.full_like(parameter, 0.5)
    optimizer.step()
    scaled = {"optimizer": optimizer.state_dict(), "scaler": {}}
    state = {"optimizer": scaled, "in_a_row": torch.tensor(3.0), "epochs": torch.tensor([41])}
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    learner, _ = a_round(recurrent=recurrent)
    learner.load_state_dict(torch.load(file, weights_only=True))
    assert (learner.optimizer.lr, learner.optimizer.steps) == (0.25, 1)
    torch.testing.assert_close(learner.optimizer.exp_avg, torch.full_like(learner.optimizer.exp_avg, 0.05))
    torch.testing.assert_close(learner.optimizer.exp_avg_sq, torch.full_like(learner.optimizer.exp_avg, 0.25e-3))
    assert learner.buffer.counts[1] == 41
    assert learner.pop_stats()[-1] == 3
    learner.learn()
    assert learner.optimizer.steps == 2


def test_first_weights_depend_on_the_seed_alone_and_have_names_without_wrappers() -> None:
    torch.manual_seed(0)
    first = weights_of(a_ppo(2, 1, seed=5)[0])
    torch.manual_seed(1)
    assert same_weights(first, weights_of(a_ppo(4, 2, seed=5)[0]))
    assert not same_weights(first, weights_of(a_ppo(2, 1, seed=6)[0]))
    assert all(name.startswith("actor.") and "module" not in name for name in first)


# --- the golden curve


@pytest.mark.parametrize("algo", golden_ppo.ALGOS)
def test_the_losses_of_twenty_updates_are_the_golden_ones(algo) -> None:
    """A change that is meant to change them makes them anew: see golden_ppo.py."""
    golden = json.loads(golden_ppo.FILE.read_text())[algo]
    found = golden_ppo.curve(algo)
    assert len(golden) == len(found) == 20
    for update, (mine, its) in enumerate(zip(found, golden, strict=True)):
        for name, value in its.items():
            assert mine[name] == pytest.approx(value, rel=2e-3, abs=golden_ppo.NOISE[name]), (update, name)


# --- the command line


@pytest.mark.parametrize(("algo", "episodes"), [("ppo", 32), ("ppo_lstm", 16)])
def test_smoke_trains_and_eval_plays_its_checkpoint(algo, episodes, tmp_path) -> None:
    words = ("--lstm_size", "16", "--max_episodes", str(episodes))
    done = here("train", "--config", SMOKE, "--algo", algo, "--runs_dir", tmp_path, *words)
    assert (done.returncode, done.stderr) == (0, "")
    run = the_run(tmp_path)
    assert manifest(run, episodes)["algo"] == algo
    lines = logged(run)
    assert [line["step"] for line in lines] == [*range(16, episodes + 1, 16)]
    assert all(line.keys() >= set(Ppo.LOGGED) for line in lines)
    assert all(0 < line["policy/entropy"] < 1.1 for line in lines), "three moves: at the most log 3"
    assert lines[-1]["updates/skipped"] == 0
    state = torch.load(run / "checkpoints" / f"episode_{episodes}" / "state.pt", weights_only=True)
    ppo = yaml.safe_load((run / "config.yaml").read_text())["ppo"]
    rate = state["learner"]["actor_optimizer"]["optimizer"]["param_groups"][0]["lr"]
    assert rate == pytest.approx(ppo["lr"] * ppo["lr_end"]), "the last round is the end of the line"
    played = here("eval", "--home", run, "--away", "level0", "--matches", "2", "--json")
    assert (played.returncode, played.stderr) == (0, "")
    assert json.loads(played.stdout)["matches"] == 2


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["--update_interval", "15"], ("ppo.update_interval is 15", "from 16", "1 rank")),
        (["--kind", "cnn"], ("network.kind is cnn", "network.encoder planes")),
        (["--model_size", "tiny"], ("network.body and network.model_size",)),
        (["--target_kl", "0.1", "--precision", "fp16"], ("fp16",)),
        (["--clip", "-1"], ("ppo.clip is -1", "from 0")),
        (["--epochs", "0"], ("ppo.epochs is 0", "from 1")),
        (["--gae_lambda", "2"], ("ppo.gae_lambda is 2", "from 0 to 1")),
    ],
)
def test_a_mistake_is_told_in_one_line(words, parts, tmp_path) -> None:
    done = here("train", "--config", SMOKE, "--algo", "ppo", "--device", "cpu", "--runs_dir", tmp_path, *words)
    assert_one_line(done, *parts)
    assert not list(tmp_path.iterdir())


def test_the_kl_stop_is_refused_with_fp16_on_a_gpu() -> None:
    config = TrainConfig(algo="ppo", precision="fp16", ppo=PpoConfig(target_kl=0.1))
    with pytest.raises(UserError, match=r"ppo\.target_kl skips steps.*use bf16 or fp32"):
        resolve(config, torch.device("cuda"))
