"""The exception for a user's mistake, which the command line tells in one line."""


class UserError(ValueError):
    """Bad input. The message says what is wrong and what is allowed."""
