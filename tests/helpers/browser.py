"""A headless Chromium that tests drive: opens pages, reads their state, presses keys, touches, takes pictures.

It speaks the DevTools protocol through two pipes (JSON messages that end with a zero byte), so nothing needs to be
installed beside the browser and no port is opened. It cannot look up any name: a page that asks the network for
something gets nothing, and the request is on the page's list.

    with browser.chromium() as chrome:
        page = chrome.open(path.as_uri(), width=1280, height=800)
        page.wait("window.snakes !== undefined")
        assert page.value("snakes.state(3)") == {...}
        assert page.requests == [path.as_uri()] and page.errors == []
"""

import base64
import contextlib
import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = (
    "--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--lang=en-US", "--accept-lang=en-US",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions",
    "--disable-dev-shm-usage", "--mute-audio", "--hide-scrollbars", "--host-resolver-rules=MAP * ~NOTFOUND",
    "--disable-features=Translate,OptimizationHints,MediaRouter,DialMediaRouteProvider",
)  # fmt: skip
# Five pictures a second: without a GPU, drawing sixty of a large page takes all of a core.
FEW_FRAMES = """
window.requestAnimationFrame = (draw) => setTimeout(() => draw(performance.now()), 200);
window.cancelAnimationFrame = clearTimeout;
"""
PATIENCE = 200.0  # seconds for one answer: a busy machine is slow, but a hanging browser must not block the tests
# name: (code, key code) of keys that are no letters
KEYS = {
    " ": ("Space", 32),
    "Enter": ("Enter", 13),
    "Escape": ("Escape", 27),
    "ArrowLeft": ("ArrowLeft", 37),
    "ArrowUp": ("ArrowUp", 38),
    "ArrowRight": ("ArrowRight", 39),
    "ArrowDown": ("ArrowDown", 40),
    "Home": ("Home", 36),
    "End": ("End", 35),
    "?": ("Slash", 191),
}


def missing() -> str:
    """Why no browser can be started; empty if one can."""
    if os.name != "posix":
        return "the browser of the tests is driven through POSIX pipes"
    return "" if _program() else "no Chromium on this machine (apt install chromium)"


def _program() -> str | None:
    return next(filter(None, map(shutil.which, NAMES)), None)


