"""The flag --stop_when_decided of `league` and `eval`, and the words for what it promises."""

import argparse


def add_stop_flag(parser: argparse.ArgumentParser) -> None:
    """Pairs play until it is decided who is better."""
    parser.add_argument(
        "--stop-when-decided",
        action="store_true",
        help="play a pair only until a sequential test has decided who is better, at most --matches; every board is "
        "played twice, with the colours swapped",
    )


def error_rates_text() -> str:
    """Both error rates of the test, for people."""
    from opponents.league_decision import ERROR

    return (
        f"a team that is not better is called so in at most {ERROR:.1%} of the cases, home and away alike "
        "(sequential test; pairs that stop early have intervals that are too narrow)"
    )
