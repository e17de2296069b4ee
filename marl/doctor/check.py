"""What each part of the doctor finds out: one line that says what is right, or what is wrong and what to do."""

from typing import NamedTuple

REINSTALL = "run ./train_ddp.sh --help, which repairs .venv"


class Check(NamedTuple):
    """One thing that must be right; `fix` says what to do where it is not."""

    name: str
    ok: bool
    detail: str
    fix: str = ""

    @classmethod
    def failed(cls, name: str, error: BaseException | str, fix: str = REINSTALL) -> "Check":
        """A failure in the words of an error. Errors for users end with what to do, after a semicolon."""
        told = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        detail, semicolon, own = told.rpartition("; ")
        return cls(name, False, detail, own) if semicolon else cls(name, False, told, fix)


def amount(size: float) -> str:
    """Bytes to read."""
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.4g} {unit}"
        size /= 1024
    return f"{size:,.1f} GiB"
