"""Shared by the tests of ranks."""

import pytest
from helpers.rank_programs import GROUP_VARIABLES


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A process without the variables of a launcher; returns its monkeypatch."""
    for name in (*GROUP_VARIABLES, "TORCHELASTIC_RUN_ID", "TORCHELASTIC_USE_AGENT_STORE"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch
