"""Files of a training run: its folder, checkpoints, policy snapshots, and the record that lets a relaunch find the run.

May import the arena, opponents, and marl's config, compute, networks and ranks; knows nothing of rollouts, learners or
the training loop. Dictionaries and tensors come in, files go out, and the other way round.
"""
