"""What TensorBoard says about a run beside its curves: descriptions of tags, texts, hyperparameters, groups of charts.

A tag has one meaning with all learners. A new tag gets its line in DESCRIPTIONS.
"""

import json
import time
from collections.abc import Iterable, Mapping
from typing import Any

from marl.config.options import section_of
from marl.registry import LEARNERS

# Tag, or the part up to and including its last separator -> description; the longest match counts.
DESCRIPTIONS = {
    "losses/policy": "PPO: mean clipped policy loss.",
    "losses/value": "PPO: mean squared error of the values, halved.",
    "losses/actor": "DDPG: mean loss of the actor: minus Q of its probabilities, minus the entropy bonus.",
    "losses/critic": "DDPG: mean squared TD error, summed over twin critics.",
    "losses/td": "VDN, QMIX: mean squared TD error of the team's Q.",
    "policy/entropy": "Mean entropy of the policy, in nats; at most log 3 = 1.10 without reversals, else log 4.",
    "policy/kl": "PPO: mean approximate KL divergence from the policy that played.",
    "policy/clip_fraction": "PPO: share of the probability ratios that were clipped.",
    "value/mean_q": "DDPG: mean Q of the actor's probabilities.",
    "value/team_q": "VDN, QMIX: mean Q of the team for the moves played.",
    "value/explained_variance": "PPO: share of the returns' variance that the values explain, in the last rollout of "
    "the window. 1 is perfect, 0 is as good as a constant.",
    "grad_norm/": "Mean norm of this network's gradients before clipping.",
    "lr/": "Learning rate of this network.",
    "updates/skipped": "Share of the updates that were skipped because gradients were not finite.",
    "reward/snake": "Reward of this snake in a match, mean over the training matches of the window.",
    "reward/total": "Reward of the team in a match, mean over the training matches of the window.",
    "match/deaths": "Deaths of the team in a match (200 turns), in training matches.",
    "match/opponent_deaths": "Deaths of the opponents in a match (200 turns), in training matches.",
    "match/length": "Length of one snake of the team at the end of a training match.",
    "match/opponent_length": "Length of one opponent at the end of a training match.",
    "win_rate/": "Share of the training matches won against this opponent, with sampled actions. A draw is no win.",
    "eval/win_rate_": "Share of the evaluation matches won against this opponent, with the most probable actions.",
    "eval/score_": "Mean score in the evaluation matches against this opponent: the length gained by the team.",
    "eval/points": "Mean share of the points over all opponents of the evaluation: 1 for a win, half for a draw. "
    "The checkpoint with the most is `best`.",
    "eval_low/": "Lower end of the 95 % interval (Wilson) of the win rate in the evaluation.",
    "eval_high/": "Upper end of the 95 % interval (Wilson) of the win rate in the evaluation.",
    "train/epsilon": "DDPG, VDN, QMIX: share of uniformly random actions.",
    "train/opponent_level": "Number of the hardest opponent in the schedule at this point.",
    "train/env_steps": "Match-turns played by all ranks. One episode is one match: 200 env steps.",
    "train/updates": "Minibatches learned from, per rank.",
    "time/global_fps": "Env steps (match-turns) per second of all ranks, evaluations and saves left out.",
    "time/updates_per_second": "Minibatches learned from per second, per rank.",
    "time/seconds": "Seconds of training, evaluations and saves left out.",
    "time/save_ms": "Milliseconds that training waited for a checkpoint, mean over the window.",
    "ranks/env_steps_per_second_": "Env steps per second of one rank while it plays, without updates and waiting: "
    "mean, least and most of all ranks. On GPUs measured in one cycle before each log line.",
    "ranks/slowest": "The rank with the fewest env steps per second while it plays.",
    "ranks/waited_percent_": "CPU ranks: share of the time of training that one rank has spent in sums over the ranks. "
    "The slowest rank waits least.",
    "ranks/memory_mib_": "Memory of the process of one rank, MiB.",
    "ranks/gpu_memory_mib_": "Memory that one rank holds on its GPU, MiB.",
    "system/": "Gauge of a GPU of the first machine, by NVML.",
}
BY_ENV_STEPS = "by_env_steps/"  # begins the tags of curves whose step is an env step
# Tags, or their beginnings, that are also written by env steps.
MAIN_CURVES = ("reward/total", "win_rate/", "eval/win_rate_", "eval/points")
# Chart of the CUSTOM SCALARS tab -> regular expressions of its tags.
CHARTS = {
    "win rates": {"evaluation": ["eval/win_rate_.*"], "training": ["win_rate/.*"]},
    "learning": {"losses": ["losses/.*"], "gradient norms": ["grad_norm/.*"], "learning rates": ["lr/.*"]},
    "matches": {
        "deaths": ["match/.*deaths"],
        "lengths": ["match/.*length"],
        "reward of each snake": ["reward/snake.*"],
    },
}
# Options that say where a run is or how it is watched, not what it computes.
NOT_HPARAMS = (
    "config_version", "runs_dir", "run_name", "resume", "load_model", "load_model_run", "load_model_run_episode",
    "wandb", "keep_last", "milestones", "save_buffer", "save_interval", "log_interval", "profile",
)  # fmt: skip


