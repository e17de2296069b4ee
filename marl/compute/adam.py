"""torch's Adam without torch's compiler around it, with short cuts for small networks on a CPU, and flat on a GPU.

The methods of torch's optimizers import torch.compile's machinery (torch._dynamo, sympy) at their first call, only to
keep it away from them: 1.6 s at every start. These are the same methods without that wrapper.
"""

import inspect
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from marl.compute import adam_kernels

_LOAD = inspect.unwrap(torch.optim.Adam.load_state_dict)
AVERAGES = ("exp_avg", "exp_avg_sq")  # of a parameter's state


class Adam(torch.optim.Adam):
    """Steps, states and files are those of torch.optim.Adam."""

    step = torch.no_grad()(inspect.unwrap(torch.optim.Adam.step))
    zero_grad = inspect.unwrap(torch.optim.Adam.zero_grad)
    state_dict = inspect.unwrap(torch.optim.Adam.state_dict)
    add_param_group = inspect.unwrap(torch.optim.Adam.add_param_group)

    _flat: "_Flat | FlatOnGpu | None" = None
    _accumulated: torch.Tensor | None = None  # flat gradients to which autograd adds

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """What was saved on another device is loaded as well: a CUDA graph reads the learning rate from a tensor."""
        own = [(group["lr"], group["capturable"]) for group in self.param_groups]
        _LOAD(self, state_dict)
        for group, (lr, capturable) in zip(self.param_groups, own, strict=True):
            loaded = float(group["lr"])
            group |= {"lr": lr.fill_(loaded) if isinstance(lr, torch.Tensor) else loaded, "capturable": capturable}

    def use_flat(
        self,
        weights: torch.Tensor,
        gradients: torch.Tensor,
        averages: Sequence[torch.Tensor] | None = None,
        accumulate: bool = False,
    ) -> None:
        """Step along gradients that lie in one tensor, for good, by `clip_and_step`. weights: made by `flatten`.

        averages: where states shall lie, if not in new tensors. accumulate: autograd adds to the gradients, so
        `clear_gradients` sets them to zero; else passes write all of them.
        In float32, without weight decay. On a GPU by Triton (triton_kernels.py says whether it can run).
        """
        self._flat = (_Flat if weights.device.type == "cpu" else FlatOnGpu)(self, weights, gradients, averages)
        self._accumulated = gradients if accumulate else None

    @property
    def is_flat(self) -> bool:
        """Whether all gradients lie in one tensor."""
        return self._flat is not None

    @torch.no_grad()
    def step_directly(self) -> None:
        """`step` on a CPU: the same kernels in the same order, without torch's checks.

        torch's own takes 400 us for a network of six tensors, of which the kernels are 100 us.
        """
        for group in self.param_groups:
            parameters = [parameter for parameter in group["params"] if parameter.grad is not None]
            states = [self.state[parameter] for parameter in parameters]
            if not all(states):  # the first step makes them
                self.step()
                return
            steps = [state["step"] for state in states]
            torch._foreach_add_(steps, 1)
            averages = ([state[name] for state in states] for name in AVERAGES)
            _run_kernel(group, steps, parameters, [parameter.grad for parameter in parameters], *averages)

    @torch.no_grad()
    def clip_directly(self, max_norm: float) -> torch.Tensor:
        """torch.nn.utils.clip_grad_norm_ on a CPU: the same kernels, without what torch groups and checks before.

        Gradients that need no clipping are not multiplied by 1.
        """
        parameters = [parameter for group in self.param_groups for parameter in group["params"]]
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))
        if not norm.item() + 1e-6 <= 0.99 * max_norm:  # nor if it is NaN
            torch._foreach_mul_(gradients, (max_norm / (norm + 1e-6)).clamp(max=1.0))
        return norm

    def clip_and_step(self, max_norm: float, skip: torch.Tensor | None = None) -> torch.Tensor:
        """Clip flat gradients and step along them; returns their norm before, on a GPU until the next step.

        The step is left out if `skip` is 1, and if the norm is not finite. A GPU is not waited for.
        """
        if self._flat is None:
            raise ValueError("the gradients of this optimizer do not lie in one tensor")
        return self._flat.clip_and_step(max_norm, skip)

    def take_flat_states(self) -> torch.Tensor:
        """For steps that others make: the counts of steps, all equal, after states lie in the flat tensors."""
        if self._flat is None:
            raise ValueError("the gradients of this optimizer do not lie in one tensor")
        self._flat.take_states()
        return self._flat.steps

    def clear_gradients(self) -> None:
        """`zero_grad(set_to_none=True)` without torch's profiler around it, which takes 50 us.

        Flat ones stay; those to which autograd adds become 0.
        """
        if self._accumulated is not None:
            self._accumulated.zero_()
        if self._flat is None:
            for group in self.param_groups:
                for parameter in group["params"]:
                    parameter.grad = None


