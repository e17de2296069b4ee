"""Ranks: the processes of one training, on one machine or on several. Everything that calls torch.distributed is in
this package: process groups, the launcher, the failure detector, and the environment variables of torchrun. It may
import the root modules of marl, marl.config, marl.compute and marl.networks. It knows nothing of rollouts, learners,
checkpoints and training; those call its `Solo` and `Ranks`, which have the same methods.
"""
