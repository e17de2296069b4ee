"""One team against an opponent as an environment: tensors (team_batch), Gymnasium, Stable-Baselines3, TorchRL.

Made by marl.team_env (marl/api.py). May import arena, opponents and marl.rewards; the libraries are optional, and each
is imported by its one file only.
"""
