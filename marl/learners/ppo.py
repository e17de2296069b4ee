"""PPO: the policy that just played is improved by what it played, a little at a time; with or without a memory.

M = rows (turns of a team) in a batch, 3 = its snakes. One round of updates, after T turns:

    advantages <- rewards and the values that the network gave when it played, looked at from the end
    in shuffled batches, `epochs` times over all that was played:
        answer = network(observation)              four logits and a value
        network <- gradient of PPO's loss by the answer (ppo_loops.gradient)

Nothing here waits for a GPU, so a whole round can be one CUDA graph: where the policy has moved too far, the steps that
are left of the round are made and change nothing.
"""

from collections.abc import Iterable
from typing import Any, ClassVar

import torch
from torch import nn

from arena.rules import TEAM
from marl.compute.overlap import Branch
from marl.compute.precision import Precision
from marl.config.schema import NetworkConfig, PpoConfig
from marl.errors import UserError
from marl.learners.rollout_buffer import Trajectories
from marl.networks.networks import MOVES, actor_of
from marl.networks.policy import shape_of
from marl.ranks.process_group import Ranks, Solo
from marl.rollout import device_loops
from marl.rollout.ppo_loops import CLIPPED, KL
from marl.rollout.rollout import Rollout

NUMBERS = CLIPPED + 1
ANSWERS = MOVES + 1  # logits and a value


