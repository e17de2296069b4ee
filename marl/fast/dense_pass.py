"""Forward and backward passes of dense networks on a CPU, without autograd.

Autograd, modules and fresh tensors cost a small network more than its products: an update of DDPG with 72 rows took
4.9 ms, of which the products were 1.1 ms. Here the same products write into tensors that are made once. On one thread
a pass is one compiled call (dense_kernels.py); else it is written with torch's functions, which may use more threads.
Both give the results of the modules and autograd, to the bit.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import nn

from arena.encoders import Encoder
from marl.fast import blas, dense_kernels
from marl.networks.actors import Actor
from marl.networks.critics import Critic
from marl.networks.layers import MLP, Head
from marl.networks.stems import DenseStem

TRIAL_ROWS, TRIAL_SEED = 64, 1
ROUNDING = 1e-3  # relative difference of two results that is no more than rounding


class DenseLayers(NamedTuple):
    """The weights of a network: dense layers with ReLU between them. They share memory with the parameters."""

    scale: torch.Tensor  # of the observations, by which the first layer's weights are multiplied
    weights: list[torch.Tensor]
    biases: list[torch.Tensor]


def dense_layers(network: nn.Module) -> DenseLayers | None:
    """The layers of an actor or a critic; None if it has anything else than dense layers."""
    if type(network) not in (Actor, Critic) or network.mates is not None or getattr(network, "joined", False):
        return None
    stem, tail = network.first, network.tail
    if type(stem) is not DenseStem or type(tail) is not MLP:
        return None
    layers = [stem, *tail.layers, tail.head]
    if any(type(layer) not in (nn.Linear, Head) for layer in layers[1:]):
        return None
    return DenseLayers(
        stem.scale, [layer.weight.detach() for layer in layers], [layer.bias.detach() for layer in layers]
    )


def proven_layers(actor: nn.Module, encoder: Encoder) -> DenseLayers | None:
    """The layers of an actor, if passes over them give the outputs of the actor itself for rows of its encoder."""
    layers = dense_layers(actor)
    if layers is None:
        return None
    rows = trial_rows(encoder)
    with torch.no_grad():
        same = same_outputs(actor(rows), DenseInference(layers)(rows))
    return layers if same else None


def trial_rows(encoder: Encoder) -> torch.Tensor:
    """Observations with any of the numbers that an encoder may write."""
    draw = np.random.default_rng(TRIAL_SEED).integers
    rows = draw(encoder.low.astype(int), encoder.high.astype(int), (TRIAL_ROWS, encoder.width), endpoint=True)
    return torch.from_numpy(rows.astype(encoder.low.dtype))


def same_outputs(text: torch.Tensor, passes: torch.Tensor) -> bool:
    """Whether numbers are equal but for rounding."""
    return text.shape == passes.shape and torch.allclose(text, passes, rtol=ROUNDING, atol=ROUNDING / 10)


class DensePass:
    """Passes of one network with a fixed number of rows, always through the same tensors; for one thread at a time."""

    def __init__(self, layers: DenseLayers, x: torch.Tensor, outputs: torch.Tensor | None = None) -> None:
        """x [N, W]: the observations as floats, which `forward` reads. outputs [N, n]: where it writes, if given."""
        self._layers = layers
        outputs = torch.empty(len(x), len(layers.biases[-1])) if outputs is None else outputs
        self._scaled = torch.empty_like(layers.weights[0])
        self._hidden, self.outputs = [torch.empty(len(x), len(bias)) for bias in layers.biases[:-1]], outputs
        self._inputs = [x, *self._hidden]
        weights = [self._scaled, *layers.weights[1:]]
        self._products = list(
            zip(layers.biases, self._inputs, [w.t() for w in weights], [*self._hidden, outputs], strict=True)
        )
        self.compiled: partial | None = None  # the forward pass as one call
        if blas.is_usable():
            arrays = (_array(layers.scale), _array(self._scaled), _arrays(layers.weights), _arrays(layers.biases))
            rest = (_arrays(self._inputs), _arrays([*self._hidden, outputs]))
            self.compiled = partial(dense_kernels.forward, blas.sgemm_function(), *arrays, *rest)

    def forward(self) -> torch.Tensor:
        """The outputs [N, n] for the rows of x; always the same tensor."""
        if self.compiled is not None:
            self.compiled()
            return self.outputs
        torch.mul(self._layers.weights[0], self._layers.scale, out=self._scaled)
        for bias, x, weight, out in self._products:
            torch.addmm(bias, x, weight, out=out)
            if out is not self.outputs:
                out.relu_()
        return self.outputs

    def bind_backward(self, by_outputs: torch.Tensor, gradients: Sequence[torch.Tensor]) -> Callable[[], None]:
        """A call that writes the gradients of the parameters, given those of the outputs of the last forward pass.

        by_outputs [N, n]. gradients: weight and bias of each layer in turn.
        """
        by_layer = [*(torch.empty_like(each) for each in self._hidden), by_outputs]
        if self.compiled is None:
            return partial(self._backward, by_layer, gradients)
        layers, widest = self._layers, max(each.shape[1] for each in by_layer)
        levels = np.zeros((dense_kernels.LEVELS, widest), np.float32)
        arrays = (_array(layers.scale), _arrays(layers.weights), _arrays(self._inputs), _arrays(by_layer))
        found = (_arrays(gradients[::2]), _arrays(gradients[1::2]))
        return partial(dense_kernels.backward, blas.sgemm_function(), *arrays, *found, levels)

    def _backward(self, by_layer: Sequence[torch.Tensor], gradients: Sequence[torch.Tensor]) -> None:
        for i in reversed(range(len(self._inputs))):
            torch.mm(by_layer[i].t(), self._inputs[i], out=gradients[2 * i])
            torch.sum(by_layer[i], 0, out=gradients[2 * i + 1])
            if i > 0:
                by_input = by_layer[i - 1]
                torch.mm(by_layer[i], self._layers.weights[i], out=by_input)
                torch.ops.aten.threshold_backward.grad_input(by_input, self._inputs[i], 0, grad_input=by_input)
        gradients[0].mul_(self._layers.scale)


class DenseInference:
    """Outputs of a network for observations, without gradients."""

    def __init__(self, layers: DenseLayers) -> None:
        self._layers = layers
        self._passes: dict[tuple[int, int], tuple[torch.Tensor, DensePass]] = {}

    def __call__(self, obs: torch.Tensor) -> torch.Tensor:
        """The outputs [N, n] for an encoder's integers [N, W]. Two parts of one tensor may be asked for at once."""
        part = (int(obs.storage_offset()), len(obs))
        if part not in self._passes:
            x = torch.empty(obs.shape)
            self._passes[part] = x, DensePass(self._layers, x)
        x, dense_pass = self._passes[part]
        x.copy_(obs)
        return dense_pass.forward().clone()

    def bind(self, obs: torch.Tensor, outputs: torch.Tensor) -> tuple[partial, ...]:
        """Compiled calls that write the outputs for obs [N, W] into `outputs` [N, n]; none if there are no such."""
        x = torch.empty(obs.shape)
        dense_pass = DensePass(self._layers, x, outputs)
        if dense_pass.compiled is None:
            return ()
        return partial(dense_kernels.to_floats, _array(obs), _array(x)), dense_pass.compiled


def _array(tensor: torch.Tensor) -> np.ndarray:
    return tensor.detach().numpy()


def _arrays(tensors: Sequence[torch.Tensor]) -> tuple[np.ndarray, ...]:
    return tuple(map(_array, tensors))
