"""How many evaluations a run has, and of how many matches: fewer and smaller ones in a short run.

    evaluations x opponents x (matches + FIXED) <= episodes

Evaluations then take about a fifth of the run on two CPU cores with PPO, and a tenth with DDPG. Measured on one
Neoverse-N1 core: an evaluation against four opponents takes 0.7 s and 1.6 ms for each match, an episode of training
6.4 ms (PPO) or 15 ms (DDPG). The plan follows from the configuration alone, never from a clock: equal commands give
equal runs.
"""

from dataclasses import dataclass

from marl.config.train_config import TrainConfig

MOST_EVALUATIONS, FEWEST_EVALUATIONS = 11, 2  # with eval_interval auto; one before the first update, one at the end
MOST_MATCHES, MATCHES_STEP = 200, 10  # with eval_matches auto, against each opponent
FEWEST_MATCHES = {"cpu": 50, "cuda": 200}  # by device; on a GPU 50 matches take as long as 200
# Device -> time that each opponent of an evaluation takes whatever the matches, as a number of matches. The number for
# GPUs keeps 11 evaluations of 200 matches in a run of 50,000 episodes; it is not measured.
FIXED = {"cpu": 100, "cuda": 900}
EPISODES_PER_MINUTE = {"cpu": 9_000, "cuda": 60_000}  # about; for runs that end by max_minutes


@dataclass(frozen=True)
class EvaluationPlan:
    """The evaluations of a run."""

    at_start: bool  # one before the first update
    in_run: int  # evenly over the run, the last one at its end; 0: every eval_interval episodes and at the end
    matches: int  # against each opponent


def plan_evaluations(config: TrainConfig, device: str) -> EvaluationPlan:
    """The plan for a configuration with a known number of episodes. device: cpu or cuda."""
    evaluation, episodes = config.evaluation, config.schedule.max_episodes
    if config.max_minutes > 0:
        episodes = min(episodes, int(config.max_minutes * EPISODES_PER_MINUTE[device]))
    each = episodes // len(evaluation.eval_opponents)  # matches that the run affords against one opponent
    interval, matches = evaluation.eval_interval, evaluation.eval_matches
    if interval is None:
        afforded = each // ((matches or FEWEST_MATCHES[device]) + FIXED[device])
        evaluations = min(MOST_EVALUATIONS, max(FEWEST_EVALUATIONS, afforded))
    else:
        evaluations = episodes // interval + 1 if interval else 1
    if matches is None:
        afforded = (each // evaluations - FIXED[device]) // MATCHES_STEP * MATCHES_STEP
        matches = min(MOST_MATCHES, max(FEWEST_MATCHES[device], afforded))
    return EvaluationPlan(interval is None, evaluations - 1 if interval is None else 0, matches)


def describe_plan(plan: EvaluationPlan, config: TrainConfig) -> str:
    """When the run is evaluated, and how: for the banner and for --dry_run."""
    evaluation = config.evaluation
    if plan.at_start:
        rest = f" and {plan.in_run} times in the run" if plan.in_run > 1 else " and at the end"
        when = f"before the first update{rest}"
    else:
        when = f"every {evaluation.eval_interval:,} episodes" if evaluation.eval_interval else "at the end"
    matches = "1 match" if plan.matches == 1 else f"{plan.matches} matches"
    return f"{when}, {matches} each: {', '.join(evaluation.eval_opponents)}"
