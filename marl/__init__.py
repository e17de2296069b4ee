"""Who learns: the command line, the tools around the arena, and the learners. Imports arena and opponents."""

__version__ = "0.1.0"
