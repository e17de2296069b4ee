"""Pictures of matches: files, HTML pages and windows. May import the rest of arena, nothing of opponents or marl.

Only the window*.py files import pygame and need a display. The scripts and templates of the HTML pages are beside the
Python files: board.js and rules.js serve the replay page and the play page (marl/export).
"""
