"""Muon: Adam for biases and heads; a hidden layer's matrix moves by the same length in all directions at once.

The step of a matrix is the orthogonal matrix nearest to its averaged gradient (K. Jordan et al., 2024), so that what
few rows of a batch ask for counts as much as what most of them do. Its size is about that of Adam's step.
"""

import torch
from torch import nn

from marl.learners.adam import BETA1, TINY, Adam, views_of
from marl.networks.layers import Head

STEP = 0.2  # root mean square of the step's numbers, in learning rates
ROUNDS = 5
# x <- A x + B (x x^T) x + C (x x^T)^2 x brings every singular value in (0, 1] to about 1 (0.7 to 1.2) in five rounds.
A, B, C = 3.4445, -4.7750, 2.0315


class Muon(Adam):
    """States and files are those of Adam."""

    def __init__(self, network: nn.Module, lr: float) -> None:
        super().__init__(network, lr)
        # Products in bf16 are exact enough for a direction. Older GPUs only emulate them.
        is_cuda = self.weights.is_cuda
        self._dtype = torch.bfloat16 if is_cuda and torch.cuda.is_bf16_supported(False) else self.weights.dtype
        heads = {id(module.weight) for module in network.modules() if isinstance(module, Head)}
        self._is_matrix = [p.ndim == 2 and id(p) not in heads for p in self.parameters]

    def change(self, lr: torch.Tensor, gradients: torch.Tensor) -> torch.Tensor:
        change = super().change(lr, gradients)
        ahead = gradients.lerp(self.exp_avg, BETA1)  # Nesterov's: the average as if this gradient came once more
        parts = zip(self._is_matrix, views_of(change, self.parameters), views_of(ahead, self.parameters), strict=True)
        for is_matrix, part, matrix in parts:
            if is_matrix:
                part.copy_(nearest_orthogonal(matrix, self._dtype) * (lr * STEP * max(part.shape) ** 0.5))
        return change


def nearest_orthogonal(matrix: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """U V^T of a matrix U S V^T, by Newton and Schulz's iteration: multiplications alone, of numbers of this type."""
    is_tall = matrix.shape[0] > matrix.shape[1]
    x = (matrix.mT if is_tall else matrix).to(dtype)  # the products of rows are then the smaller ones
    x = x / (torch.linalg.vector_norm(x) + TINY)
    for _ in range(ROUNDS):
        products = x @ x.mT
        x = torch.addmm(x, torch.addmm(products, products, products, beta=B, alpha=C), x, beta=A)
    return (x.mT if is_tall else x).to(matrix.dtype)
