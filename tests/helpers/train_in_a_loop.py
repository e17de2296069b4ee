"""Two trainings in a loop of a caller's, from Python, until a signal comes."""

import signal

import marl

# Two matches at a time, a log line for each pair of them; on one thread.
TINY = {
    "device": "cpu", "precision": "fp32", "threads": 1, "seed": 5, "matches": 2, "body": [8, 8], "algo": "ppo",
    "update_interval": 60, "batch_size": 30, "log_interval": 2, "eval_matches": 2, "eval_gif": False,
    "eval_opponents": ["level0", "level1"], "eval_interval": 4,
}  # fmt: skip


def main(runs_dir: str, handler: str) -> int:
    """handler: what the caller does about TERM, none or own."""
    if handler == "own":
        signal.signal(signal.SIGTERM, lambda number, frame: print("handled", number, flush=True))
    try:
        for name in ("first", "second"):
            run = marl.train("smoke", run_name=name, runs_dir=runs_dir, max_episodes=1_000_000, **TINY)
            print("returned", run.path.name, run.complete, flush=True)
            break
    except BaseException as error:
        print("raised", type(error).__name__, error, flush=True)
        raise
    finally:
        print("cleaned up", flush=True)
    return 0
