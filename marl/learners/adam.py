"""Adam with clipped gradients, over all weights of a network as one tensor.

Written out in torch: a dozen calls on a CPU, three kernels on a GPU after torch.compile. torch's own fused step puts a
network of this size on ten blocks of a GPU (90 us instead of 20 on an H200), and loads torch's compiler at its first
call: 1.6 s of every start. States and files are those of torch.optim.Adam.
"""

from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

BETA1, BETA2, EPS = 0.9, 0.999, 1e-8
TINY = 1e-6  # added to a norm that is divided by
AVERAGES = ("exp_avg", "exp_avg_sq")  # of a parameter's state


class Adam:
    """The weights of a network become views of `weights`; `gradients` is what `step` goes along."""

    def __init__(self, network: nn.Module, lr: float) -> None:
        self.parameters = list(network.parameters())
        self.weights = flatten(self.parameters)
        self.gradients = torch.zeros_like(self.weights)
        self.exp_avg, self.exp_avg_sq = torch.zeros_like(self.weights), torch.zeros_like(self.weights)
        self.steps = torch.zeros((), device=self.weights.device)
        self.lr = torch.tensor(lr, device=self.weights.device)  # a tensor: a recorded CUDA graph reads it
        self.param_groups = [{"params": self.parameters}]  # what torch's GradScaler looks for

    def take_gradients(self) -> None:
        """Move what autograd has added up at the parameters into `gradients`."""
        found = [p.grad if p.grad is not None else torch.zeros_like(p) for p in self.parameters]
        torch.cat([gradient.flatten() for gradient in found], out=self.gradients)
        for parameter in self.parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self, max_norm: float, skip: torch.Tensor | None = None) -> torch.Tensor:
        """Clip the gradients to max_norm (0: not at all) and step along them; returns their norm before.

        Nothing changes if the norm is not finite, or if `skip` is 1. That is decided on the device; ranks decide
        alike, since their gradients are means over all of them.
        """
        norm = torch.linalg.vector_norm(self.gradients)
        goes = norm.isfinite() if skip is None else norm.isfinite() & (skip == 0)
        factor = (max_norm / (norm + TINY)).clamp(max=1.0) if max_norm > 0 else torch.ones_like(norm)
        gradients = (self.gradients * factor).masked_fill(~goes, 0.0)
        moves = goes.float()  # 0 or 1. A product with it: torch.where copies each of its numbers to the device
        self.exp_avg.lerp_(gradients, moves * (1 - BETA1))
        self.exp_avg_sq.lerp_(gradients.square(), moves * (1 - BETA2))
        self.steps += moves
        self.weights.sub_(self.change(moves * self.lr, gradients))
        return norm

    def change(self, lr: torch.Tensor, gradients: torch.Tensor) -> torch.Tensor:
        """What a step takes off the weights, once the averages hold its gradients."""
        steps = self.steps.clamp(min=1.0)
        size = lr / (1 - BETA1**steps)
        deviation = (self.exp_avg_sq / (1 - BETA2**steps)).sqrt() + EPS
        return size * self.exp_avg / deviation

    def state_dict(self) -> dict[str, Any]:
        """As that of torch.optim.Adam."""
        averages = (views_of(average, self.parameters) for average in (self.exp_avg, self.exp_avg_sq))
        state = {
            i: {"step": self.steps.clone(), **dict(zip(AVERAGES, views, strict=True))}
            for i, views in enumerate(zip(*averages, strict=True))
        }
        group = {"lr": float(self.lr), "betas": (BETA1, BETA2), "eps": EPS, "params": list(state)}
        return {"state": state if self.steps else {}, "param_groups": [group]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore such a state, of torch.optim.Adam too."""
        self.lr.fill_(float(state_dict["param_groups"][0]["lr"]))
        states = state_dict["state"]
        for name in AVERAGES:
            for i, view in enumerate(views_of(getattr(self, name), self.parameters)):
                view.copy_(states[i][name]) if states else view.zero_()
        self.steps.copy_(states[0]["step"] if states else torch.zeros(()))


def flatten(parameters: Iterable[nn.Parameter]) -> torch.Tensor:
    """Lay parameters one after the other into one new tensor; they become views of it."""
    parameters = list(parameters)
    flat = torch.cat([parameter.detach().flatten() for parameter in parameters])
    for parameter, view in zip(parameters, views_of(flat, parameters), strict=True):
        parameter.data = view
    return flat


def views_of(flat: torch.Tensor, parameters: list[nn.Parameter]) -> list[torch.Tensor]:
    """Parts of a flat tensor in the shapes of parameters."""
    sizes = [parameter.numel() for parameter in parameters]
    return [part.view_as(each) for part, each in zip(flat.split(sizes), parameters, strict=True)]
