"""Policies for other programs: the competition's submission.py, ONNX, safetensors, and an HTML page to play against.

May import arena, opponents, marl.networks and marl.storage; imports nothing of training. submission_template.py and
policy.js are self-contained twins of the encoders (arena/encoders), held equal to them by tests; searches.js is that of
arena.search and arena.dangers; simulation_template.py and planning_template.py are those of the rules and of
marl.planning. Templates are written for Python 3.6 and numpy 1.16, as the competition may have them.
"""
