"""DDPG for discrete actions: a softmax actor, a critic of observations and actions, and slow copies of both as targets.

M = turns in a batch, 3 = the team's snakes. One update:

    target  = n-step return + discount * Q_target(next obs, target actor's probs)
    critic <- (Q(obs, action) - target)^2
    actor  <- - Q(obs, actor's probs) - entropy
    targets <- a little of actor and critic

With a team critic this is MADDPG. MATD3 adds a second critic, noise on the target actor's logits, and `policy_delay`:
the last two lines only in every policy_delay-th update (configs/maddpg.yaml, matd3.yaml).
"""

import copy
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

import torch
from torch import nn
from torch.nn import functional as F

from arena.encoders import Packing
from arena.rules import ACTIONS
from marl.compute.adam import flatten
from marl.compute.adam_kernels import move_towards
from marl.compute.overlap import Overlap
from marl.compute.precision import Precision
from marl.config.learner_configs import DdpgConfig
from marl.config.network_config import NetworkConfig
from marl.config.train_config import TrainConfig
from marl.learners.ddpg_gpu import GpuPasses, may_learn_on_gpu
from marl.learners.ddpg_passes import DdpgPasses
from marl.learners.replay_buffer import Batch
from marl.learners.replay_learner import ReplayLearner
from marl.learners.target_noise import TargetNoise
from marl.networks.actors import make_actor
from marl.networks.critics import Critics, expected_q, min_over_critics
from marl.networks.dense_pass import DenseInference, Gradients, dense_layers
from marl.networks.policy import MASKED_LOGIT
from marl.networks.spec import spec_from_config
from marl.networks.stems import usable_packing
from marl.networks.tail_tiles import LAYERS, SECOND_MAX

# Methods that make the losses: passes without autograd take the place of all of them.
LOSSES = ("_learn", "_next_probs", "_target", "_critic_loss", "_actor_loss", "_learn_actor", "_q_for_actor", "_logits",
          "_masked", "_descend")  # fmt: skip


