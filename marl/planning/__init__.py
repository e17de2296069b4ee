"""Planning: look ahead with the exact arena before moving, at decision time.

A planner knows the arena and a policy, and nothing of training. `plan:NAME` is a player in every command. May import
marl.networks, marl.learners.precision and marl.storage (to load the policy); training, export, bench and commands
import it.
"""
