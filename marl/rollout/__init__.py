"""Rollouts: matches of this rank, played turn by turn, become tensors in a buffer.

Here belong the assignment of matches, the seats of frozen networks, the turn itself and the buffer that it is written
to. May import arena, opponents, marl.rewards, marl.config, marl.compute and marl.networks; knows no losses or files.
"""
