"""Options of the learners."""

from dataclasses import dataclass
from typing import Literal

from marl.config.values import at_least, between, check_ranges

BUFFER_MAX = 10_000_000_000  # transitions; their smallest rows would take 800 GB


@dataclass(frozen=True)
class ReplayConfig:
    """What learners with a replay buffer have in common."""

    batch_size: int | None = None
    """Transitions in a minibatch, per rank; one transition is one turn of one snake. Rounded up to whole turns of three
    snakes (auto: 1024 for the whole run, split over the ranks; GPU 16384)."""
    buffer_size: int | None = None
    """Transitions in the replay buffer, per rank (auto: 1 million for the whole run, split over the ranks; GPU 2
    million; less if memory is short)."""
    turns: int | None = None
    """Turns played between two rounds of updates (auto: 4)."""
    updates: int | None = None
    """Updates in a round (auto: 1 in ddpg, 2 in matd3, 3 in qlearning; GPU 5, 6 in matd3)."""
    warmup_turns: int = 100
    """Turns in the replay buffer before the first update."""
    gamma: float = 0.97
    """Discount factor per turn."""
    n_step: int = 3
    """Rewards in an n-step return, before the value of the target critic."""
    tau: float = 0.01
    """Soft update of the target networks: share of the online weights, at each update."""
    lr_end: float = 1.0
    """Learning rates at the end of the run, as a share of those at the start; they fall linearly."""
    epsilon: float = 0.5
    """Probability of a random move at the start; all other moves are sampled from the actor's softmax."""
    epsilon_speed: float = 0.9995
    """Factor by which epsilon is multiplied at each episode."""
    epsilon_min: float = 0.02
    """Lower limit of epsilon."""
    max_grad_norm: float = 10.0
    """Gradients are clipped to this norm; 0: no clipping."""

    def check(self, section: str) -> None:
        """Raise a UserError for a value outside its range."""
        check_ranges(
            section,
            self,
            batch_size=at_least(1),
            buffer_size=between(1, BUFFER_MAX),
            turns=at_least(1),
            updates=at_least(1),
            warmup_turns=at_least(1),
            n_step=at_least(1),
            gamma=between(0, 1),
            tau=between(0, 1),
            lr_end=between(0, 1),
            epsilon=between(0, 1),
            epsilon_speed=between(0, 1),
            epsilon_min=between(0, 1),
            max_grad_norm=at_least(0),
        )

    @property
    def period(self) -> int:
        """Steps after which all networks have been moved; a round of updates is a multiple of it."""
        return 1


@dataclass(frozen=True)
class DdpgConfig(ReplayConfig):
    """DDPG for discrete moves."""

    epsilon: float = 0.03
    """Probability of a random move at the start; all other moves are sampled from the actor's softmax."""
    epsilon_speed: float = 0.998
    """Factor by which epsilon is multiplied at each episode."""
    epsilon_min: float = 0.005
    """Lower limit of epsilon."""
    a_lr: float | None = None
    """Actor learning rate (auto: 2e-3, GPU 1.5e-3)."""
    c_lr: float | None = None
    """Critic learning rate (auto: 2.5e-3, GPU 1.5e-3)."""
    entropy: float = 0.01
    """Coefficient of the actor's entropy bonus; keeps the policy from becoming deterministic too early."""
    uniform_kl: float | None = None
    """Coefficient of the KL divergence (cross-entropy) from the uniform policy over legal actions; keeps rarely right
    actions alive. Constant over the run (auto: 0.02 with an encoder that rotates the board, else 0)."""
    critic: Literal["snake", "team"] = "snake"
    """Input of the critic. snake: the observation of one snake. team: the observations of all three snakes and the
    moves of the mates (maddpg, matd3: team)."""
    critic_form: Literal["heads", "joined"] = "heads"
    """Output of the critic. heads: one value per move, so that the actor's loss is an expectation over its moves.
    joined: one value; the move probabilities are an input after the first layer, as in classic DDPG."""
    twin: bool = False
    """Two critics; the target is the lower of their values."""
    policy_delay: int = 1
    """Updates of the critic for one update of the actor and of the target networks (matd3: 2)."""
    target_noise: float = 0.0
    """Target policy smoothing: standard deviation of the Gaussian noise on the logits of the target actor; 0: no noise
    (matd3: 0.2)."""
    target_noise_clip: float = 0.5
    """Limit of that noise in both directions."""

    def __post_init__(self) -> None:
        self.check("ddpg")
        check_ranges(
            "ddpg",
            self,
            a_lr=at_least(0),
            c_lr=at_least(0),
            entropy=at_least(0),
            uniform_kl=at_least(0),
            policy_delay=at_least(1),
            target_noise=at_least(0),
            target_noise_clip=at_least(0),
        )

    @property
    def period(self) -> int:
        return self.policy_delay


