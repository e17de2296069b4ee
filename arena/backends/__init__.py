"""Backends: the same small compiled functions, run over a whole batch on a CPU or on a GPU.

Loops and kernels are generated from functions of one item (loops.py), so no rule, encoder, opponent or learner is
written twice. This package may import rules, encoders, rng and jit; it knows tensors, threads and streams, and nothing
of what the functions mean. `cuda` and `numba_cuda` are imported only where a GPU, or Numba's simulator, is used.
"""
