"""The play page in the browser of tests/helpers/browser.py: opened, asked, and positions as its scripts hold them."""

import json
from pathlib import Path
from typing import Any

from helpers import browser


def opened(chrome: browser.Chromium, file: Path, **size: Any) -> browser.Page:
    page = chrome.open(file.as_uri(), few_frames=True, **size)
    page.wait("window.snakes !== undefined")
    return page


def opened_again(page: browser.Page, file: Path) -> browser.Page:
    """The same tab with a page that begins anew: a new tab takes longer."""
    page.requests.clear()
    page.errors.clear()
    page.goto(file.as_uri())
    page.wait("window.snakes !== undefined")
    return page


def in_cells(match: dict[str, Any]) -> dict[str, Any]:
    """A match dictionary with cells row * 20 + column instead of places."""

    def cells(places: list) -> list[int]:
        return [row * 20 + column for row, column in places]

    return match | {"snakes": [cells(body) for body in match["snakes"]], "beans": cells(match["beans"])}


def called(page: browser.Page, function: str, given: Any) -> Any:
    """What a function in the page makes of a value; a promise is awaited.

    As text: the browser's own way for large values is slow.
    """
    text = json.dumps(json.dumps(given))
    return json.loads(page.value(f"(async () => JSON.stringify(await {function}(JSON.parse({text}))))()"))


def shown(page: browser.Page) -> dict[str, Any]:
    return page.value("snakes.shown()")


def text(page: browser.Page, selector: str) -> str:
    return page.value(f"document.querySelector({json.dumps(selector)}).textContent")
