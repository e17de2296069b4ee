"""Prints which of our functions one cycle of a small training calls, in the order of first calls: lines FILE LINE.

Run in a process of its own: with NUMBA_DISABLE_JIT=1 loops are plain Python, and are seen as well.

usage: traced_cycle.py FLAG ...
"""

import sys
from pathlib import Path
from types import FrameType

import torch

from helpers.training_states import small_state
from marl.compute.threads import use_threads

ROOT = Path(__file__).resolve().parents[2]
OURS = tuple(f"{ROOT / package}/" for package in ("arena", "opponents", "marl"))


def main(words: list[str]) -> None:
    use_threads(1)
    torch.backends.mkldnn.enabled = False  # compiled passes call torch's BLAS library
    state = small_state(*words)
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
    for file, line in called:
        print(file, line)


if __name__ == "__main__":
    main(sys.argv[1:])
