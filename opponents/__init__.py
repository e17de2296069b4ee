"""Who we play: scripted teams, the schedule that climbs them, matches between any two players, and leagues."""
