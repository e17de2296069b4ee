"""Env steps per second trained: PPO of this program against PPO of Stable-Baselines3 on the same arena.

    python -m pip install stable-baselines3
    python scripts/comparison_sb3.py [--threads 1] [--write]      # --write: into docs/log/comparison.md

Both learn from as many matches, turns and minibatches, with the same observation, network, opponent and threads, and
make one pass over each rollout. One env step is one turn of one match, with three snakes that learn. The two are
measured in the order A B B A, so that a change in the load of the machine meets both, and in seconds of the clock as
well as of the processor: the latter stay the same on a machine with other work.
"""

import contextlib
import io
import json
import sys
import tempfile
import time
from importlib import metadata
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from docs_section import DOCS, write_section
from script_parser import ScriptParser
from torch import nn

from arena.extras import install_hint
from marl import team_env, train
from marl.cli.arguments import positive_int
from marl.compute import machine

try:
    from stable_baselines3 import PPO
    from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
except ModuleNotFoundError:
    print(f"comparison_sb3.py: needs Stable-Baselines3; {install_hint('sb3')}", file=sys.stderr)
    sys.exit(2)

MATCHES, TURNS, BATCH, BODY, ENCODER, OPPONENT = 512, 16, 3072, (128, 128), "canonical", "level1"
GAMMA, LAMBDA, CLIP, ENTROPY, VALUE_WEIGHT, LR, GRAD_NORM = 0.97, 0.9, 0.2, 0.005, 0.5, 0.003, 0.5
SNAKES = 3
ORDER = ("ours", "sb3", "sb3", "ours")
SHORT, LONG = MATCHES, 3 * MATCHES  # episodes of our two runs; their difference has no start and no evaluation in it
SB3_ROLLOUTS = 5


class Rate(NamedTuple):
    """Env steps per second of the clock, and per second of the processor."""

    clock: float
    cpu: float


class Trunk(BaseFeaturesExtractor):
    """The hidden layers of our network, shared by policy and value: scaled observations, 128 and 128 with ReLU."""

    def __init__(self, space, scale: np.ndarray) -> None:
        super().__init__(space, BODY[-1])
        self.register_buffer("scale", torch.from_numpy(scale.copy()))
        pairs = pairwise((len(scale), *BODY))
        self.layers = nn.Sequential(*(part for a, b in pairs for part in (nn.Linear(a, b), nn.ReLU())))

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        return self.layers(obs * self.scale)


def measure_ours(threads: int) -> Rate:
    """The difference of a long run and a short one."""
    short, long = (_train(episodes, threads) for episodes in (SHORT, LONG))
    steps, clock, cpu = (b - a for a, b in zip(short, long, strict=True))
    return Rate(steps / clock, steps / cpu)


def _train(episodes: int, threads: int) -> tuple[float, float, float]:
    """Env steps, seconds of the clock and of the processor of a run."""
    clock, cpu = time.perf_counter(), time.process_time()
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        run = train(
            algo="ppo", max_episodes=episodes, matches=MATCHES, update_interval=MATCHES * TURNS, batch_size=BATCH,
            epochs=1, gamma=GAMMA, gae_lambda=LAMBDA, clip=CLIP, entropy=ENTROPY, value_weight=VALUE_WEIGHT, lr=LR,
            max_grad_norm=GRAD_NORM, body=BODY, encoder=ENCODER, preset="score", opponents=(f"{OPPONENT}:1",),
            eval_interval=0, eval_matches=2, eval_opponents=("level0",), eval_gif=False, threads=threads, device="cpu",
            runs_dir=folder, resume="never", save_interval=10**9,
        )  # fmt: skip
        lines = [json.loads(line) for line in (run.path / "metrics.jsonl").read_text("utf-8").splitlines()]
    steps = max(line.get("train/env_steps", 0.0) for line in lines)
    return steps, time.perf_counter() - clock, time.process_time() - cpu


def measure_sb3(threads: int) -> Rate:
    """From the second rollout on: the first one compiles."""
    torch.set_num_threads(threads)
    env = team_env(OPPONENT, matches=MATCHES, encoder=ENCODER, reward="score", seed=1, api="sb3")
    model = PPO(
        "MlpPolicy", env, n_steps=TURNS, batch_size=BATCH, n_epochs=1, gamma=GAMMA, gae_lambda=LAMBDA,
        clip_range=CLIP, ent_coef=ENTROPY, vf_coef=VALUE_WEIGHT, learning_rate=LR, max_grad_norm=GRAD_NORM, seed=1,
        device="cpu", policy_kwargs={
            "features_extractor_class": Trunk, "features_extractor_kwargs": {"scale": env.batch.encoder.scale},
            "net_arch": [], "share_features_extractor": True,
        },
    )  # fmt: skip
    rollout = MATCHES * TURNS * SNAKES  # in SB3's steps, those of single snakes
    model.learn(rollout)
    clock, cpu = time.perf_counter(), time.process_time()
    model.learn(rollout * SB3_ROLLOUTS, reset_num_timesteps=False)
    clock, cpu = time.perf_counter() - clock, time.process_time() - cpu
    env.close()
    steps = (model.num_timesteps - rollout) / SNAKES
    return Rate(steps / clock, steps / cpu)


def main() -> None:
    parser = ScriptParser(__doc__)
    parser.add_argument("--threads", type=positive_int, default=1, help="of torch and Numba, for both")
    parser.add_argument("--write", action="store_true", help="write the result into docs/log/comparison.md")
    args = parser.parse_args()
    _train(1, args.threads)  # compiles
    measures = {"ours": measure_ours, "sb3": measure_sb3}
    rates: dict[str, list[Rate]] = {"ours": [], "sb3": []}
    for name in ORDER:
        rates[name].append(measures[name](args.threads))
        print(
            f"{name:5} {rates[name][-1].clock:9,.0f} env steps/s, {rates[name][-1].cpu:9,.0f} per CPU second",
            flush=True,
        )
    text = describe(rates, args.threads)
    print(text)
    if args.write:
        write_section(DOCS / "log" / "comparison.md", "sb3", f"{text}\n")


def describe(rates: dict[str, list[Rate]], threads: int) -> str:
    """The result as a part of the page."""
    processor = machine.processor()
    names = ("stable-baselines3", "torch", "gymnasium", "numba", "numpy")
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in names)
    means = {name: Rate(*np.mean(each, 0)) for name, each in rates.items()}
    rows = [
        f"| {title} | {_listed([rate.clock for rate in rates[name]])} "
        f"| {_listed([rate.cpu for rate in rates[name]])} | {means[name].cpu:,.0f} |"
        for name, title in (("ours", "`train --algo ppo`"), ("sb3", "Stable-Baselines3 PPO"))
    ]
    ours, sb3 = means["ours"], means["sb3"]
    return "\n".join(
        [
            f"By `python scripts/comparison_sb3.py --threads {threads} --write` on {time.strftime('%Y-%m-%d')}: "
            f"{processor['model']}, {processor['cores']} cores, threads: {threads}; "
            f"{versions}.",
            "",
            "| trainer | env steps/s trained, two measurements | per CPU second | mean of these |",
            "|---|---|---|---|",
            *rows,
            "",
            f"Ratio: {ours.cpu / sb3.cpu:.1f} by CPU seconds, {ours.clock / sb3.clock:.1f} by the clock.",
        ]
    )


def _listed(numbers: list[float]) -> str:
    return " and ".join(f"{number:,.0f}" for number in numbers)


if __name__ == "__main__":
    main()