class Page:
    """One tab. `requests` are the addresses it asked for, `errors` its error messages, in order."""

    def __init__(self, chrome: "Chromium", target: str, session: str) -> None:
        self._chrome, self._target, self._session = chrome, target, session
        self.requests: list[str] = []
        self.errors: list[str] = []
        self._loaded = False

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """A command of the DevTools protocol, and its answer."""
        return self._chrome.send(method, parameters, self._session)

    def goto(self, address: str) -> None:
        """Open an address and wait until it is loaded."""
        self._loaded = False
        answer = self.send("Page.navigate", url=address)
        if answer.get("errorText"):
            raise AssertionError(f"{address}: {answer['errorText']}")
        deadline = time.monotonic() + PATIENCE
        while not self._loaded:
            self._chrome.listen(deadline, f"{address} to load")

    def value(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page as JSON; a promise is awaited."""
        answer = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise AssertionError(f"{expression[:200]}: {_reason(answer['exceptionDetails'])}")
        return answer["result"].get("value")

    def wait(self, expression: str, seconds: float = PATIENCE) -> Any:
        """Evaluate the expression until it is true; returns its value."""
        deadline = time.monotonic() + seconds
        while not (value := self.value(expression)):
            if time.monotonic() > deadline:
                raise AssertionError(f"not true within {seconds:g} s: {expression[:200]}; errors: {self.errors}")
            self.value("new Promise(done => setTimeout(done, 10))")
        return value

    def resize(self, width: int, height: int, scale: float = 1, phone: bool = False) -> None:
        """Resize the page; a phone has touch and its own zoom."""
        self.send(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=phone
        )
        self.send("Emulation.setTouchEmulationEnabled", enabled=phone)

    def speak(self, languages: str) -> None:
        """What the user's browser prefers from the next page on, like "zh-CN,en"."""
        agent = self.value("navigator.userAgent")
        self.send("Emulation.setUserAgentOverride", userAgent=agent, acceptLanguage=languages)

    def press(self, key: str) -> None:
        """Press and release a key: a letter, or a name of KEYS."""
        code, number = KEYS.get(key) or (f"Key{key.upper()}" if key.isalpha() else key, ord(key.upper()))
        event = {"key": key, "code": code, "windowsVirtualKeyCode": number}
        text = {"text": key} if len(key) == 1 else {}
        self.send("Input.dispatchKeyEvent", type="keyDown", **event, **text)
        self.send("Input.dispatchKeyEvent", type="keyUp", **event)

    def place(self, selector: str, across: float = 0.5, down: float = 0.5) -> tuple[float, float]:
        """A point of an element in the page; `across` and `down` are shares of its width and height."""
        box = self.value(
            f"(e => {{ e.scrollIntoView({{block: 'nearest'}}); const b = e.getBoundingClientRect();"
            f" return [b.x, b.y, b.width, b.height]; }})(document.querySelector({json.dumps(selector)}))"
        )
        return box[0] + box[2] * across, box[1] + box[3] * down

    def click(self, selector: str, across: float = 0.5, down: float = 0.5) -> None:
        """Click on an element with the mouse."""
        x, y = self.place(selector, across, down)
        self.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def tap(self, selector: str, across: float = 0.5, down: float = 0.5) -> None:
        """Touch an element with a finger."""
        x, y = self.place(selector, across, down)
        self.send("Input.dispatchTouchEvent", type="touchStart", touchPoints=[{"x": x, "y": y}])
        self.send("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])

    def swipe(self, selector: str, begin: tuple[float, float], end: tuple[float, float]) -> None:
        """Swipe over an element between two of its points (shares of its width and height).

        The finger rests for a second before it leaves the screen. After a quick one the browser at times takes the next
        touch for the end of the swipe, and not for a tap.
        """
        (x, y), (to_x, to_y) = self.place(selector, *begin), self.place(selector, *end)
        now = time.time()

        def touch(kind: str, seconds: float, *shares: float) -> None:
            points = [{"x": x + (to_x - x) * share, "y": y + (to_y - y) * share} for share in shares]
            self.send("Input.dispatchTouchEvent", type=kind, touchPoints=points, timestamp=now + seconds)

        touch("touchStart", -2, 0)
        for step in range(1, 6):
            touch("touchMove", -2 + step / 50, step / 5)
        touch("touchMove", -0.9, 1)
        touch("touchEnd", -0.8)

    def picture(self, path: Path | None = None) -> bytes:
        """The picture of the page as PNG; with `path`, also written to a file."""
        data = base64.b64decode(self.send("Page.captureScreenshot", format="png")["data"])
        if path is not None:
            path.write_bytes(data)
        return data

    def close(self) -> None:
        """Close the tab."""
        self._chrome.send("Target.closeTarget", {"targetId": self._target})

    def hear(self, method: str, parameters: dict[str, Any]) -> None:
        """An event of this tab."""
        if method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
        elif method == "Network.webSocketCreated":
            self.requests.append(parameters["url"])
        elif method == "Page.loadEventFired":
            self._loaded = True
        elif method == "Runtime.exceptionThrown":
            self.errors.append(_reason(parameters["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning", "assert"):
            self.errors.append(" ".join(str(a.get("value", a.get("description"))) for a in parameters["args"]))
        elif method == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            self.errors.append(parameters["entry"]["text"])


class Chromium:
    """A running browser."""

    def __init__(self, process: subprocess.Popen, to_browser: int, from_browser: int) -> None:
        self._process, self._to, self._from = process, to_browser, from_browser
        self._number = 0
        self._rest = b""
        self._answers: dict[int, dict[str, Any]] = {}
        self._pages: dict[str, Page] = {}

    def open(
        self,
        address: str,
        width: int = 1280,
        height: int = 800,
        scale: float = 1,
        phone: bool = False,
        few_frames: bool = False,
    ) -> Page:
        """A new tab that shows an address. few_frames: for tests that do not look at motion."""
        target = self.send("Target.createTarget", {"url": "about:blank"})["targetId"]
        session = self.send("Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"]
        page = self._pages[session] = Page(self, target, session)
        for domain in ("Page", "Runtime", "Network", "Log"):
            page.send(f"{domain}.enable")
        if few_frames:
            page.send("Page.addScriptToEvaluateOnNewDocument", source=FEW_FRAMES)
        page.resize(width, height, scale, phone)
        page.goto(address)
        return page

    def send(self, method: str, parameters: dict[str, Any], session: str | None = None) -> dict[str, Any]:
        """A command of the DevTools protocol, and its answer."""
        self._number += 1
        number = self._number
        message = {"id": number, "method": method, "params": parameters} | ({"sessionId": session} if session else {})
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._to, data) :]
        deadline = time.monotonic() + PATIENCE
        while number not in self._answers:
            self.listen(deadline, method)
        answer = self._answers.pop(number)
        if "error" in answer:
            raise AssertionError(f"{method}: {answer['error']['message']}")
        return answer["result"]

    def listen(self, deadline: float, wanted: str) -> None:
        """Read the next message of the browser."""
        ready, _, _ = select.select([self._from], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            raise AssertionError(f"the browser did not answer within {PATIENCE:g} s: {wanted}")
        if not (data := os.read(self._from, 1 << 20)):
            raise AssertionError(f"the browser ended ({self._process.poll()}), waiting for {wanted}")
        *messages, self._rest = (self._rest + data).split(b"\0")
        for message in map(json.loads, messages):
            if "id" in message:
                self._answers[message["id"]] = message
            elif (page := self._pages.get(message.get("sessionId"))) is not None:
                page.hear(message["method"], message["params"])


@contextlib.contextmanager
def chromium() -> Iterator[Chromium]:
    """A browser with its own profile; at the end of the block it is stopped and its profile removed."""
    with tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True) as profile:
        its_in, to_browser = map(_high, os.pipe())
        from_browser, its_out = map(_high, os.pipe())
        # The browser needs the descriptors 3 and 4, which this process may use for something else.
        line = f'exec "$0" "$@" 3<&{its_in} 4>&{its_out}'
        process = subprocess.Popen(
            ["bash", "-c", line, _program(), *FLAGS, f"--user-data-dir={profile}", "about:blank"],
            pass_fds=(its_in, its_out),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"HOME": profile},
        )
        os.close(its_in)
        os.close(its_out)
        chrome = Chromium(process, to_browser, from_browser)
        try:
            yield chrome
        finally:
            with contextlib.suppress(AssertionError, OSError):
                chrome.send("Browser.close", {})
            os.close(to_browser)  # without its pipe the browser ends, with all its processes
            os.close(from_browser)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _high(descriptor: int) -> int:
    """The same file with a descriptor from 10 on, so that 3 and 4 are free."""
    high = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 10)
    os.close(descriptor)
    return high


def _reason(details: dict[str, Any]) -> str:
    return details.get("exception", {}).get("description") or details.get("text", "")
