"""The numbers of a run on their way out: counted (log_window), written (run_metrics with event_file, run_texts and
wandb_run) and printed (console).

The only importers of pynvml, TensorBoard and W&B. May import arena, marl.cli, config, rollout and storage; knows no
learners and no training loop.
"""