@dataclass(frozen=True)
class QLearningConfig(ReplayConfig):
    """Value decomposition: VDN and QMIX."""

    q_lr: float = 1e-3
    """Learning rate of the Q-network and of the mixer."""
    epsilon: float = 1.0
    """Probability of a random move at the start; all other moves are those with the highest Q-value."""
    mixer: Literal["sum", "monotonic"] = "sum"
    """How the Q-values of the snakes make that of the team. sum: their sum (vdn). monotonic: a network whose weights
    are made from the team's observations and are never negative (qmix)."""
    mixer_width: int = 32
    """Width of the hidden layer of the monotonic mixer."""

    def __post_init__(self) -> None:
        self.check("qlearning")
        check_ranges("qlearning", self, q_lr=at_least(0), mixer_width=at_least(1))


@dataclass(frozen=True)
class PpoConfig:
    """PPO, with or without an LSTM."""

    critic: Literal["snake", "team"] = "snake"
    """Where values come from. snake: from the network of the actor, which sees one snake's observation. team: from a
    central critic, a network of its own that sees the observations of all three snakes; only training uses it
    (mappo: team)."""
    update_interval: int | None = None
    """Env steps of a rollout, over all ranks; one env step is one turn of one match (auto: 16 turns of each match)."""
    batch_size: int | None = None
    """Snake turns in a minibatch, per rank; a rollout is split into equal minibatches of about this size (auto: 6144
    for the whole run, split over the ranks; GPU 65536). ppo_lstm splits by teams, each with all its turns."""
    epochs: int = 1
    """Passes over each rollout."""
    gamma: float = 0.97
    """Discount factor per turn."""
    gae_lambda: float = 0.9
    """Lambda of the generalised advantage estimate. 0: one reward and the critic's value; 1: all rewards to the end."""
    clip: float = 0.2
    """Clip range of the probability ratio: a move whose probability has changed by more than this share is not pushed
    further."""
    value_clip: float = 0.0
    """Clip range of a value around the value at the time of play; 0: no clipping."""
    value_weight: float = 0.5
    """Coefficient of the value loss."""
    entropy: float = 0.005
    """Coefficient of the entropy bonus at the start; keeps the policy from becoming deterministic too early."""
    entropy_end: float = 0.0005
    """Coefficient of the entropy bonus at the end of the run; it changes linearly."""
    uniform_kl: float | None = None
    """Coefficient of the KL divergence (cross-entropy) from the uniform policy over legal actions; keeps rarely right
    actions alive. Falls linearly to 0 over the run. Unlike the entropy's, its gradient does not vanish for an action
    with a probability near 0: where the encoder rotates the board, one side is rarely right, and must not be given up
    (auto: 0.02 with such an encoder, else 0)."""
    optimizer: Literal["adam", "muon"] = "adam"
    """muon: Adam, but the matrix of a hidden layer moves by the same length in all directions at once. On a GPU it
    learns more from as many turns of matches, with `--lr 1e-2`; on a CPU it does not."""
    lr: float | None = None
    """Learning rate (auto: 0.006, GPU 0.002)."""
    lr_end: float = 0.1
    """Learning rate at the end of the run, as a share of that at the start; it falls linearly."""
    max_grad_norm: float = 0.5
    """Gradients are clipped to this norm; 0: no clipping."""
    target_kl: float = 0.0
    """If the KL divergence between the policy that played and the present one exceeds this, all ranks skip the rest of
    the updates of this rollout; 0: never."""

    def __post_init__(self) -> None:
        check_ranges(
            "ppo",
            self,
            update_interval=at_least(1),
            batch_size=at_least(1),
            epochs=at_least(1),
            gamma=between(0, 1),
            gae_lambda=between(0, 1),
            clip=at_least(0),
            value_clip=at_least(0),
            value_weight=at_least(0),
            entropy=at_least(0),
            entropy_end=at_least(0),
            uniform_kl=at_least(0),
            lr=at_least(0),
            lr_end=between(0, 1),
            max_grad_norm=at_least(0),
            target_kl=at_least(0),
        )