class Ddpg(ReplayLearner[DdpgConfig]):
    """Actor, critics, their targets and optimizers."""

    LOGGED = (
        "losses/critic", "losses/actor", "policy/entropy", "value/mean_q", "grad_norm/actor", "grad_norm/critic",
        "updates/skipped",
    )  # fmt: skip
    SHOWN: ClassVar = {"critic": "losses/critic", "actor": "losses/actor"}
    OPTIMIZERS: ClassVar = {"actor": ("actor_optimizer", "a_lr"), "critic": ("critic_optimizer", "c_lr")}

    def _make_networks(self, network: NetworkConfig) -> None:
        config, group, precision, device = self.config, self._group, self._precision, self.buffer.device
        self.spec = spec_from_config(network, ACTIONS)
        critics = Critics(1 + config.twin, self.encoder, self.spec, config.critic_form, config.critic == "team")
        self.actor, self.critics = make_actor(self.encoder, self.spec).to(device), critics.to(device)
        self.ddp_actor, self.ddp_critics = group.wrap(self.actor), group.wrap(self.critics)
        # Copied after wrapping, which gives all ranks the same weights.
        self.target_actor, self.target_critics = (
            copy.deepcopy(net).requires_grad_(False) for net in (self.actor, self.critics)
        )
        self.actor_optimizer = precision.optimizer(self.actor.parameters(), config.a_lr)
        self.critic_optimizer = precision.optimizer(self.critics.parameters(), config.c_lr)
        self._critic_steps = 0  # since the last step of the actor
        smoothing = (self.batch_turns, config.target_noise, config.target_noise_clip)
        self._target_noise = TargetNoise(self.buffer, *smoothing) if config.target_noise else None
        # Not under DDP, whose collectives must come in the same order on all ranks; and not with a joined critic, which
        # the actor's part reads while its own part changes it.
        self.overlap = Overlap(device, group.overlaps and config.critic_form == "heads")
        self._passes: DdpgPasses | None = None
        self._gpu_passes: GpuPasses | None = None
        if self._fused and self._has_plain_losses(config):
            is_near = self.buffer.storage == device and self._sync_freq == 1
            if is_near and may_learn_on_gpu(precision, list(map(dense_layers, self._dense_networks()))):
                self._lay_out_for_gpu()
            elif self._may_pass_directly(*self._dense_networks()):
                self._lay_out_flat()
        if self.buffer.packing is not None and self._gpu_passes is None:
            raise ValueError("only passes on a GPU can read packed rows")

    @classmethod
    def _has_plain_losses(cls, config: DdpgConfig) -> bool:
        """Whether the losses are those that passes without autograd are written for (ddpg_passes.py, ddpg_gpu.py)."""
        if config.twin or config.policy_delay > 1 or config.target_noise:
            return False
        return all(getattr(cls, name) is getattr(Ddpg, name) for name in LOSSES)

    @classmethod
    def packing_for(cls, config: TrainConfig, precision: Precision) -> Packing | None:
        # MADDPG and MATD3 keep plain rows and autograd: their critics read a team's rows, or there are two of them.
        section, network = config.ddpg, config.network
        is_dense = not network.messages and section.critic == "snake" and section.critic_form == "heads"
        fits = is_dense and len(network.body or ()) == LAYERS - 1 and network.body[-1] <= SECOND_MAX
        is_plain = config.packed and config.fused and config.ddp.sync_freq == 1 and cls._has_plain_losses(section)
        return usable_packing(network, precision) if fits and is_plain else None

    def _dense_networks(self) -> list[Any]:
        critics: list[Any] = [self.critics, self.target_critics]
        return [self.actor, critics[0].each[0], self.target_actor, critics[1].each[0]]

    def _flatten(self) -> None:
        """Lay weights, those of the targets, and gradients into one tensor each."""
        self._gradients = Gradients(self.actor, self.critics)
        pairs = ((self.actor, self.critics), (self.target_actor, self.target_critics))
        self._flat_weights = [flatten([*a.parameters(), *b.parameters()]) for a, b in pairs]
        self._layers = [dense_layers(network) for network in self._dense_networks()]

    def _lay_out_for_gpu(self) -> None:
        self._flatten()
        optimizers = self.actor_optimizer, self.critic_optimizer
        flat = (self._layers, self._flat_weights, self._gradients.flat, optimizers)
        rest = (self._masks_reversal, self._precision)
        self._gpu_passes = GpuPasses(self.config, self.buffer, self.sampler.batch.rows, *flat, *rest)
        self._infer = self._gpu_passes.inference()
        self.sampler.gathers = False  # the passes read the buffer's rows

    def _lay_out_flat(self) -> None:
        self._flatten()
        by_network = self._gradients.by_network
        for optimizer, flat, gradients in zip(
            (self.actor_optimizer, self.critic_optimizer),
            self._flat_weights[0].split([len(each) for each in by_network]),
            by_network,
            strict=True,
        ):
            optimizer.use_flat(flat, gradients)
        self._flat_arrays = [flat.numpy() for flat in reversed(self._flat_weights)]
        self._infer = DenseInference(self._layers[0])
        self._passes = self._passes_of(self.sampler.batch)

    def _passes_of(self, batch: Batch) -> DdpgPasses:
        return DdpgPasses(self.config, batch, self.encoder, self._layers, self._gradients, self._masks_reversal)

    def _target_pairs(self) -> Iterable[tuple[nn.Module, nn.Module]]:
        return [(self.actor, self.target_actor), (self.critics, self.target_critics)]

    def _wrapped(self) -> Sequence[Any]:
        return [self.ddp_actor, self.ddp_critics]

    def learn(self) -> None:
        passes = self._gpu_passes
        if passes is None:
            super().learn()
            return
        passes.take_weights()  # they may have been loaded; from here on each step copies them
        self.sampler.draw()
        passes.read_batch()
        for left in reversed(range(self.updates)):
            self._learn_on_gpu(passes, goes_on=left > 0)

    def _finish_step(self) -> None:
        if self._gpu_passes is not None:
            return  # its step has moved them
        if self._passes is not None:
            move_towards(*self._flat_arrays, self.config.tau)
            return
        self._critic_steps = (self._critic_steps + 1) % self.config.policy_delay
        if self._critic_steps == 0:
            super()._finish_step()

    def _learn(self, batch: Batch, step: bool) -> None:
        """Gradients of both networks from a batch, and a step along them. Actors overlap with critics.

        Only the last of every policy_delay steps moves the actor.
        """
        if self._gpu_passes is not None:
            self._gpu_passes.read_batch()
            self._learn_on_gpu(self._gpu_passes)
            return
        if self._passes is not None:
            if self._passes.batch is not batch:
                self._passes = self._passes_of(batch)
            self._learn_directly(self._passes)
            return
        precision, overlap, actions = self._precision, self.overlap, batch.rows.actions
        delay = self.config.policy_delay
        moves_actor = self._critic_steps == delay - 1
        obs, next_obs = precision.to_float(batch.obs), precision.to_float(batch.next_obs)
        noise = None if self._target_noise is None else self._target_noise.draw()
        next_probs = overlap.run(self._next_probs, next_obs, noise)
        logits = overlap.run(self._logits, obs) if moves_actor else None
        with precision.autocast():
            q_values = self.ddp_critics(obs, actions)
        q_values = q_values.float()
        actor_part = None if logits is None else overlap.run(self._learn_actor, logits, q_values, obs, step)
        critic_loss = self._critic_loss(q_values, actions, self._target(batch, next_obs, next_probs()))
        critic_norm = self._descend(self.critic_optimizer, critic_loss, step)
        of_actor = (torch.zeros_like(critic_norm),) * 4 if actor_part is None else actor_part()
        if delay > 1:  # so that the mean over all batches is the mean over those that move the actor
            of_actor = tuple(each * delay for each in of_actor)
        actor_loss, entropy, value, actor_norm = of_actor
        stats = (critic_loss, actor_loss, entropy, value, actor_norm, critic_norm)
        self._add_stats(torch.stack([each.detach() for each in stats]), actor_norm + critic_norm, step)

    def _learn_directly(self, passes: DdpgPasses) -> None:
        """The same without autograd: gradients of both networks, their mean over the ranks, and both steps."""
        overlap = self.overlap
        passes.read_batch()
        next_probs = overlap.run(passes.compute_next_probs)
        probs = overlap.run(passes.compute_probs)
        passes.compute_q_values()
        actor_part = overlap.run(passes.learn_actor)  # after compute_probs: overlapping work runs in order
        next_probs()
        passes.compute_targets()
        critic_loss = passes.learn_critic()
        probs()
        actor_loss, entropy, value = actor_part()
        self._average(self._gradients)
        step, max_norm = self._precision.optimizer_step, self.config.max_grad_norm
        actor_step = overlap.run(step, self.actor_optimizer, max_norm)
        critic_norm = step(self.critic_optimizer, max_norm)
        actor_norm = actor_step()
        norms = actor_norm.item(), critic_norm.item()
        self._add_numbers((critic_loss, actor_loss, entropy, value, *norms), sum(norms), stepped=True)

    @torch.no_grad()
    def _learn_on_gpu(self, passes: GpuPasses, goes_on: bool = False) -> None:
        """The same on a GPU. goes_on: the next batch is drawn and read beside the backward pass."""
        overlap = self.overlap
        targets = overlap.run(passes.compute_targets)
        passes.compute_outputs()
        targets()
        passes.compute_gradients()
        following = overlap.run(self._read_next_batch, passes) if goes_on else None
        passes.backward(overlap)
        if following is not None:
            following()
            passes.take_next_batch()
        stats = overlap.run(passes.stats)
        self._average(self._gradients)
        norms = passes.step(self.config.max_grad_norm, self.config.tau)
        self._add_stats(torch.cat((stats(), norms[:2])), norms[2], stepped=True)

    def _read_next_batch(self, passes: GpuPasses) -> None:
        self.sampler.draw()
        passes.read_next_batch()

    # --- the losses

    @torch.no_grad()
    def _next_probs(self, next_obs: torch.Tensor, noise: torch.Tensor | None = None) -> torch.Tensor:
        with self._precision.autocast():
            logits = self.target_actor(next_obs)
        if noise is not None:
            logits = logits.float() + noise
        return self._masked(logits, next_obs).softmax(-1)

    @torch.no_grad()
    def _target(self, batch: Batch, next_obs: torch.Tensor, next_probs: torch.Tensor) -> torch.Tensor:
        """n-step return + discount * Q_target, of twin critics the lower one."""
        with self._precision.autocast():
            q_values = self.target_critics(next_obs, next_probs)
        next_value = min_over_critics(expected_q(q_values.float(), next_probs))
        return batch.rows.returns + batch.rows.discounts[:, None] * next_value

    def _critic_loss(self, q_values: torch.Tensor, actions: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """Mean squared TD error, summed over twin critics."""
        first, *more = (F.mse_loss(each, target) for each in expected_q(q_values, actions))
        return sum(more, first)

    def _actor_loss(
        self, probs: torch.Tensor, log_probs: torch.Tensor, q_values: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Loss, entropy and value of the actor's probabilities; gradients reach the actor alone."""
        value = min_over_critics(expected_q(q_values, probs)).mean()
        entropy = -(probs * log_probs).sum(-1).mean()
        loss = -value - self.config.entropy * entropy
        if self.config.uniform_kl:
            legal = log_probs > MASKED_LOGIT / 2
            loss = loss - self.config.uniform_kl * ((log_probs * legal).sum() / legal.sum())
        return loss, entropy, value

    def _learn_actor(
        self, logits: Callable[[], torch.Tensor], q_values: torch.Tensor, obs: torch.Tensor, step: bool
    ) -> tuple[torch.Tensor, ...]:
        """Loss, entropy, value and the norm of the gradients."""
        log_probs = self._masked(logits(), obs).log_softmax(-1)
        probs = log_probs.exp()
        loss, entropy, value = self._actor_loss(probs, log_probs, self._q_for_actor(q_values, obs, probs))
        return loss, entropy, value, self._descend(self.actor_optimizer, loss, step)

    def _q_for_actor(self, q_values: torch.Tensor, obs: torch.Tensor, probs: torch.Tensor) -> torch.Tensor:
        """Q-values through which gradients reach the actor and nothing else.

        Heads have given the value of each action already. A joined critic is called again with the actor's
        probabilities: unwrapped, since ranks must not exchange its gradients here, and frozen.
        """
        if self.config.critic_form == "heads":
            return q_values.detach()
        self.critics.requires_grad_(False)
        with self._precision.autocast():
            q_values = self.critics(obs, probs).float()
        self.critics.requires_grad_(True)
        return q_values

    def _logits(self, obs: torch.Tensor) -> torch.Tensor:
        with self._precision.autocast():
            return self.ddp_actor(obs)

    def networks(self) -> dict[str, nn.Module]:
        return {
            "actor": self.actor,
            "critic": self.critics,
            "target_actor": self.target_actor,
            "target_critic": self.target_critics,
        }
