"""Compute: how tensors are calculated on a device, whatever they mean.

Here belong the machine itself (cores, memory, GPUs, which process this is), threads, work that overlaps with other
work, and measurements of what is fastest on this CPU. May import arena.files, arena.backends and marl.errors; knows no
networks, learners or ranks.
"""
