"""A dense layer's product, for many rows on a GPU."""

from typing import Any

import torch
from torch.nn import functional as F

ALIGNED = 8  # columns of a product whose memory the matrix units can read in one go


def linear(rows: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """rows [..., K] @ weight [N, K].T + bias [N], as torch.nn.functional.linear."""
    if not rows.is_cuda:
        return F.linear(rows, weight, bias)
    missing = -len(bias) % ALIGNED
    if missing:
        return linear(rows, F.pad(weight, (0, 0, 0, missing)), F.pad(bias, (0, missing)))[..., : len(bias)]
    return _Linear.apply(rows, weight, bias)


class _Linear(torch.autograd.Function):
    """As torch's, but the bias's gradient is a product, too: torch's sum over long columns keeps most of a GPU idle."""

    @staticmethod
    @torch.amp.custom_fwd(device_type="cuda")
    def forward(ctx: Any, rows: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(rows, weight)
        return F.linear(rows, weight, bias)

    @staticmethod
    @torch.amp.custom_bwd(device_type="cuda")
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        rows, weight = ctx.saved_tensors
        flat = gradient.reshape(-1, gradient.shape[-1])
        of_rows = gradient @ weight.to(gradient.dtype) if ctx.needs_input_grad[0] else None
        of_weight = flat.t() @ rows.reshape(-1, rows.shape[-1]).to(flat.dtype)
        return of_rows, of_weight, flat.t() @ flat.new_ones(len(flat))
