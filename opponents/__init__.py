"""Who we play: scripted opponents, submissions in their sandbox, the schedule of opponents, matches and leagues.

May import arena, and nothing of marl: trained teams come in through the `loader` that `players.find` is given, or
through the one that the installed project registers as an entry point.
"""
