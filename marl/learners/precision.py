"""Number formats of training: weights and optimizers in fp32, matrix products in the configured precision."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

import torch

from marl.learners.adam import Adam

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


class HasStep(Protocol):
    """An actor, as far as `Precision.act` needs it."""

    def step(
        self, obs: torch.Tensor, is_first: torch.Tensor | None, hidden: torch.Tensor | None
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Outputs for the observations of one turn, and the next hidden state."""


class Precision:
    """Casts and backward passes on a device. fp16 scales its losses, so that small gradients are not rounded to 0."""

    def __init__(self, name: str, device: torch.device) -> None:
        self.name, self.device = name, device
        self._scaler = torch.amp.GradScaler(device.type) if name == "fp16" else None

    def autocast(self) -> AbstractContextManager:
        """The context in which networks are called."""
        if self.name == "fp32":
            return nullcontext()
        # Without its cache of cast weights: in a graph a cached cast would be read before it is made again.
        return torch.autocast(self.device.type, DTYPES[self.name], cache_enabled=False)

    def cast(self, obs: torch.Tensor) -> torch.Tensor:
        """Observations as numbers of the matrix products: once, for all networks that read them. Bytes stay exact."""
        return obs if self.name == "fp32" else obs.to(DTYPES[self.name])  # a network casts bytes to its own fp32

    @torch.no_grad()
    def act(
        self, actor: HasStep, obs: torch.Tensor, is_first: torch.Tensor | None, hidden: torch.Tensor | None
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """An actor's outputs for observations, and its next hidden state."""
        with self.autocast():
            return actor.step(self.cast(obs), is_first, hidden)

    def backward(self, loss: torch.Tensor) -> None:
        """Add the gradients of the loss to those at the parameters."""
        (loss if self._scaler is None else self._scaler.scale(loss)).backward()

    def take_gradients(self, *optimizers: Adam) -> None:
        """Move the gradients of a step from the parameters to their optimizers."""
        for optimizer in optimizers:
            if self._scaler is not None:
                self._scaler.unscale_(optimizer)  # type: ignore[arg-type]  # it reads param_groups alone
            optimizer.take_gradients()
        if self._scaler is not None:
            self._scaler.update()  # less after a gradient that is not finite, which the step then skips

    def state_dict(self, optimizer: Adam) -> dict[str, Any]:
        """State of an optimizer, and of the gradient scaler if there is one."""
        return {"optimizer": optimizer.state_dict(), "scaler": self._scaler.state_dict() if self._scaler else {}}

    def load_state_dict(self, optimizer: Adam, state: dict[str, Any]) -> None:
        """Restore such a state; a scaler is left as it is if the state is of another precision."""
        optimizer.load_state_dict(state["optimizer"])
        if self._scaler is not None and state["scaler"]:
            self._scaler.load_state_dict(state["scaler"])
