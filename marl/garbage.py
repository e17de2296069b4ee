"""When Python looks for garbage: for objects that only refer to each other.

It looks through all new objects, again and again while packages are loaded, and finds next to nothing: torch, Numba
and this program stay to the end. For the process of a command; a program that imports marl has its own rules.
"""

import atexit
import gc
from typing import Any

WHILE_LOADING = 1_000_000  # new objects until the first search; a start makes 300,000 to 500,000
AFTERWARDS = 50_000  # until each of the next ones
_OLDER = (20, 20)  # searches until older objects are looked through as well, and until all are
_state = {"is_command": False, "keeps": False}


def search_less() -> None:
    """To be called before anything large is loaded. On a Neoverse-N1 core it saves 0.2 s of each command."""
    _state["is_command"] = True
    gc.set_threshold(WHILE_LOADING, *_OLDER)
    gc.callbacks.append(_search_more)
    atexit.register(gc.freeze)  # Python looks through all objects once more at exit


def keep_what_is_loaded() -> None:
    """Later searches leave the objects that are there now alone: those through all objects take 25 ms, not 150 ms.

    Each recording of a CUDA graph begins with one. Once for a process, before it holds anything that is to be freed.
    """
    if _state["is_command"] and not _state["keeps"]:
        _state["keeps"] = True
        gc.freeze()


def _search_more(phase: str, _: dict[str, Any]) -> None:
    """After the first search."""
    if phase == "stop":
        gc.callbacks.remove(_search_more)
        gc.set_threshold(AFTERWARDS, *_OLDER)
