"""Advantages and n-step returns in plain torch: what the compiled loops of ppo_kernels.py and replay_buffer.py compute.

Used by `--no-fused`, and by the tests that hold the loops to it. T = turns, G = teams, 3 = snakes of a team.
"""

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


def n_step_returns(rewards: torch.Tensor, terminated: torch.Tensor, gamma: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns [M, 3] and discounts [M] from the rewards [n, M, 3] and terminated [n, M] of n turns in a row.

    The discount belongs to the value after the n turns; it is 0 if the match ended within them.
    """
    returns = torch.zeros_like(rewards[0])
    discounts = torch.ones_like(rewards[0, :, 0])
    for reward, ended in zip(rewards, terminated, strict=True):
        returns = returns + discounts[:, None] * reward
        discounts = discounts * gamma * (~ended).to(discounts.dtype)
    return returns, discounts


def moments(values: torch.Tensor) -> torch.Tensor:
    """The sum of the values, the sum of their squares, and their number."""
    return torch.stack((values.sum(), values.square().sum(), torch.full_like(values[0, 0, 0], values.numel())))
