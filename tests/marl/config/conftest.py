"""A fixture that writes YAML files."""

import pytest


@pytest.fixture
def file(tmp_path):
    """Writes a YAML file and returns its path."""

    def write(text: str, name: str = "run.yaml"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write
