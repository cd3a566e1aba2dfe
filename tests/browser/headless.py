"""A headless Chromium, driven over its pipe with the DevTools protocol: https://chromedevtools.github.io/devtools-protocol/."""

import base64
import contextlib
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.waiting import DEADLINE_S

PROGRAM = "chromium-headless-shell"


@dataclass
class Page:
    """One page of the browser."""

    _to: int
    _from: int
    session: str = ""
    problems: list[str] = field(default_factory=list)
    """Console messages and errors of the page since it was opened."""

    _serial: int = 0
    _buffer: bytes = b""
    _events: list[dict[str, Any]] = field(default_factory=list)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the protocol and return its result."""
        self._serial += 1
        message: dict[str, Any] = {"id": self._serial, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._serial:
                assert "error" not in answer, answer["error"]
                result: dict[str, Any] = answer["result"]
                return result
            self._take(answer)

    def _next(self) -> dict[str, Any]:
        until = time.monotonic() + DEADLINE_S
        while b"\0" not in self._buffer:
            readable, _, _ = select.select([self._from], [], [], max(0.0, until - time.monotonic()))
            assert readable, f"the browser does not answer within {DEADLINE_S:g} s"
            piece = os.read(self._from, 1 << 20)
            assert piece, "the browser has ended"
            self._buffer += piece
        line, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        return message

    def _take(self, event: dict[str, Any]) -> None:
        self._events.append(event)
        if event.get("method") in ("Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown"):
            self.problems.append(json.dumps(event["params"]))
        if event.get("method") == "Network.requestWillBeSent":
            self.requests.append(event["params"]["request"]["url"])

    requests: list[str] = field(default_factory=list)
    """URLs that the page requested."""

    def show(self, file: Path, width: int, height: int, *, dark: bool = False) -> None:
        """Open `file` in a window of this size, with the light or the dark scheme."""
        self.problems.clear()
        self.requests.clear()
        self._events.clear()
        is_phone = width < 600
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=is_phone
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", media="screen", features=[scheme])
        loader = self.call("Page.navigate", url=file.as_uri())["loaderId"]
        while not any(_is_loaded(event, loader) for event in self._events):
            self._take(self._next())

    def value(self, expression: str) -> Any:
        """Return the value of an expression in the page."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def screenshot(self, file: Path, *, whole: bool = True) -> None:
        """Write a picture of the page."""
        taken = self.call("Page.captureScreenshot", captureBeyondViewport=whole)
        file.write_bytes(base64.b64decode(taken["data"]))


def _is_loaded(event: dict[str, Any], loader: str) -> bool:
    """Return True for the end of loading of the document that `loader` loads, and of no earlier one."""
    parameters = event.get("params", {})
    is_load = event.get("method") == "Page.lifecycleEvent" and parameters.get("name") == "load"
    return is_load and parameters.get("loaderId") == loader


def is_installed() -> bool:
    """Return True if the browser is there; scripts/setup --for-tests installs it where the distribution has it."""
    return shutil.which(PROGRAM) is not None


@contextlib.contextmanager
def browser(directory: Path) -> Iterator[Page]:
    """Start a browser with its profile in `directory`, and yield a page of it."""
    its_input, ours_out = os.pipe()
    ours_in, its_output = os.pipe()
    options = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", f"--user-data-dir={directory}"]
    script = f'exec "$@" 3<&{its_input} 4>&{its_output}'
    process = subprocess.Popen(
        ["bash", "-c", script, "bash", PROGRAM, *options, "--remote-debugging-pipe", "about:blank"],
        pass_fds=(its_input, its_output), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    os.close(its_input)
    os.close(its_output)
    try:
        page = Page(ours_out, ours_in)
        target = page.call("Target.createTarget", url="about:blank")["targetId"]
        page.session = page.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            page.call(f"{domain}.enable")
        page.call("Page.setLifecycleEventsEnabled", enabled=True)
        yield page
    finally:
        os.close(ours_out)  # The browser ends with its pipe.
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(10)
        process.kill()
        process.wait()
        os.close(ours_in)
