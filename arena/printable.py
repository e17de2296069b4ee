"""Texts from files and from other programs, made safe to print and to draw."""


def printable(text: str) -> str:
    """The text with `?` for every letter that is not printable: nothing moves a terminal's cursor or breaks a line."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)
