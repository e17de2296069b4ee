"""A program for a process of its own: the environment drawn in every way that needs no window."""

import sys

import arena


def main() -> int:
    for render_mode in (None, "rgb_array", "ansi"):
        parallel = arena.parallel_env(render_mode=render_mode, seed=0)
        parallel.reset()
        for _ in range(5):
            parallel.step(dict.fromkeys(parallel.agents, 1))
            assert render_mode is None or parallel.render() is not None
        loaded = [name for name in sys.modules if name.split(".")[0] == "pygame"]
        assert not loaded, (render_mode, loaded)
    return 0
