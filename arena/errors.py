"""The one exception of the arena: a mistake of its caller, told in one line."""


class ArenaError(ValueError):
    """Bad input. The message says what is wrong, where, and what is allowed; nothing has been changed."""
