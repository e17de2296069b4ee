"""PPO's loss, as in the paper. M = rows of a minibatch, 3 = snakes of a team.

L = - mean min(ratio A, clip(ratio) A) + value_weight * mean max((V - R)^2, (clip(V) - R)^2) / 2
    - entropy_coef * mean entropy + uniform_coef * mean cross-entropy of the uniform policy with this one
"""

from typing import NamedTuple

import torch

from arena.rules import ACTIONS
from marl.networks.policy import MASKED_LOGIT


class PpoBatch(NamedTuple):
    """What the loss is computed from; [M, 3] each."""

    actions: torch.Tensor  # local actions that were played
    masked: torch.Tensor  # action that was masked, -1 for none
    log_probs: torch.Tensor  # of the actions, when they were played
    values: torch.Tensor  # when they were played
    advantages: torch.Tensor  # normalised
    returns: torch.Tensor


class Coefs(NamedTuple):
    """What the loss depends on beside the data. Tensors change during a run; numbers are fixed."""

    regularisers: torch.Tensor  # [2]: coefficients of the entropy and of uniform_kl
    clip: float
    value_clip: float
    value_weight: float


def ppo_loss(outputs: torch.Tensor, batch: PpoBatch, coefs: Coefs) -> tuple[torch.Tensor, torch.Tensor]:
    """The loss, and the means of policy loss, value loss, entropy, approximate KL and clipped share.

    outputs [M, 3, 5]: the network's four logits and value.
    """
    logits, values = outputs[..., :ACTIONS].float(), outputs[..., ACTIONS].float()
    entropy_coef, uniform_coef = coefs.regularisers
    legal = torch.arange(ACTIONS, device=logits.device) != batch.masked[..., None]
    log_probs = logits.masked_fill(~legal, MASKED_LOGIT).log_softmax(-1)

    log_ratio = log_probs.gather(-1, batch.actions.long()[..., None]).squeeze(-1) - batch.log_probs
    ratio = log_ratio.exp()
    clipped_ratio = ratio.clamp(1 - coefs.clip, 1 + coefs.clip)
    policy_loss = -torch.minimum(ratio * batch.advantages, clipped_ratio * batch.advantages)

    value_loss = (values - batch.returns).square()
    if coefs.value_clip > 0:
        clipped_values = batch.values + (values - batch.values).clamp(-coefs.value_clip, coefs.value_clip)
        value_loss = torch.maximum(value_loss, (clipped_values - batch.returns).square())
    value_loss = value_loss / 2

    entropy = -(log_probs.exp() * log_probs * legal).sum(-1)
    uniform_cross_entropy = -(log_probs * legal).sum(-1) / legal.sum(-1)

    loss = policy_loss + coefs.value_weight * value_loss - entropy_coef * entropy + uniform_coef * uniform_cross_entropy
    approximate_kl = ratio - 1 - log_ratio
    clipped = (clipped_ratio != ratio).float()
    stats = torch.stack([x.detach().mean() for x in (policy_loss, value_loss, entropy, approximate_kl, clipped)])
    return loss.mean(), stats