def describe_tag(tag: str) -> str:
    """The description of a tag, in Markdown; empty if it has none."""
    by_env_steps = tag.startswith(BY_ENV_STEPS)
    name = tag.removeprefix(BY_ENV_STEPS)
    found = max((known for known in DESCRIPTIONS if name.startswith(known)), key=len, default=None)
    axis = " Horizontal axis: env steps." if by_env_steps else ""
    return "" if found is None else DESCRIPTIONS[found] + axis


def main_curves(values: Mapping[str, float]) -> dict[str, float]:
    """Those of the values that are also written by env steps, with their tags."""
    return {f"{BY_ENV_STEPS}{tag}": value for tag, value in values.items() if tag.startswith(MAIN_CURVES)}


def flat_config(config: Mapping[str, Any], learner: str) -> dict[str, Any]:
    """Options of a configuration by path, `ppo.lr`; of the learners only the section of the one in use."""
    flat: dict[str, Any] = {}
    unread = {section_of(name, config) for name in LEARNERS} - {learner}
    for name, value in config.items():
        if isinstance(value, Mapping):
            if name not in unread:
                flat |= {f"{name}.{key}": each for key, each in value.items()}
        elif name not in NOT_HPARAMS:
            flat[name] = value
    return flat


def start_texts(config_text: str, start: Mapping[str, Any]) -> dict[str, str]:
    """Texts about a start of a run, by tag. start: the fields of run.json."""
    versions = "\n".join(f"| {name} | {version} |" for name, version in start["versions"].items())
    about = {name: start[name] for name in ("started", "world_size", "processor", "git") if name in start}
    return {
        "run/command": f"    {start['command']}",
        "run/config": "\n".join(f"    {line}" for line in config_text.splitlines()),
        "run/versions": f"| package | version |\n|---|---|\n{versions}",
        "run/start": "\n".join(f"- {name}: {json.dumps(value)}" for name, value in about.items()),
    }


def text(tag: str, words: str) -> Any:
    """The summary value of a text for the TEXT tab."""
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.compat.proto.tensor_pb2 import TensorProto
    from tensorboard.compat.proto.types_pb2 import DT_STRING
    from tensorboard.plugins.text.metadata import create_summary_metadata

    tensor = TensorProto(dtype=DT_STRING, string_val=[words.encode()])
    return Summary.Value(tag=tag, tensor=tensor, metadata=create_summary_metadata(tag, ""))


def hparams(values: Mapping[str, Any]) -> Any:
    """The summary value of hyperparameters for the HPARAMS tab, which finds the metrics by itself."""
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.plugins.hparams import metadata
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData, SessionStartInfo

    info = SessionStartInfo(start_time_secs=time.time())
    for name, value in values.items():
        if isinstance(value, bool):
            info.hparams[name].bool_value = value
        elif isinstance(value, int | float):
            info.hparams[name].number_value = value
        else:
            info.hparams[name].string_value = "auto" if value is None else str(value)
    about = metadata.create_summary_metadata(HParamsPluginData(session_start_info=info))
    return Summary.Value(tag=metadata.SESSION_START_INFO_TAG, tensor=metadata.NULL_TENSOR, metadata=about)


def layout(opponents: Iterable[str]) -> Any:
    """The summary value of the CUSTOM SCALARS tab: charts with several curves, and evaluations with intervals."""
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.compat.proto.tensor_pb2 import TensorProto
    from tensorboard.compat.proto.types_pb2 import DT_STRING
    from tensorboard.plugins.custom_scalar import layout_pb2, metadata

    categories = [
        layout_pb2.Category(
            title=title,
            chart=[
                layout_pb2.Chart(title=name, multiline=layout_pb2.MultilineChartContent(tag=tags))
                for name, tags in charts.items()
            ],
        )
        for title, charts in CHARTS.items()
    ]
    # A chart for each opponent: TensorBoard shows a chart of several runs once if it is the same in all of them.
    for name in opponents:
        series = layout_pb2.MarginChartContent.Series(
            value=f"eval/win_rate_{name}", lower=f"eval_low/{name}", upper=f"eval_high/{name}"
        )
        margin = layout_pb2.MarginChartContent(series=[series])
        categories[0].chart.append(layout_pb2.Chart(title=f"evaluation against {name}, 95 %", margin=margin))
    tensor = TensorProto(dtype=DT_STRING, string_val=[layout_pb2.Layout(category=categories).SerializeToString()])
    return Summary.Value(tag=metadata.CONFIG_SUMMARY_TAG, tensor=tensor, metadata=metadata.create_summary_metadata())
