"""PPO: the policy that just played is improved by what it played, a little at a time.

M = rows (turns of a team) in a minibatch, 3 = its snakes. One round of updates, after T turns:

    advantages <- rewards and values, from the last turn back (returns.py)
    in shuffled minibatches, `epochs` times over all that was played:
        outputs = network(obs)                     four logits and a value
        network <- gradient of the loss (ppo_loss.py)

Nothing here waits for a GPU, so a whole round can be one CUDA graph: once the policy has moved too far (target_kl), the
remaining steps of the round are computed and change nothing.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import numpy as np
import torch
from torch import nn

from arena.backends.chain import chain
from arena.encoders import encoder_named
from arena.rules import ACTIONS, TEAM
from marl.compute.adam import flatten
from marl.compute.gather_rows import gather_rows
from marl.compute.overlap import Overlap
from marl.compute.precision import Precision
from marl.config.learner_configs import PpoConfig
from marl.config.network_config import NetworkConfig
from marl.config.train_config import TrainConfig
from marl.learners.learner import Learner
from marl.learners.ppo_gpu import GpuPart, may_learn_on_gpu
from marl.learners.ppo_kernels import KL, STATS, Coefs, Minibatch, loss_gradients, record_steps
from marl.learners.ppo_loss import PpoBatch, ppo_loss
from marl.learners.returns import moments
from marl.learners.rollout_buffer import Minibatches, RolloutBuffer
from marl.networks.actors import make_actor
from marl.networks.central_critic import ActorCritic, CentralCritic
from marl.networks.dense_kernels import LEVELS, mean_rows, multiply
from marl.networks.dense_pass import DenseInference, DenseLayers, DensePass, Gradients, dense_layers
from marl.networks.spec import spec_from_config
from marl.networks.stems import usable_packing
from marl.ranks.process_group import Ranks, Solo
from marl.rollout.rollout import Rollout
from marl.rollout.turn_chain import TurnCalls, TurnPart

OUTPUTS = ACTIONS + 1  # logits and a value


class Ppo(Learner):
    """A network that plays and values, and its optimizer. With a central critic (MAPPO), one network for each."""

    LOGGED = (
        "losses/policy", "losses/value", "policy/entropy", "policy/kl", "policy/clip_fraction", "grad_norm/actor",
        "updates/skipped",
    )  # fmt: skip
    MEASURED = ("value/explained_variance",)
    SHOWN: ClassVar = {"policy": "losses/policy", "value": "losses/value", "kl": "policy/kl"}
    outputs = OUTPUTS

    buffer: RolloutBuffer

    def __init__(
        self,
        config: PpoConfig,
        network: NetworkConfig,
        buffer: RolloutBuffer,
        group: Solo | Ranks,
        precision: Precision,
        sync_freq: int = 1,
        seed: int = 1,
        fused: bool = True,
    ) -> None:
        super().__init__(buffer, group, precision, sync_freq)
        self.config, device = config, buffer.device
        self._widens = buffer.packing is None  # packed rows are read as they are
        torch.manual_seed(seed)  # initial weights only: everything else that is random is drawn by number
        has_central = config.critic == "team"
        self.spec = spec_from_config(network, ACTIONS if has_central else OUTPUTS, self.recurrent)
        self.actor = make_actor(self.encoder, self.spec).to(device)
        self.critic = CentralCritic(self.encoder, self.spec).to(device) if has_central else None
        # Logits and values, [..., 5]: of the actor alone, or of the actor and the central critic.
        self.network = self.actor if self.critic is None else ActorCritic(self.actor, self.critic)
        self.ddp_network = group.wrap(self.network)
        self.optimizer = precision.optimizer(self.network.parameters(), config.lr)
        self.turns = buffer.turns
        items, turns_per_item = self._items()
        self.minibatches = Minibatches.cut(items, turns_per_item, config.batch_size, sync_freq)
        self.updates = config.epochs * self.minibatches.batches
        self.batch_turns = self.minibatches.each * self.minibatches.turns_per_item
        self._estimate_advantages = buffer.estimator(config.gamma, config.gae_lambda, fused)
        self._shuffler = buffer.shuffler(items)
        uniform_kl = config.uniform_kl or 0.0
        self.coefs = Coefs(
            torch.zeros(2, device=device),
            torch.tensor((config.entropy, uniform_kl), device=device),
            config.clip,
            config.value_clip,
            config.value_weight,
        )
        self._stopped = torch.zeros((), device=device)  # 1 once the policy has moved too far in this round
        self._kl = torch.zeros((), device=device)  # sum over the minibatches since the last step
        # Not under DDP, whose collectives must come in the same order on all ranks, nor where minibatches accumulate:
        # the sum of more than two gradients depends on their order. And one part fills a GPU.
        each = self.minibatches.each
        self.overlap = Overlap(device, device.type == "cpu" and group.overlaps and sync_freq == 1 and each > 1)
        sizes = [each - each // 2, each // 2] if self.overlap.splits else [each]
        # Compiled gradients belong to this loss alone, passes without autograd to these outputs alone.
        fused = fused and type(self).loss is Ppo.loss
        has_own_passes = type(self).outputs_for is not Ppo.outputs_for or type(self)._forward is not Ppo._forward
        has_passes = fused and not has_own_passes and self._may_pass_directly(self.network)
        weights = flatten(self.network.parameters()) if has_passes else None
        layers = dense_layers(self.network) if has_passes else None
        self._parts: list[Any]
        self._infer: Any
        if fused and not has_own_passes and sync_freq == 1 and may_learn_on_gpu(precision, self.network):
            part = GpuPart(buffer, self.network, self.coefs, each, precision)
            weights, self._parts, self._infer = part.weights, [part], part.inference()
        else:
            self._parts = [_Part(self, size, size / each, fused, layers) for size in sizes]
            self._infer = None if layers is None else DenseInference(layers)
        if weights is not None:
            self.optimizer.use_flat(weights, self._parts[0].gradients.flat)

    @classmethod
    def from_config(cls, config: TrainConfig, teams: int, group: Solo | Ranks, precision: Precision, key: int) -> "Ppo":
        """The learner of a configuration, with a buffer for this many teams. key: of the shuffling."""
        turns = max(1, round(config.ppo.update_interval / (config.matches * group.world)))
        packing = usable_packing(config.network, precision) if config.packed and config.fused else None
        encoder = encoder_named(config.network.encoder)
        buffer = RolloutBuffer(turns, teams, encoder, group.device, key, packing)
        rest = (group, precision, config.ddp.sync_freq, config.seed, config.fused)
        return cls(config.ppo, config.network, buffer, *rest)

    def _items(self) -> tuple[int, int]:
        """What is shuffled, turns of teams: how many, and the turns in each."""
        return self.buffer.teams * self.buffer.turns, 1

    # --- playing

    def attach(self, rollout: Rollout) -> None:
        self._rollout = rollout
        if isinstance(self._parts[0], GpuPart):
            self._infer.write_into(rollout.outputs)
        turn = self._turn = (rollout.arena.state, rollout.learning_seats, rollout.board_actions, rollout.masks_reversal)
        self._record_step = record_steps.bind(len(rollout.seats), self.buffer.device, *turn, self.buffer.policy_rows)

    def act(self, obs: torch.Tensor) -> torch.Tensor:
        return self.overlap.split_batch(self._forward, obs)

    def _forward(self, obs: torch.Tensor) -> torch.Tensor:
        """Outputs without gradients; hidden states stay as they are."""
        if self._infer:
            return self._infer(obs)
        return self._precision.act(self.network, obs, None, None, self._widens)[0]

    def record_step(self) -> None:
        """Store log-probability and value of the actions that are about to be played."""
        self._record_step()

    def bind_turn(self, rollout: Rollout, part: TurnPart) -> TurnCalls | None:
        is_own = type(self).act is Ppo.act and type(self).record_step is Ppo.record_step
        if self._infer is None or not is_own or self.buffer.device.type != "cpu":
            return None
        record = record_steps.bind_part(part.seats, *self._turn, self.buffer.policy_rows._replace(counts=part.counts))
        return TurnCalls.of(self._infer.bind(rollout.obs[part.seats], rollout.outputs[part.seats]), record)

    # --- learning

    def learn(self) -> None:
        buffer = self.buffer
        buffer.values[-1] = self._forward(self._rollout.observe())[:, ACTIONS].float().view(-1, TEAM)
        self._estimate_advantages()
        self._measure_advantages()
        self._stopped.zero_()
        for epoch in range(self.config.epochs):
            if self._learn_epoch(self._shuffler.shuffle()):
                # Epochs are counted as if all had been made, as they are on a GPU.
                buffer.counts[1:] += self.config.epochs - 1 - epoch
                break
        if isinstance(self._parts[0], GpuPart):
            self._infer.take_weights()  # for the turns until the next round

    def _measure_advantages(self) -> None:
        """Mean and deviation over all ranks, by which advantages are normalised."""
        total, squares, count = self._group.sum_(moments(self.buffer.advantages.double()))
        mean = total / count
        self.coefs.adv_stats[0] = mean
        self.coefs.adv_stats[1] = (squares / count - mean.square()).clamp(min=1e-16).rsqrt()

    def _learn_epoch(self, order: torch.Tensor) -> bool:
        """All minibatches once; whether the rest of the round can be left out (a GPU is not asked)."""
        batches = order.split(self.minibatches.each)[: self.minibatches.batches]
        for number, items in enumerate(batches, 1):
            if isinstance(self._parts[0], GpuPart):
                self._parts[0].next_items = batches[number] if number < len(batches) else None
            if number % self._sync_freq == 0:
                self._learn_minibatch(items, step=True)
            else:
                with self._group.no_sync(self.ddp_network):
                    self._learn_minibatch(items, step=False)
            if self.config.target_kl and self.buffer.device.type == "cpu" and self._stopped:
                return True
        return False

    def _learn_minibatch(self, items: torch.Tensor, step: bool) -> None:
        """The gradient of one minibatch, and a step along it."""
        first, *rest = self._parts
        running = [self.overlap.run(part.backward, self, items[first.items :]) for part in rest]
        stats = first.backward(self, items[: first.items])
        stats = stats if first.weight == 1 else first.weight * stats
        for part, wait in zip(rest, running, strict=True):
            stats = stats + part.weight * wait()
        if first.gradients is not None:
            for part in rest:
                first.gradients.flat.add_(part.gradients.flat)
            self._average(first.gradients)
        if self.config.target_kl:
            self._kl += stats[KL]
        if step:
            if self.config.target_kl:
                kl = self._group.mean_(self._kl / self._sync_freq)
                torch.maximum(self._stopped, (kl > self.config.target_kl).float(), out=self._stopped)
                self._kl.zero_()
            norm = self._precision.optimizer_step(self.optimizer, self.config.max_grad_norm, self._stopped)
            norm = norm if self._sync_freq == 1 else norm * self._sync_freq
        else:
            norm = torch.zeros_like(self._skipped_in_a_row)
        if norm.device.type == "cpu":
            self._add_numbers((*stats.tolist(), norm.item()), norm.item(), step)
        else:
            self._add_stats(torch.cat((stats, norm[None])), norm, step)

    def outputs_for(self, items: torch.Tensor, idx: torch.Tensor) -> torch.Tensor:
        """The network's outputs [M, 3, 5] for items of a minibatch; idx [M] gets their rows in the buffer."""
        idx.copy_(items)
        obs = self._precision.gather(self.buffer.obs.flatten(0, 1), idx, self._widens)
        with self._precision.autocast():
            return self.ddp_network(obs)

    def loss(self, outputs: torch.Tensor, batch: PpoBatch) -> tuple[torch.Tensor, torch.Tensor]:
        """The loss of a minibatch, and the means of its statistics; see ppo_loss. A subclass may override it."""
        return ppo_loss(outputs, batch, self.coefs)

    def backward(self, tensor: torch.Tensor, weight: float, gradient: torch.Tensor | None = None) -> None:
        """Accumulate the gradients of a part of a minibatch, which counts by its weight."""
        weight /= self._sync_freq
        if gradient is None:
            self._precision.backward(self.optimizer, tensor if weight == 1 else tensor * weight)
            return
        gradient = gradient.view(tensor.shape)
        gradient = gradient if weight == 1 else gradient * weight
        self._precision.backward(self.optimizer, tensor, gradient.to(tensor.dtype))

    # --- what the trainer asks

    def anneal(self, lr_factor: float, share_done: float) -> None:
        config = self.config
        self.lrs = {"lr/actor": config.lr * lr_factor * (1 - (1 - config.lr_end) * share_done)}
        self._precision.set_lr(self.optimizer, self.lrs["lr/actor"])
        self.coefs.regularisers[0] = config.entropy + (config.entropy_end - config.entropy) * share_done
        self.coefs.regularisers[1] = (config.uniform_kl or 0.0) * (1 - share_done)

    def measure(self) -> torch.Tensor:
        """The share of the returns' variance that the values explain in the last round: 1 is perfect."""
        returns, values = self.buffer.returns, self.buffer.values[:-1]
        return (1 - (returns - values).var() / returns.var().clamp(min=1e-12))[None]

    def last_batch(self) -> dict[str, torch.Tensor]:
        buffer = self.buffer
        batch = {name: torch.cat([getattr(part.batch, name) for part in self._parts]) for name in Minibatch._fields}
        obs = buffer.obs.flatten(0, 1)[batch["idx"]]
        targets = buffer.targets._asdict().items()
        return {
            **batch,
            "obs": obs if buffer.packing is None else buffer.packing.unpack(obs),
            **{name: tensor[: self.turns].flatten(0, 1)[batch["idx"]] for name, tensor in targets},
        }

    def lr_text(self) -> str:
        return f"{self.config.lr:g}"

    def lower_lr_flags(self) -> str:
        return f"--lr {self.config.lr / 3:.1g}"

    def networks(self) -> dict[str, nn.Module]:
        return {"actor": self.actor} | ({} if self.critic is None else {"critic": self.critic})

    def state_dict(self) -> dict[str, Any]:
        state = {"optimizer": self._precision.state_dict(self.optimizer), "in_a_row": self._skipped_in_a_row}
        return {**state, "epochs": self.buffer.counts[1:]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._precision.load_state_dict(self.optimizer, state["optimizer"])
        self._skipped_in_a_row.copy_(state["in_a_row"])
        self.buffer.counts[1:] = state["epochs"]

    @property
    def rank_state_bytes(self) -> int:
        """Next to nothing: what was played has been learned from."""
        return 0

    def rank_state(self) -> dict[str, Any]:
        return {"sums": self.sums}

    def load_rank_state(self, state: dict[str, Any]) -> None:
        self.sums.copy_(state["sums"])


class _Part:
    """A part of every minibatch, with tensors of its own: on a CPU there are two, which run at once."""

    def __init__(self, learner: Ppo, items: int, weight: float, fused: bool, layers: DenseLayers | None) -> None:
        """layers: of a dense network, whose gradients are computed without autograd."""
        buffer = learner.buffer
        device, rows = buffer.device, items * learner.minibatches.turns_per_item
        self.items, self.weight, self.is_fused = items, weight, fused
        outputs = torch.zeros(rows, TEAM, OUTPUTS, device=device)
        self.gradients: Gradients | None = None
        if layers is not None:
            self._obs = torch.zeros(rows * TEAM, buffer.encoder.width, dtype=buffer.dtype)
            self._words = self._obs.view(rows, -1).view(torch.int64)
            self._x = torch.zeros(self._obs.shape)
            self._pass, self.gradients = DensePass(layers, self._x), Gradients(learner.network)
            outputs = self._pass.outputs.view(outputs.shape)
        gradients = torch.zeros_like(outputs)
        self.batch = Minibatch(
            torch.zeros(rows, dtype=torch.int64, device=device),
            outputs,
            gradients,
            torch.zeros(rows * TEAM, STATS, device=device),
        )
        self._loss_gradient = loss_gradients.bind(rows * TEAM, device, self.batch, buffer.targets, learner.coefs)
        self._chain: Callable[[int], None] | None = None
        if self.gradients is not None:
            self._backward = self._pass.bind_backward(gradients.view(-1, OUTPUTS), self.gradients.of[0])
            if self._pass.compiled is not None:
                self._chain = self._bind_chain(buffer, self._pass.compiled)

    def _bind_chain(self, buffer: RolloutBuffer, forward: partial) -> Callable[[int], None]:
        """All of `backward` but the copy of the items, in one compiled call."""
        rows, idx = buffer.obs.view(buffer.turns * buffer.teams, -1), self.batch.idx
        gather = partial(gather_rows, rows.numpy(), idx.numpy(), self._x.view(len(idx), -1).numpy())
        self._means = torch.zeros(STATS)
        levels = np.zeros((LEVELS, STATS), np.float32)
        mean = partial(mean_rows, self.batch.stats.numpy(), levels, self._means.numpy())
        weigh = partial(multiply, self.batch.gradients.view(-1).numpy(), np.float32(self.weight))
        weighed = () if self.weight == 1 else (weigh,)
        return chain((gather, forward, self._loss_gradient, *weighed, self._backward, mean))

    def backward(self, learner: Ppo, items: torch.Tensor) -> torch.Tensor:
        """Accumulate the gradients of these items; returns the means of the statistics, until the next call."""
        batch = self.batch
        if self.gradients is not None:
            batch.idx.copy_(items)
            if self._chain is not None:
                self._chain(1)
                return self._means
            torch.index_select(learner.buffer.words, 0, batch.idx, out=self._words)
            self._x.copy_(self._obs)
            self._pass.forward()
            self._loss_gradient()
            if self.weight != 1:
                batch.gradients.mul_(self.weight)
            self._backward()
            return batch.stats.mean(0)
        outputs = learner.outputs_for(items, batch.idx)
        batch.outputs.copy_(outputs.detach().view(batch.outputs.shape))
        if not self.is_fused:
            targets = (tensor[: learner.turns].flatten(0, 1)[batch.idx] for tensor in learner.buffer.targets)
            loss, stats = learner.loss(outputs.view(batch.outputs.shape), PpoBatch(*targets))
            learner.backward(loss, self.weight)
            batch.stats.copy_(stats)  # their means in every row
            return stats
        self._loss_gradient()
        learner.backward(outputs, self.weight, batch.gradients)
        return batch.stats.mean(0)
