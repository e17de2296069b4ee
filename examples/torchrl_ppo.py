"""TorchRL's PPO on this arena: trains against level1, then plays 200 matches each against level0 and level1.

python -m pip install torchrl
python examples/torchrl_ppo.py [STEPS]          # steps of single snakes; 307,200 by default

Measured: 99.5 % won against level0 (97.2 to 99.9 %), 91.0 % against level1, after 41 s of one core.
"""

import sys

import torch
from tensordict.nn import TensorDictModule
from torch import nn
from torchrl.collectors import Collector
from torchrl.modules import MaskedCategorical, ProbabilisticActor
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

from arena.encoders import ENCODERS
from marl import play, team_env
from opponents.players import Policy


class Network(nn.Sequential):
    """Observations as they come, scaled to about -1 to 1, through two layers."""

    def __init__(self, outputs: int) -> None:
        super().__init__(nn.Linear(80, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, outputs))
        self.register_buffer("scale", torch.from_numpy(ENCODERS["features"].scale))

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        return super().forward(obs * self.scale)


if __name__ == "__main__":
    steps, turns = int(sys.argv[1]) if len(sys.argv) > 1 else 307_200, 32
    torch.manual_seed(1)
    env = team_env("level1", matches=64, reward="score", seed=1, api="torchrl")
    logits = TensorDictModule(Network(4), in_keys=["observation"], out_keys=["logits"])
    inputs = {"logits": "logits", "mask": "action_mask"}
    actor = ProbabilisticActor(logits, inputs, distribution_class=MaskedCategorical, return_log_prob=True)
    critic = TensorDictModule(Network(1), in_keys=["observation"], out_keys=["state_value"])
    loss_of = ClipPPOLoss(actor, critic, entropy_coeff=0.01)
    advantage_of = GAE(gamma=0.95, lmbda=0.9, value_network=critic)
    optimizer = torch.optim.Adam(loss_of.parameters(), 1e-3)
    for rollout in Collector(env, actor, frames_per_batch=env.numel() * turns, total_frames=steps):
        for _ in range(4):
            advantage_of(rollout)
            for minibatch in rollout.reshape(-1)[torch.randperm(rollout.numel())].split(2048):
                losses = loss_of(minibatch)
                (losses["loss_objective"] + losses["loss_critic"] + losses["loss_entropy"]).backward()
                nn.utils.clip_grad_norm_(loss_of.parameters(), 0.5)
                optimizer.step()
                optimizer.zero_grad()
    player = Policy(lambda obs: logits.module(torch.from_numpy(obs)).argmax(-1), "torchrl", batched=True)
    for foe in ("level0", "level1"):
        of = play(player, foe, matches=200)
        print(f"won {of.win_rate:.1%} ({of.win_rate_low:.1%} to {of.win_rate_high:.1%}) against {foe}")
