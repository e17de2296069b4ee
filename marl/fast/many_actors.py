"""Several dense actors of one shape as one: a product for each layer, not for each actor."""

from collections.abc import Sequence

import torch
from torch.nn.functional import relu

from marl.fast.dense_pass import dense_layers
from marl.networks.actors import AnyActor


class ManyActors:
    """Plays for n actors without gradients. Of the rows [n * R, W] the first R are for the first actor, and so on."""

    def __init__(self, actors: Sequence[AnyActor]) -> None:
        """The actors have one network shape, of dense layers only (dense_layers), and are not trained any more."""
        self.spec = actors[0].spec
        layers = [found for found in map(dense_layers, actors) if found is not None]
        self._scale = layers[0].scale
        # [n, inputs, outputs] and [n, 1, outputs] of each layer
        self._weights = [torch.stack(each).mT.contiguous() for each in zip(*(of.weights for of in layers), strict=True)]
        self._biases = [torch.stack(each)[:, None] for each in zip(*(of.biases for of in layers), strict=True)]

    def to(self, device: torch.device) -> "ManyActors":
        self._scale = self._scale.to(device)
        self._weights = [weight.to(device) for weight in self._weights]
        self._biases = [bias.to(device) for bias in self._biases]
        return self

    def initial_state(self, snakes: int, device: torch.device) -> None:
        """No hidden state."""

    def step(
        self, obs: torch.Tensor, is_first: torch.Tensor | None, hidden: torch.Tensor | None
    ) -> tuple[torch.Tensor, None]:
        """Outputs [n * R, 4 or 5]."""
        x = (obs.float() * self._scale).view(len(self._weights[0]), -1, obs.shape[-1])
        for weight, bias in zip(self._weights[:-1], self._biases[:-1], strict=True):
            x = relu(torch.baddbmm(bias, x, weight))
        return torch.baddbmm(self._biases[-1], x, self._weights[-1]).flatten(0, 1), None
