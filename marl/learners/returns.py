"""Advantages, from the last turn of a rollout back. T = turns, G = teams, 3 = snakes of a team."""

import torch


def generalized_advantages(
    rewards: torch.Tensor, terminated: torch.Tensor, values: torch.Tensor, gamma: float, gae_lambda: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Advantages and returns [T, G, 3] from rewards [T, G, 3], terminated [T, G] and values [T + 1, G, 3].

    delta_t = r_t + gamma V_{t+1} - V_t;  A_t = delta_t + gamma lambda A_{t+1};  a match that ends cuts both sums.
    """
    advantages = torch.zeros_like(rewards)
    gae = torch.zeros_like(rewards[0])
    for t in reversed(range(len(rewards))):
        nonterminal = (~terminated[t]).to(rewards.dtype)[:, None]
        delta = rewards[t] + gamma * nonterminal * values[t + 1] - values[t]
        gae = delta + gamma * gae_lambda * nonterminal * gae
        advantages[t] = gae
    return advantages, advantages + values[:-1]


def moments(values: torch.Tensor) -> torch.Tensor:
    """The sum of the values, the sum of their squares, and their number."""
    return torch.stack((values.sum(), values.square().sum(), torch.full_like(values[0, 0, 0], values.numel())))
