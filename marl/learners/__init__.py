"""Learners: from the turns in a buffer to gradients and optimizer steps.

Here belong losses, returns, buffers with their sampling, and learning-rate schedules. May import marl.rollout and all
below it; knows no files, logs or command line. A learner is a class that follows learner.Learner and a line in
marl.registry.LEARNERS.
"""
