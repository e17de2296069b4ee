"""Bench: how fast arena, opponents and training run on this machine.

Measures the real objects, as rates of the best window; nothing here is used by a run. scaling*.py measure training by
number of ranks; compare.py keeps speeds and compares them. May import everything below marl.commands.
"""
