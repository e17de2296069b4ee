"""Compute: how tensors are calculated on a device, whatever they mean.

Here belong number formats, CUDA graphs, work that overlaps with other work, and layers that are faster than torch's.
May import arena.backends and marl.errors; knows no networks, learners or ranks.
"""
