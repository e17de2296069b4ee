"""`plan:` and `plan=8x6:`, which begin the names of players that plan.

No imports: the command line reads names of players before torch and Numba are loaded.
"""


def plans(name: str) -> bool:
    """Whether a player of this name plans."""
    return name.startswith(("plan:", "plan="))


def split_prefix(name: str) -> tuple[str, str]:
    """The prefix with its colon, empty for a player that does not plan; and the name without it."""
    head, colon, inner = name.partition(":") if plans(name) else ("", "", name)
    return head + colon, inner
