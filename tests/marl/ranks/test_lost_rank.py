"""Which errors mean that a rank is lost."""

from marl.ranks.lost_rank import explain
from marl.ranks.sync_check import OutOfSync


def test_other_errors_are_not_taken_for_a_lost_rank() -> None:
    class Group:
        pass

    for error in (ValueError("by peer"), OutOfSync("gloo"), RuntimeError("shapes 2x3 and 4x5")):
        assert explain(error, Group()) is None
