"""TeamTorchrlEnv: a TeamBatch as a batched TorchRL EnvBase; needs the package torchrl.

Its batch size is [N]. A step writes `observation`, `action_mask` (False for the reversal), `reward`, `done` and
`terminated`, and `score` and `foe_score` (length gained by either team so far). TorchRL itself starts the next matches,
by a partial reset. The tensors are those of the TeamBatch, on its device, without a copy.
"""

from typing import Any

import torch

from arena.extras import install_hint
from arena.rules import ACTIONS, TEAM
from marl.envs.team_batch import TeamBatch
from marl.errors import UserError

try:
    from tensordict import TensorDict, TensorDictBase
    from torchrl.data import Binary, Bounded, Categorical, Composite, Unbounded
    from torchrl.envs import EnvBase
except (ImportError, OSError) as error:
    reason = " ".join(str(error).split())
    raise UserError(f"api='torchrl' needs the package torchrl ({reason}); {install_hint('torchrl')}") from None


class TeamTorchrlEnv(EnvBase):
    """See the top of this file."""

    def __init__(self, batch: TeamBatch) -> None:
        super().__init__(device=batch.device, batch_size=torch.Size([batch.num_envs]))
        self.batch = batch
        self._seed: int | None = None
        self._describe()

    def _describe(self) -> None:
        """The specs of all that a step reads and writes."""
        batch, envs = self.batch, torch.Size([self.batch.num_envs])
        encoder = batch.encoder
        shape = torch.Size([*batch.shape, encoder.width])
        dtype = torch.from_numpy(encoder.low[:0].astype(encoder.dtype)).dtype
        low, high = (torch.from_numpy(end.astype(encoder.dtype)).expand(shape) for end in (encoder.low, encoder.high))
        number = {"shape": envs, "dtype": torch.int64, "device": batch.device}
        self.observation_spec = Composite(
            observation=Bounded(low.clone(), high.clone(), shape, batch.device, dtype),
            action_mask=Binary(shape=(*batch.shape, ACTIONS), dtype=torch.bool, device=batch.device),
            score=Unbounded(**number),
            foe_score=Unbounded(**number),
            shape=envs,
            device=batch.device,
        )
        self.action_spec = Categorical(ACTIONS, shape=batch.shape, dtype=torch.int64, device=batch.device)
        self.reward_spec = Unbounded(shape=(*envs, 1), device=batch.device)
        flag = Categorical(2, shape=(*envs, 1), dtype=torch.bool, device=batch.device)
        self.done_spec = Composite(done=flag, terminated=flag.clone(), shape=envs, device=batch.device)

    def _reset(self, tensordict: TensorDictBase | None = None, **options: Any) -> TensorDictBase:
        mask = None if tensordict is None else tensordict.get("_reset", None)
        if mask is None or bool(mask.all()):
            self.batch.reset(self._seed)
            self._seed = None
        else:
            self.batch.start(self._matches_of(mask))
        zeros = torch.zeros(self.batch.num_envs, 1, dtype=torch.bool, device=self.device)
        return self._with(done=zeros, terminated=zeros.clone())

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        rewards, ended = self.batch.play_turn(tensordict["action"])
        done = self.batch.of_envs(ended)[:, None]
        return self._with(reward=rewards[:, None], done=done, terminated=done.clone())

    def _set_seed(self, seed: int | None) -> None:
        """The next reset of all matches starts match 0 of this seed."""
        self._seed = seed

    def close(self, *, raise_if_closed: bool = True) -> None:
        """Free what the opponent holds."""
        if not self.is_closed:
            self.batch.close()
        super().close(raise_if_closed=raise_if_closed)

    def _with(self, **values: torch.Tensor) -> TensorDictBase:
        """These values and what the snakes see now."""
        own, foe = self.batch.scores()
        obs = self.batch.observe()
        seen = {"observation": obs, "action_mask": self.batch.action_mask(), "score": own, "foe_score": foe}
        return TensorDict(seen | values, batch_size=self.batch_size, device=self.device)

    def _matches_of(self, mask: torch.Tensor) -> torch.Tensor:
        """Matches [B] to start, from the environments [N, 1] to reset."""
        if self.batch.by_team:
            return mask.view(-1)
        snakes = mask.view(-1, TEAM)
        if bool((snakes.any(1) != snakes.all(1)).any()):
            raise UserError("a partial reset must name all three snakes of a match, environments 3 k to 3 k + 2")
        return snakes[:, 0].contiguous()
