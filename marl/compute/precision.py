"""Number formats of training: weights and optimizers in fp32, matrix products in the configured precision."""

import math
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

import torch
from torch import nn
from torch.optim import Optimizer

from marl.compute.adam import Adam, flatten
from marl.compute.triton_kernels import triton_problem

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


class HasStep(Protocol):
    """An actor, as far as `Precision.act` needs it."""

    def step(
        self,
        obs: torch.Tensor,
        is_first: torch.Tensor | None,
        hidden: torch.Tensor | None,
        out: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Outputs for the observations of one turn, and the next hidden state. out: where that is written."""


class Precision:
    """Casts, backward passes and optimizer steps on a device. fp16 scales its losses; one scaler per optimizer."""

    def __init__(self, name: str, device: torch.device) -> None:
        self.name, self.device = name, device
        self._scalers: dict[int, torch.amp.GradScaler] = {}
        self._arange: dict[int, torch.Tensor] = {}  # number of rows -> their indices

    def autocast(self) -> AbstractContextManager:
        """The context in which networks are called."""
        if self.name == "fp32":
            return nullcontext()
        # Without its cache of cast weights: in a graph a cached cast would be read before it is made again.
        return torch.autocast(self.device.type, DTYPES[self.name], cache_enabled=False)

    def to_float(self, obs: torch.Tensor) -> torch.Tensor:
        """An encoder's integers in the type that networks calculate with; all of them are exact in it."""
        if self.name != "bf16" or not obs.is_cuda:
            return obs.to(DTYPES.get(self.name, torch.float32))
        flat = obs.view(-1, obs.shape[-1])
        if len(flat) not in self._arange:
            self._arange[len(flat)] = torch.arange(len(flat), device=obs.device)
        return self.gather(flat, self._arange[len(flat)]).view(obs.shape)

    def gather(self, obs: torch.Tensor, idx: torch.Tensor, widen: bool = True) -> torch.Tensor:
        """Observations idx of obs [N, ...], as to_float; as they are if not `widen`."""
        words = obs.view(len(obs), -1).view(torch.int64)  # several times faster than byte by byte
        shape = (len(idx), *obs.shape[1:])
        if widen and self.name == "bf16" and obs.is_cuda:
            from marl.compute.gather_bf16 import gather_bf16

            return gather_bf16(words, idx, obs.dtype == torch.int8).view(shape)
        found = torch.index_select(words, 0, idx).view(obs.dtype).view(shape)
        return self.to_float(found) if widen else found

    @torch.no_grad()
    def act(
        self,
        actor: HasStep,
        obs: torch.Tensor,
        is_first: torch.Tensor | None,
        hidden: torch.Tensor | None,
        widen: bool = True,
        out: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """An actor's outputs for observations, and its next hidden state. widen: see gather.

        out: where that state is written.
        """
        with self.autocast():
            return actor.step(self.to_float(obs) if widen else obs, is_first, hidden, out)

    def optimizer(self, parameters: Iterable[nn.Parameter], rate: float) -> Adam:
        """Adam. On a GPU its learning rate is a tensor, so that it can change in a recorded graph."""
        on_gpu = self.device.type == "cuda"
        lr = torch.tensor(rate, device=self.device) if on_gpu else rate
        optimizer = Adam(list(parameters), lr, fused=True, capturable=on_gpu)
        if self.name == "fp16":
            self._scalers[id(optimizer)] = torch.amp.GradScaler(self.device.type)
        return optimizer

    def flatten(self, optimizer: Adam) -> None:
        """On a GPU with Triton: let autograd add gradients up in one tensor, over which two kernels clip and step."""
        if self.device.type == "cuda" and self.name != "fp16" and not triton_problem(self.device):
            weights = flatten(optimizer.param_groups[0]["params"])
            optimizer.use_flat(weights, torch.zeros_like(weights), accumulate=True)

    def set_lr(self, optimizer: Optimizer, rate: float) -> None:
        """Change the learning rate without waiting for the device."""
        for group in optimizer.param_groups:
            if isinstance(group["lr"], torch.Tensor):
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate

    def state_dict(self, optimizer: Optimizer) -> dict[str, Any]:
        """State of the optimizer, and of its gradient scaler if there is one."""
        scaler = self._scalers.get(id(optimizer))
        return {"optimizer": optimizer.state_dict(), "scaler": scaler.state_dict() if scaler else {}}

    def load_state_dict(self, optimizer: Optimizer, state: dict[str, Any]) -> None:
        """Restore such a state; a scaler is left as it is if the state is of another precision."""
        optimizer.load_state_dict(state["optimizer"])
        scaler = self._scalers.get(id(optimizer))
        if scaler is not None and state["scaler"]:
            scaler.load_state_dict(state["scaler"])

    def backward(self, optimizer: Optimizer, loss: torch.Tensor, gradient: torch.Tensor | None = None) -> None:
        """Accumulate the gradients of the loss; with `gradient`, of any tensor whose gradient is known."""
        scaler = self._scalers.get(id(optimizer))
        if gradient is None:
            (loss if scaler is None else scaler.scale(loss)).backward()
        else:
            loss.backward(gradient if scaler is None else scaler.scale(gradient))

    def optimizer_step(self, optimizer: Adam, max_norm: float, skip: torch.Tensor | None = None) -> torch.Tensor:
        """Clip the gradients, step, and clear them; returns their norm before clipping.

        The step is skipped if the norm is not finite, or if `skip` is 1 (not with fp16). That is decided on the device;
        ranks decide alike, since their gradients are means over all of them.
        """
        max_norm = max_norm if max_norm > 0 else math.inf
        if optimizer.is_flat:
            norm = optimizer.clip_and_step(max_norm, skip)
            optimizer.clear_gradients()
            return norm
        scaler = self._scalers.get(id(optimizer))
        if scaler is not None:
            scaler.unscale_(optimizer)
        on_cpu = self.device.type == "cpu"
        if on_cpu:
            norm = optimizer.clip_directly(max_norm)
        else:
            norm = nn.utils.clip_grad_norm_([p for group in optimizer.param_groups for p in group["params"]], max_norm)
        if scaler is not None:
            scaler.step(optimizer)
            scaler.update()
        elif on_cpu:
            if math.isfinite(norm.item()) and not (skip is not None and skip.item()):
                optimizer.step_directly()
        else:
            # The fused Adam skips the step where found_inf is 1. x - x is 0 unless x is infinite or NaN.
            not_finite = (norm - norm).ne(0).float()
            found_inf = not_finite if skip is None else torch.maximum(not_finite, skip)
            optimizer.found_inf = found_inf  # type: ignore[attr-defined]  # read by Adam, declared nowhere
            optimizer.step()
        optimizer.clear_gradients()
        return norm
