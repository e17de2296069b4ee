"""Pictures as PNG files: a league's table, a run's learning curve, a sweep, why matches were lost.

They are drawn with Pillow from plain numbers. May import opponents (types only) and root modules of marl; pictures of
matches are made by arena.render.
"""
