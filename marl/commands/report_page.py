"""A report as one HTML page without network and server: learning curves, results, probabilities, cross-play."""

from pathlib import Path
from typing import Any

from arena.render.page import embedded, filled

TEMPLATE = Path(__file__).with_name("report_page.html")
ELEMENTS = TEMPLATE.with_name("page_elements.js")


def report_page(document: dict[str, Any]) -> str:
    """The text of the page. The document is that of report_results.collect; texts in it are data, never markup."""
    return filled(TEMPLATE, {"data": embedded(document), "elements": ELEMENTS.read_text(encoding="utf-8")})