class Ppo:
    """A network that plays and values, and its optimiser."""

    LOGGED = (
        "losses/policy", "losses/value", "losses/entropy", "losses/kl", "losses/clipped", "losses/grad",
        "losses/skipped",
    )  # fmt: skip
    SHOWN: ClassVar = {"policy": "losses/policy", "value": "losses/value", "kl": "losses/kl"}  # label -> what is logged
    answers = ANSWERS

    def __init__(
        self,
        config: PpoConfig,
        network: NetworkConfig,
        memory: Trajectories,
        group: Solo | Ranks,
        precision: Precision,
        sync_freq: int = 1,
        seed: int = 1,
        recurrent: bool = False,
    ) -> None:
        self.config, self.buffer, self.encoder = config, memory, memory.encoder
        self._group, self._precision, self._sync_freq, self.recurrent = group, precision, sync_freq, recurrent
        device = memory.device
        torch.manual_seed(seed)  # first weights only: everything else that is random is drawn by number
        self.shape = shape_of(network, ANSWERS, recurrent)
        self.raw_actor = actor_of(self.encoder, self.shape).to(device)
        self.actor = group.wrap(self.raw_actor)
        self.optimizer = precision.optimizer(self.raw_actor.parameters(), config.lr)
        self.turns = memory.turns
        items = memory.teams * (1 if recurrent else memory.turns)  # what is dealt out: teams, or turns of teams
        of_item = TEAM * (memory.turns if recurrent else 1)  # snake turns in it
        if sync_freq > items:
            raise UserError(f"ddp.sync_freq is {sync_freq}; allowed: up to {items}, what a round can be cut into")
        self.batches = min(items, max(1, round(items * of_item / config.batch_size)))
        self.batches = max(sync_freq, self.batches // sync_freq * sync_freq)
        self.updates = config.epochs * self.batches
        self.rows = items // self.batches * of_item // TEAM  # turns of teams in a batch
        self._estimate = memory.estimator(config.gamma, config.gae_lambda)
        self._dealer = memory.dealer(items)
        self._even = config.even or 0.0
        self.spreads = torch.tensor((config.entropy, self._even), device=device)  # weights of what keeps moves alive
        self.moments = torch.zeros(2, device=device)  # mean of the advantages, and 1 / their deviation
        self._stopped = torch.zeros((), device=device)  # 1 once the policy has moved too far in this round
        self._kl = torch.zeros((), device=device)  # how far, added up over the batches since the last step
        self._in_a_row = torch.zeros((), device=device)  # steps that were skipped, up to now
        self.sums = torch.zeros(1 + len(self.LOGGED), device=device)  # batches, and sums over them
        self._memory = self.raw_actor.remember(memory.teams * TEAM, device)  # of the matches that go on
        self._first_memory = None if self._memory is None else self._memory.clone()  # when the round was begun
        self._noted = 0  # turns, in Python: a graph holds a whole round
        # Not under DDP, whose exchanges must come in the same order on all ranks, nor where batches add up: the sum of
        # more than two depends on their order. And a GPU is full with one part.
        threads = device.type == "cpu" and group.backend is None and sync_freq == 1 and items // self.batches > 1
        self._beside = Branch(device, threads)
        each = items // self.batches
        shares = [each - each // 2, each // 2] if self._beside.halves else [each]  # of a batch's items
        self._parts = [_Part(self, share, share / each, of_item // TEAM) for share in shares]

    # --- playing

    def attach(self, rollout: Rollout) -> None:
        """Play in these matches."""
        self._rollout, memory = rollout, self.buffer
        turn = (rollout.arena.state, rollout.seats, rollout.frames, rollout.answers, rollout.moves)
        self._note = device_loops.bind(
            "note_all", len(rollout.seats), memory.device, *turn, memory.counts, rollout.masked, memory.barred,
            memory.log_chances, memory.values,
        )  # fmt: skip

    def act(self, rows: torch.Tensor) -> torch.Tensor:
        """Answers to what the snakes of all teams see, who from then on remember it."""
        if self.recurrent and self._noted % self.turns == 0:
            self._first_memory.copy_(self._memory)
        if not self.recurrent:
            return self._beside.in_halves(lambda half: self._step(half)[0], rows)
        answers, memory = self._step(rows)
        self._memory.copy_(memory)
        return answers

    def _step(self, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
        begins = self._begins().repeat_interleave(TEAM) if self.recurrent else None
        return self._precision.step_of(self.raw_actor, rows, begins, self._memory)

    def _begins(self) -> torch.Tensor:
        return self._rollout.begins()[self._rollout.slot.long()]

    def note(self) -> None:
        """Keep what was thought of the moves that are about to be played."""
        self._note()
        self._noted += 1
        if self.recurrent:
            at = self.buffer.counts[:1] % self.buffer.turns
            self.buffer.begins.index_copy_(0, at, self._begins()[None])

    # --- learning

    def learn(self) -> None:
        """One round of updates from what was just played."""
        memory = self.buffer
        memory.values[-1] = self._step(self._rollout.look())[0][:, MOVES].float().view(-1, TEAM)
        self._estimate()
        self._measure_advantages()
        self._stopped.zero_()
        for epoch in range(self.config.epochs):
            order = self._dealer.shuffle()
            if self._round(order):
                memory.counts[1:] += self.config.epochs - 1 - epoch  # as if they had been: a GPU makes them
                break

    def _measure_advantages(self) -> None:
        """Over all ranks: what is good compared with all that was played, not with one rank's luck."""
        values = self.buffer.advantages.double()
        sums = torch.stack((values.sum(), values.square().sum(), torch.full_like(values[0, 0, 0], values.numel())))
        total, squares, count = self._group.sum_(sums)
        mean = total / count
        self.moments[0] = mean
        self.moments[1] = (squares / count - mean.square()).clamp(min=1e-16).rsqrt()

    def _round(self, order: torch.Tensor) -> bool:
        """All batches once; whether the rest of the updates can be spared (a GPU is not asked)."""
        each = len(order) // self.batches
        for number in range(self.batches):
            step = (number + 1) % self._sync_freq == 0
            items = order[number * each : (number + 1) * each]
            if step:
                self._learn(items, step=True)
            else:
                with self._group.no_sync(self.actor):
                    self._learn(items, step=False)
            if self.config.target_kl and self.buffer.device.type == "cpu" and self._stopped:
                return True
        return False

    def _learn(self, items: torch.Tensor, step: bool) -> None:
        """The gradient of one batch, and a step along it."""
        first, *rest = self._parts
        done = [self._beside.run(part.backward, items[first.items :]) for part in rest]
        first.backward(items[: first.items])
        for wait in done:
            wait()
        numbers = sum((part.weight * part.numbers.mean(0) for part in rest), first.weight * first.numbers.mean(0))
        norm = torch.zeros_like(self._in_a_row)
        self._kl += numbers[KL]
        if step:
            if self.config.target_kl:
                kl = self._group.mean_(self._kl / self._sync_freq)
                torch.maximum(self._stopped, (kl > self.config.target_kl).float(), out=self._stopped)
            self._kl.zero_()
            norm = self._precision.step(self.optimizer, self.config.max_grad_norm, self._stopped) * self._sync_freq
        skipped = (norm - norm).ne(0).float()  # 1 if it is not finite
        if step:
            self._in_a_row.add_(1).mul_(skipped)
        batch = torch.ones_like(norm)
        self.sums += torch.cat((batch[None], numbers, torch.stack((norm, skipped)))).nan_to_num(0.0, 0.0, 0.0)

    def answers_to(self, items: torch.Tensor, here: torch.Tensor) -> torch.Tensor:
        """The network's answers to items of a batch; `here` gets the rows of the memory that they are."""
        memory, turns = self.buffer, self.turns
        if not self.recurrent:
            here.copy_(items)
            rows = self._precision.take(memory.observations.flatten(0, 1), here)
            with self._precision.cast():
                return self.actor(rows)
        when = torch.arange(turns, device=items.device)[:, None] * memory.teams
        here.copy_((when + items).flatten())
        rows = self._precision.take(memory.observations.flatten(0, 1), here).view(turns, -1, self.encoder.width)
        begins = memory.begins[:, items].repeat_interleave(TEAM, 1)
        first = self._first_memory.view(2, memory.teams, TEAM, -1)[:, items].flatten(1, 2)
        with self._precision.cast():
            return self.actor(rows, begins, first)

    def backward(self, answers: torch.Tensor, gradients: torch.Tensor, weight: float) -> None:
        """Add the gradients of a part of a batch, which counts by its weight, to the network's."""
        weight /= self._sync_freq
        gradients = gradients.view(answers.shape)
        gradients = gradients if weight == 1 else gradients * weight
        self._precision.backward(self.optimizer, answers, gradients.to(answers.dtype))

    # --- what the trainer asks

    def epsilon(self, episodes: int) -> float:
        """Moves are drawn from the policy alone."""
        return 0.0

    @property
    def warmup_turns(self) -> int:
        """Turns before the first update."""
        return 0

    def follow(self, lr_factor: float, share_done: float) -> None:
        """Learning rate and the weights that keep moves alive, at this point of the run."""
        config = self.config
        self._precision.set_lr(self.optimizer, config.lr * lr_factor * (1 - (1 - config.lr_end) * share_done))
        self.spreads[0] = config.entropy + (config.entropy_end - config.entropy) * share_done
        self.spreads[1] = self._even * (1 - share_done)

    def logged(self) -> torch.Tensor:
        """Batches, sums of LOGGED over them since the last call, and the steps just skipped in a row; on the device."""
        sums = torch.cat((self.sums, self._in_a_row[None]))
        self.sums.zero_()
        return sums

    def last_batch(self) -> dict[str, torch.Tensor]:
        """What the last update was made of."""
        names = ("here", "answers", "gradients", "numbers")
        return {name: torch.cat([getattr(part, name) for part in self._parts]) for name in names}

    def rates(self) -> str:
        """Learning rate as configured."""
        return f"{self.config.lr:g}"

    def lower_rates(self) -> str:
        """Flags that make the next attempt more careful."""
        return f"--lr {self.config.lr / 3:.1g}"

    def networks(self) -> dict[str, nn.Module]:
        """All that has weights, by name."""
        return {"actor": self.raw_actor}

    def named_weights(self) -> Iterable[tuple[str, torch.Tensor]]:
        return ((f"actor.{key}", tensor) for key, tensor in self.raw_actor.state_dict().items())

    def load_weights(self, weights: dict[str, torch.Tensor]) -> None:
        """Take over the weights of a checkpoint."""
        self.raw_actor.load_state_dict({key.removeprefix("actor."): tensor for key, tensor in weights.items()})

    def state_dict(self) -> dict[str, Any]:
        """Everything beside the weights that an update depends on; the same on all ranks."""
        state = {"optimizer": self._precision.state_dict(self.optimizer), "in_a_row": self._in_a_row}
        return {**state, "epochs": self.buffer.counts[1:]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._precision.load_state_dict(self.optimizer, state["optimizer"])
        self._in_a_row.copy_(state["in_a_row"])
        self.buffer.counts[1:] = state["epochs"]

    @property
    def bytes(self) -> int:
        """Of what rank_state holds: next to nothing, since what was played has been learned from."""
        return 0 if self._memory is None else self._memory.numel() * self._memory.element_size()

    def rank_state(self) -> dict[str, Any]:
        """What this rank alone knows, beside its matches."""
        return {"sums": self.sums} | ({} if self._memory is None else {"memory": self._memory})

    def load_rank_state(self, state: dict[str, Any]) -> None:
        self.sums.copy_(state["sums"])
        if self._memory is not None:
            self._memory.copy_(state["memory"])


class _Part:
    """A part of every batch, with tensors of its own: on a CPU there are two, beside each other."""

    def __init__(self, learner: Ppo, items: int, weight: float, rows_of_item: int) -> None:
        memory, config = learner.buffer, learner.config
        device, rows = memory.device, items * rows_of_item
        self.items, self.weight, self._learner = items, weight, learner
        self.here = torch.zeros(rows, dtype=torch.int64, device=device)
        self.answers = torch.zeros(rows, TEAM, ANSWERS, device=device)
        self.gradients = torch.zeros_like(self.answers)
        self.numbers = torch.zeros(rows * TEAM, NUMBERS, device=device)
        played = (memory.moves, memory.barred, memory.log_chances, memory.values, memory.advantages, memory.returns)
        limits = (config.clip, config.value_clip, config.value_weight)
        self._gradient = device_loops.bind(
            "gradients_all", len(self.numbers), device, self.here, self.answers, *played, learner.moments,
            learner.spreads, *limits, self.gradients, self.numbers,
        )  # fmt: skip

    def backward(self, items: torch.Tensor) -> None:
        """The gradient of these items."""
        answers = self._learner.answers_to(items, self.here)
        self.answers.copy_(answers.detach().view(self.answers.shape))
        self._gradient()
        self._learner.backward(answers, self.gradients, self.weight)
