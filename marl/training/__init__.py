"""Training: the loop of a run (play, learn, log, evaluate, save), its state and its output.

Here belong the choice of the run to resume (resume_plan), the state of a run and its checkpoints (training_state,
progress, checkpointing, past_selves), the loop itself (trainer), and what users see of it (outputs, report,
evaluation). May import every package below it: arena, opponents, marl.config, compute, networks, ranks, rollout,
storage, learners, pictures and metrics. May not import marl.export, doctor, bench or commands; only these may import
it.
"""
