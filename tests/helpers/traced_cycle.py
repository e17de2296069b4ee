"""Prints which of our functions one cycle of a small training of each learner calls, in the order of first calls:
lines ALGO FILE LINE.

Run in a process of its own: with NUMBA_DISABLE_JIT=1 loops are plain Python, and are seen as well. Or forked.

usage: traced_cycle.py FLAG ...
"""

import sys
from pathlib import Path
from types import FrameType

import torch

from helpers.training_states import SMALL_DDPG, small_state
from marl.compute.threads import use_threads

ROOT = Path(__file__).resolve().parents[2]
# A small training of each learner: every loop is seen.
WORDS = {"ppo": ["--algo", "ppo", "--update_interval", "16"], "ddpg": ["--algo", "ddpg", *SMALL_DDPG]}
OURS = tuple(f"{ROOT / package}/" for package in ("arena", "opponents", "marl"))


def main(*words: str) -> int:
    use_threads(1)
    torch.backends.mkldnn.enabled = False  # compiled passes call torch's BLAS library
    for algo in WORDS:
        for file, line in calls_of([*WORDS[algo], *words]):
            print(algo, file, line)
    return 0


def calls_of(words: list[str]) -> list[tuple[str, int]]:
    state = small_state("--matches", "2", *words)
    rollout, learner = state.rollout, state.learner
    called: dict[tuple[str, int], None] = {}

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(OURS):
            called.setdefault((Path(code.co_filename).relative_to(ROOT).as_posix(), code.co_firstlineno))

    def cycle(learns: bool = True) -> None:
        """As Trainer.cycle."""
        learner.begin_round()
        rollout.play_turns(learner.turns, learner.act)
        if learns:
            learner.learn()

    rollout.arena.start()
    learner.anneal(1.0, 0.5)
    for _ in range(-(-learner.warmup_turns // learner.turns)):
        cycle(learns=False)
    cycle()  # the seam compares in the first one
    sys.setprofile(note)
    cycle()
    sys.setprofile(None)
    assert not state.slow_texts, state.slow_texts
    return list(called)


if __name__ == "__main__":
    main(*sys.argv[1:])
