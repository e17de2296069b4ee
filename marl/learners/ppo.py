"""PPO: the policy that just played is improved by what it played, a little at a time.

M = rows (turns of a team) in a minibatch, 3 = its snakes. One round of updates, after T turns:

    advantages <- rewards and values, from the last turn back (returns.py)
    in shuffled minibatches, `epochs` times over all that was played:
        outputs = network(obs)                     four logits and a value
        network <- gradient of the loss (ppo_loss.py)

With a central critic this is MAPPO. Nothing here waits for a GPU, so a whole round can be one CUDA graph: once the
policy has moved too far (target_kl), the remaining steps of the round are computed and change nothing.
"""

from typing import Any, ClassVar

import torch
from torch import nn

from arena.encoders import encoder_named
from arena.rules import ACTIONS, TEAM
from marl.config.learner_configs import PpoConfig
from marl.config.sections import NetworkConfig
from marl.config.train_config import TrainConfig
from marl.learners.adam import Adam
from marl.learners.learner import Learner
from marl.learners.muon import Muon
from marl.learners.ppo_loss import Coefs, PpoBatch, ppo_loss
from marl.learners.precision import Precision
from marl.learners.returns import generalized_advantages, moments
from marl.learners.rollout_buffer import Minibatches, RolloutBuffer
from marl.networks.actors import make_actor
from marl.networks.critics import ActorCritic, CentralCritic
from marl.networks.spec import spec_from_config
from marl.ranks.process_group import Ranks, Solo
from marl.rollout.rollout import Rollout

KL = 3  # place in the statistics of ppo_loss


