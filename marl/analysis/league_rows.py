"""A league as rows of a spreadsheet: one for each player, best first."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opponents.league import Table

COLUMNS = ("place", "name", "rating", "rating_low", "rating_high", "matches", "points")
CONDUCT = ("errors", "forfeits", "mean_ms", "longest_ms")


def league_rows(table: "Table") -> tuple[list[str], list[dict[str, Any]]]:
    """The columns and the rows; points are shares, of all matches and against each player."""
    order, points = table.order(), table.points
    against = {j: f"against {table.names[j]}" for j in order}
    rows = []
    for place, i in enumerate(order, start=1):
        rating, margin, matches = float(table.ratings[i]), float(table.margins[i]), int(table.played[i].sum())
        taken = float((table.wins[i] + table.draws[i] / 2).sum())
        row = {"place": place, "name": table.names[i], "matches": matches, "points": taken / matches}
        row |= {"rating": rating, "rating_low": rating - margin, "rating_high": rating + margin}
        rows.append(row | asdict(table.conduct[i]) | {against[j]: float(points[i, j]) for j in order if j != i})
    return [*COLUMNS, *CONDUCT, *against.values()], rows
