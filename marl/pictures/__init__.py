"""Pictures as PNG files: a league's table and a run's learning curve.

They are drawn with Pillow from plain numbers. May import opponents (types only) and root modules of marl; pictures of
matches are made by arena.render.
"""
