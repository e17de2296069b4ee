"""Number formats of training: weights and optimisers in fp32, matrix products in what was asked for."""

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import nn
from torch.optim import Adam, Optimizer

NARROW = {"bf16": torch.bfloat16, "fp16": torch.float16}


class Precision:
    """How to cast, go backward and step on a device. fp16 needs its losses scaled up; one scaler per optimiser."""

    def __init__(self, name: str, device: torch.device) -> None:
        self.name, self.device = name, device
        self._scalers: dict[int, torch.amp.GradScaler] = {}
        self._all: dict[int, torch.Tensor] = {}  # number of rows -> the numbers of all of them

    def cast(self) -> AbstractContextManager:
        """Where networks are called."""
        if self.name == "fp32":
            return nullcontext()
        # Without its cache of cast weights: in a graph a cached cast would be read before it is made again.
        return torch.autocast(self.device.type, NARROW[self.name], cache_enabled=False)

    def narrow(self, rows: torch.Tensor) -> torch.Tensor:
        """An encoder's integers in the type that networks calculate with; all of them are exact in it."""
        if self.name != "bf16" or not rows.is_cuda:
            return rows.to(NARROW.get(self.name, torch.float32))
        flat = rows.view(-1, rows.shape[-1])
        if len(flat) not in self._all:
            self._all[len(flat)] = torch.arange(len(flat), device=rows.device)
        return self.take(flat, self._all[len(flat)]).view(rows.shape)

    def take(self, rows: torch.Tensor, here: torch.Tensor) -> torch.Tensor:
        """Those of an encoder's rows [N, ...] that `here` names, narrowed."""
        words = rows.view(len(rows), -1).view(torch.int64)  # several times faster than byte by byte
        shape = (len(here), *rows.shape[1:])
        if self.name == "bf16" and rows.is_cuda:
            from marl.compute.gather_bf16 import narrow

            return narrow(words, here, rows.dtype == torch.int8).view(shape)
        return self.narrow(torch.index_select(words, 0, here).view(rows.dtype).view(shape))

    @torch.no_grad()
    def step_of(
        self, actor: nn.Module, rows: torch.Tensor, begins: torch.Tensor | None, memory: torch.Tensor | None
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """An actor's answers to what snakes see, and what it remembers then."""
        with self.cast():
            return actor.step(self.narrow(rows), begins, memory)

    def optimizer(self, parameters: Iterable[nn.Parameter], rate: float) -> Adam:
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

    def backward(self, optimizer: Optimizer, loss: torch.Tensor, gradient: torch.Tensor | None = None) -> None:
        """Add the loss's gradients to those of the optimiser's parameters, or those of any output with its gradient."""
        scaler = self._scalers.get(id(optimizer))
        if gradient is None:
            (loss if scaler is None else scaler.scale(loss)).backward()
        else:
            loss.backward(gradient if scaler is None else scaler.scale(gradient))

    def step(self, optimizer: Optimizer, max_norm: float, leave_out: torch.Tensor | None = None) -> torch.Tensor:
        """Step and forget the gradients; returns their norm. If it is not finite, or `leave_out` is 1 (not with fp16),
        nothing is changed.

        Decided on the device. Ranks decide alike: their gradients are means over all of them.
        """
        scaler = self._scalers.get(id(optimizer))
        if scaler is not None:
            scaler.unscale_(optimizer)
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        norm = nn.utils.clip_grad_norm_(parameters, max_norm if max_norm > 0 else float("inf"))
        if scaler is None:
            # Where this is 1 the fused Adam leaves the step out; only of a number that is none, x - x is not 0.
            not_finite = (norm - norm).ne(0).float()
            optimizer.found_inf = not_finite if leave_out is None else torch.maximum(not_finite, leave_out)
            optimizer.step()
        else:
            scaler.step(optimizer)
            scaler.update()
        optimizer.zero_grad(set_to_none=True)
        return norm