class _FlatStates:
    """Gradients and averages of an optimizer, each in one tensor; gradients and states of parameters are views."""

    def __init__(
        self,
        optimizer: Adam,
        weights: torch.Tensor,
        gradients: torch.Tensor,
        averages: Sequence[torch.Tensor] | None = None,
    ) -> None:
        self._optimizer = optimizer
        (group,) = optimizer.param_groups
        self._parameters = group["params"]
        for parameter, part in zip(self._parameters, _parts(gradients, self._parameters), strict=True):
            parameter.grad = part
        self._first: torch.Tensor | None = None  # the first parameter's average
        self.steps = torch.zeros(len(self._parameters), device=weights.device)  # all equal
        self._averages = averages or [torch.zeros_like(weights) for _ in AVERAGES]

    def take_states(self) -> None:
        """At the first step, and after states were loaded: let the states of all parameters be views of ours."""
        states = [self._optimizer.state[parameter] for parameter in self._parameters]
        if self._first is not None and states[0].get(AVERAGES[0]) is self._first:
            return
        views = [self.steps.unbind(), *(_parts(average, self._parameters) for average in self._averages)]
        for state, *parts in zip(states, *views, strict=True):
            for name, part in zip(("step", *AVERAGES), parts, strict=True):
                part.copy_(state.get(name, torch.zeros(())))
                state[name] = part
        self._first = views[1][0]


class _Flat(_FlatStates):
    """On a CPU one compiled call clips and steps."""

    def __init__(self, optimizer: Adam, weights: torch.Tensor, gradients: torch.Tensor, *rest: Any) -> None:
        super().__init__(optimizer, weights, gradients, *rest)
        ends = np.cumsum([parameter.numel() for parameter in self._parameters])
        tensors = (weights, gradients, *self._averages)
        self._arrays = (*(tensor.numpy() for tensor in tensors), ends, np.zeros(len(ends), np.float32))

    def clip_and_step(self, max_norm: float, skip: torch.Tensor | None) -> torch.Tensor:
        group = self._optimizer.param_groups[0]
        self.take_states()
        steps, is_skipped = self.steps.numpy(), skip is not None and bool(skip.item())
        settings = (float(group["lr"]), *group["betas"], group["eps"])
        norm = adam_kernels.clip_and_step(*self._arrays, max_norm, is_skipped, *settings, float(steps[0]) + 1)
        if math.isfinite(norm) and not is_skipped:
            steps += 1  # a tensor's own addition takes 7 us
        return torch.tensor(norm)


class FlatOnGpu(_FlatStates):
    """On a GPU two kernels clip and step. The learning rate is a tensor."""

    def __init__(self, optimizer: Adam, weights: torch.Tensor, gradients: torch.Tensor, *rest: Any) -> None:
        from marl.compute.flat_adam_kernels import ClipAndStep

        super().__init__(optimizer, weights, gradients, *rest)
        self._clip_and_step = ClipAndStep(weights, gradients, self._averages, self.steps)
        self._zero = torch.zeros((), device=weights.device)

    def clip_and_step(self, max_norm: float, skip: torch.Tensor | None) -> torch.Tensor:
        group = self._optimizer.param_groups[0]
        self.take_states()
        skip = self._zero if skip is None else skip
        self._clip_and_step(max_norm, skip, group["lr"], group["betas"], group["eps"])
        return self._clip_and_step.norm


def flatten(parameters: Iterable[nn.Parameter]) -> torch.Tensor:
    """Lay parameters one after the other into one new tensor; they become views of it."""
    parameters = list(parameters)
    flat = torch.cat([parameter.detach().flatten() for parameter in parameters])
    for parameter, part in zip(parameters, _parts(flat, parameters), strict=True):
        parameter.data = part
    return flat


def _parts(flat: torch.Tensor, parameters: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Parts of a flat tensor in the shapes of parameters."""
    sizes = [parameter.numel() for parameter in parameters]
    return [part.view_as(each) for part, each in zip(flat.split(sizes), parameters, strict=True)]


def _run_kernel(
    group: dict[str, Any],
    steps: list[torch.Tensor],
    parameters: list[torch.Tensor],
    gradients: list[torch.Tensor],
    exp_avgs: list[torch.Tensor],
    exp_avg_sqs: list[torch.Tensor],
) -> None:
    """torch's kernel."""
    torch._fused_adam_(
        parameters,
        gradients,
        exp_avgs,
        exp_avg_sqs,
        [],
        steps,
        amsgrad=False,
        lr=group["lr"],
        beta1=group["betas"][0],
        beta2=group["betas"][1],
        weight_decay=group["weight_decay"],
        eps=group["eps"],
        maximize=False,
    )
