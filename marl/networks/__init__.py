"""Networks: actors and critics over an encoder's observations, and policies that play with them.

May import arena, marl.config, marl.compute and marl.registry; knows no losses, ranks, rollouts or files. A network kind
is a stem (stems.py) and a line in marl.registry.NETWORKS.
"""
