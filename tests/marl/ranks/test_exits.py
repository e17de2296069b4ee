"""What a message about a lost rank says at its end."""

from marl.ranks import exits


def test_a_rank_whose_launcher_goes_on_asks_nobody_to_resume(monkeypatch) -> None:
    assert exits.what_follows() == "resume it with --resume and the run's folder"
    monkeypatch.setattr(exits, "_grace", [])
    exits.leave_end_to_launcher(5.0)
    assert exits.what_follows() == "the launcher starts all ranks again"
