"""Number formats of training: weights and optimisers in fp32, matrix products in what was asked for."""

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch.optim import Adam, Optimizer

NARROW = {"bf16": torch.bfloat16, "fp16": torch.float16}


class Precision:
    """How to cast, go backward and step on a device. fp16 needs its losses scaled up; one scaler per optimiser."""

    def __init__(self, name: str, device: torch.device) -> None:
        self.name, self.device = name, device
        self._scalers: dict[int, torch.amp.GradScaler] = {}

    def cast(self) -> AbstractContextManager:
        """Where networks are called."""
        if self.name == "fp32":
            return nullcontext()
        # Without its cache of cast weights: in a graph a cached cast would be read before it is made again.
        return torch.autocast(self.device.type, NARROW[self.name], cache_enabled=False)

    def narrow(self, rows: torch.Tensor) -> torch.Tensor:
        """An encoder's integers in the type that networks calculate with; all of them are exact in it."""
        return rows.to(NARROW.get(self.name, torch.float32))

    def optimizer(self, parameters: Iterable[torch.nn.Parameter], rate: float) -> Adam:
        """Adam, whose learning rate can be changed inside a graph on a GPU."""
        on_gpu = self.device.type == "cuda"
        lr = torch.tensor(rate, device=self.device) if on_gpu else rate
        optimizer = Adam(list(parameters), lr, fused=True, capturable=on_gpu)
        if self.name == "fp16":
            self._scalers[id(optimizer)] = torch.amp.GradScaler(self.device.type)
        return optimizer

    def set_lr(self, optimizer: Optimizer, rate: float) -> None:
        """Change the learning rate without waiting for the device."""
        for group in optimizer.param_groups:
            if isinstance(group["lr"], torch.Tensor):
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate

    def state_dict(self, optimizer: Optimizer) -> dict[str, Any]:
        """State of the optimiser, and of the scale of its losses if they are scaled."""
        scaler = self._scalers.get(id(optimizer))
        return {"optimizer": optimizer.state_dict(), "scaler": scaler.state_dict() if scaler else {}}

    def load_state_dict(self, optimizer: Optimizer, state: dict[str, Any]) -> None:
        """Go on from such a state; a scale is left as it is if the state is of another precision."""
        optimizer.load_state_dict(state["optimizer"])
        scaler = self._scalers.get(id(optimizer))
        if scaler is not None and state["scaler"]:
            scaler.load_state_dict(state["scaler"])

    def backward(self, optimizer: Optimizer, loss: torch.Tensor) -> None:
        """Add the loss's gradients to those of the optimiser's parameters."""
        scaler = self._scalers.get(id(optimizer))
        (loss if scaler is None else scaler.scale(loss)).backward()

    def step(self, optimizer: Optimizer, max_norm: float) -> torch.Tensor:
        """Step and forget the gradients; returns their norm. If it is not finite, nothing is changed.

        Decided on the device. Ranks decide alike: their gradients are means over all of them.
        """
        scaler = self._scalers.get(id(optimizer))
        if scaler is not None:
            scaler.unscale_(optimizer)
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        norm = torch.nn.utils.clip_grad_norm_(parameters, max_norm if max_norm > 0 else float("inf"))
        if scaler is None:
            # Where this is 1 the fused Adam leaves the step out; only of a number that is none, x - x is not 0.
            optimizer.found_inf = (norm - norm).ne(0).float()
            optimizer.step()
        else:
            scaler.step(optimizer)
            scaler.update()
        optimizer.zero_grad(set_to_none=True)
        return norm
