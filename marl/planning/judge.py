"""What a planner asks of its policy about simulated matches: log-probabilities, and the worth of positions in cells.

A policy without a value head (DDPG, Q-learning) tells the worth of a position by playing on: PLAYED_ON turns in which
all six snakes play its likeliest actions.
"""

import torch

from arena import BatchArena
from arena.encoders import Encoder
from arena.rules import ACTIONS, SNAKES, TEAM
from marl.learners.precision import Precision
from marl.networks.actors import AnyActor
from marl.networks.policy import mask_reversal, to_board_logits
from marl.planning.value_scale import ValueScale

DISCOUNT = 0.97  # of a turn: that of the champion's value head
PRIOR = 0.1  # weight of the log-probability of an action
PLAYED_ON = 3  # turns, without a value head


class Judge:
    """A policy and the weights of its values.

    N = matches of a simulation; side [N]: 0 if the own team is red, 1 if blue.
    skips: positions that do not count are not looked at. A CUDA graph always has the same shapes.
    """

    def __init__(self, actor: AnyActor, encoder: Encoder, scale: ValueScale, device: torch.device) -> None:
        bf16 = device.type == "cuda" and torch.cuda.is_bf16_supported()
        self._precision = Precision("bf16" if bf16 else "fp32", device)
        self._actor, self._encoder, self._scale = actor, encoder, scale
        self._has_values = actor.spec.outputs > ACTIONS
        self._later: dict[int, tuple[BatchArena, torch.Tensor]] = {}  # matches that are played on, by their number
        self.skips = device.type == "cpu"

    def log_probs(self, sim: BatchArena, counts: torch.Tensor) -> torch.Tensor:
        """Log-probabilities [N, 2, 3, 4] of the actions on the board, by team, in the matches that count [N]."""
        picked = self._picked(counts)
        seats = torch.arange(sim.matches * SNAKES, dtype=torch.int32, device=counts.device).view(-1, SNAKES)
        obs, outputs = self._outputs(sim, seats[picked].flatten())
        logits = mask_reversal(outputs[:, :ACTIONS], obs, self._encoder)
        board = to_board_logits(logits, obs, self._encoder).log_softmax(-1)
        found = torch.zeros(sim.matches, 2, TEAM, ACTIONS, device=counts.device)
        found[picked] = board.view(-1, 2, TEAM, ACTIONS)
        return found

    def values(self, sim: BatchArena, side: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
        """The lead [N] that the own snakes' values promise in the matches that count [N]; elsewhere 0."""
        if not self._has_values:
            return self._play_on(sim, side, counts) * counts
        found = torch.zeros(sim.matches, device=side.device)
        picked = self._picked(counts)
        first = (torch.arange(sim.matches, device=side.device) * 2 + side) * TEAM
        seats = (first[:, None] + torch.arange(TEAM, device=side.device)).int()
        outputs = self._outputs(sim, seats[picked].flatten())[1]
        found[picked] = outputs[:, ACTIONS].view(-1, TEAM).sum(-1)
        return self._scale.leaf * found * counts

    def _play_on(self, sim: BatchArena, side: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
        """The lead [N] won on the next turns in the matches that count [N]; elsewhere it means nothing."""
        if sim.matches not in self._later:
            actions = torch.zeros(sim.matches, SNAKES, dtype=torch.int8, device=side.device)
            self._later[sim.matches] = BatchArena(sim.matches, side.device), actions
        later, actions = self._later[sim.matches]
        later.state.copy_(sim.state)
        later.keys.copy_(sim.keys)
        lead = torch.zeros(sim.matches, device=side.device)
        for turn in range(PLAYED_ON):
            actions.copy_(self.log_probs(later, counts).argmax(-1).flatten(1))
            later.play_turn(actions)
            lead += DISCOUNT**turn * self.growth(later, side)
        return lead

    def growth(self, sim: BatchArena, side: torch.Tensor) -> torch.Tensor:
        """The own team's growth [N] on the turn just played, minus the weighed growth of the foes."""
        growth = sim.events.reward.float().view(-1, 2, TEAM).sum(-1)
        own, foes = growth.gather(1, torch.stack((side, 1 - side), 1)).unbind(1)
        return own - self._scale.foes * foes

    def _picked(self, counts: torch.Tensor) -> torch.Tensor | slice:
        return counts if self.skips else slice(None)

    def _outputs(self, sim: BatchArena, seats: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Observations of some seats, and the policy's outputs."""
        obs = sim.observe(self._encoder.name, seats)
        return obs, self._precision.act(self._actor, obs, None, None)[0].float()
