"""A hook of mkdocs: the pages of docs/log stand in the navigation without being listed in mkdocs.yml."""

from pathlib import Path
from typing import Any


def on_config(config: Any) -> Any:
    """Add a section with all pages of docs/log; each page's heading is its title."""
    folder = Path(config["docs_dir"]) / "log"
    config["nav"].append({"What was tried": [f"log/{file.name}" for file in sorted(folder.glob("*.md"))]})
    return config