class Ppo(Learner):
    """A network that plays and values, and its optimizer. With a central critic, one network for each."""

    LOGGED = (
        "losses/policy", "losses/value", "policy/entropy", "policy/kl", "policy/clip_fraction", "grad_norm/actor",
        "updates/skipped",
    )  # fmt: skip
    MEASURED = ("value/explained_variance",)
    SHOWN: ClassVar = {"policy": "losses/policy", "value": "losses/value", "kl": "policy/kl"}
    OPTIMIZERS: ClassVar = {"actor": ("optimizer", "lr")}
    drawn_name = "epochs"
    outputs = ACTIONS + 1  # logits and a value

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
    ) -> None:
        super().__init__(buffer, group, precision, sync_freq)
        self.config, device = config, buffer.device
        torch.manual_seed(seed)  # initial weights only: everything else that is random is drawn by number
        has_central = config.critic == "team"
        self.spec = spec_from_config(network, ACTIONS if has_central else self.outputs, self.recurrent)
        self.actor = make_actor(self.encoder, self.spec).to(device)
        self.critic = CentralCritic(self.encoder, self.spec).to(device) if has_central else None
        # Logits and values, [..., 5]: of the actor alone, or of the actor and the central critic.
        self.network = self.actor if self.critic is None else ActorCritic(self.actor, self.critic)
        self.ddp_network = group.wrap(self.network)
        self.optimizer = (Muon if config.optimizer == "muon" else Adam)(self.network, config.lr)
        self.turns = buffer.turns
        items, turns_per_item = self._items()
        self.minibatches = Minibatches.cut(items, turns_per_item, config.batch_size, sync_freq)
        self.updates = config.epochs * self.minibatches.batches
        self.batch_turns = self.minibatches.each * self.minibatches.turns_per_item
        self._shuffler = buffer.shuffler(items)
        regularisers = torch.tensor((config.entropy, config.uniform_kl or 0.0), device=device)
        self.coefs = Coefs(regularisers, config.clip, config.value_clip, config.value_weight)
        self._stopped = torch.zeros((), device=device)  # 1 once the policy has moved too far in this round

    @classmethod
    def from_config(cls, config: TrainConfig, teams: int, group: Solo | Ranks, precision: Precision, key: int) -> "Ppo":
        """The learner of a configuration, with a buffer for this many teams. key: of the shuffling."""
        turns = max(1, round(config.ppo.update_interval / (config.matches * group.world)))
        buffer = RolloutBuffer(turns, teams, encoder_named(config.network.encoder), group.device, key)
        return cls(config.ppo, config.network, buffer, group, precision, config.ddp.sync_freq, config.seed)

    def _items(self) -> tuple[int, int]:
        """What is shuffled, turns of teams: how many, and the turns in each."""
        return self.buffer.teams * self.buffer.turns, 1

    # --- playing

    def attach(self, rollout: Rollout) -> None:
        self._rollout = rollout

    def act(self, obs: torch.Tensor) -> torch.Tensor:
        return self.precision.act(self.network, obs, None, None)[0]

    # --- learning

    def learn(self) -> None:
        self._estimate_advantages()
        self._stopped.zero_()
        for _ in range(self.config.epochs):
            batches = self._shuffler.shuffle().split(self.minibatches.each)
            for items in batches[: self.minibatches.batches]:
                self.update(items)

    @torch.no_grad()
    def _estimate_advantages(self) -> None:
        """Advantages of all that was played, normalised over all ranks, and returns."""
        buffer, config = self.buffer, self.config
        buffer.values[-1] = self.last_values().view(-1, TEAM)
        advantages, returns = generalized_advantages(
            buffer.rewards, buffer.terminated, buffer.values, config.gamma, config.gae_lambda
        )
        total, squares, count = self.group.sum_(moments(advantages.double()))
        mean = total / count
        deviation = (squares / count - mean.square()).clamp(min=1e-16).sqrt()
        buffer.advantages.copy_((advantages - mean) / deviation)
        buffer.returns.copy_(returns)

    def last_values(self) -> torch.Tensor:
        """The value of what each snake sees after the last turn."""
        return self.act(self._rollout.observe())[:, ACTIONS].float()

    def losses(self, items: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        rows = self.rows_of(items)
        with self.precision.autocast():
            outputs = self.outputs_for(items, self.precision.cast(self.buffer.obs_at(rows)))
        return self.loss(outputs.view(len(rows), TEAM, self.outputs), self.buffer.batch_at(rows))

    def rows_of(self, items: torch.Tensor) -> torch.Tensor:
        """The rows of the buffer that belong to items of a minibatch."""
        return items

    def outputs_for(self, items: torch.Tensor, obs: torch.Tensor) -> torch.Tensor:
        """The network's outputs [M, 3, 5] for the observations [M, 3, W] of a minibatch."""
        return self.ddp_network(obs)

    def loss(self, outputs: torch.Tensor, batch: PpoBatch) -> tuple[torch.Tensor, torch.Tensor]:
        """The loss of a minibatch, and the means of its statistics."""
        return ppo_loss(outputs, batch, self.coefs)

    def step(self, stats: torch.Tensor) -> torch.Tensor:
        config = self.config
        if config.target_kl:
            kl = self.group.mean_(stats[KL].clone())
            torch.maximum(self._stopped, (kl > config.target_kl).float(), out=self._stopped)
        return self.optimizer.step(config.max_grad_norm, self._stopped)[None]

    def wrapped(self) -> list[Any]:
        return [self.ddp_network]

    # --- what the trainer asks

    def anneal(self, lr_factor: float, share_done: float) -> None:
        config = self.config
        self._set_rates(lr_factor * (1 - (1 - config.lr_end) * share_done))
        self.coefs.regularisers[0] = config.entropy + (config.entropy_end - config.entropy) * share_done
        self.coefs.regularisers[1] = (config.uniform_kl or 0.0) * (1 - share_done)

    def measure(self) -> torch.Tensor:
        """The share of the returns' variance that the values explain in the last round: 1 is perfect."""
        returns, values = self.buffer.returns, self.buffer.values[:-1]
        return (1 - (returns - values).var() / returns.var().clamp(min=1e-12))[None]

    def last_batch(self) -> dict[str, torch.Tensor]:
        rows = self.rows_of(self._last_batch)
        return {"idx": rows, "obs": self.buffer.obs_at(rows), **self.buffer.batch_at(rows)._asdict()}

    def networks(self) -> dict[str, nn.Module]:
        return {"actor": self.actor} | ({} if self.critic is None else {"critic": self.critic})

    @property
    def rank_state_bytes(self) -> int:
        """Next to nothing: what was played has been learned from."""
        return 0

    def rank_state(self) -> dict[str, Any]:
        return {"sums": self.sums}

    def load_rank_state(self, state: dict[str, Any]) -> None:
        self.sums.copy_(state["sums"])
