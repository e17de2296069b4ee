"""The training loop and its output: trainer, past selves, evaluation, metrics, console and report.

May import everything below it (arena, opponents, config, compute, networks, ranks, rollout, storage, learners,
pictures); only export, doctor, bench and the commands may import it.
"""
