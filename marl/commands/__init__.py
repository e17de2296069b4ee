"""The commands of the program, one module each, and the modules that only they use.

The table of commands is in marl/cli/main.py. May import every other package; nothing outside may import this one.
"""
