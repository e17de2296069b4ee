"""Analysis: runs and matches read, compared and shown; for `runs`, `report`, `eval`, `league`, `exploit` and `bench`.

Here belong the loading of a run (runs), groups of seeds and the settings that differ (groups), means and intervals
(statistics), what a report says (comparison, cross_play), the points that exploiters leave (exploitability), why
matches were lost (losses, explanation), and how all of it is shown: tables, curves and pages. May import every package
up to marl.training; not marl.bench or commands.
"""
