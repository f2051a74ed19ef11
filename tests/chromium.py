"""A headless Chromium that tests talk to over a pipe, by the DevTools protocol; it ends with the test."""

import json
import os
import shutil
import subprocess
import tempfile
from typing import Any, Self

from commands import until

NAME = "chromium"


def missing() -> str | None:
    """Return why no browser can be used here; None if one is installed."""
    return None if shutil.which(NAME) else f"{NAME} is not installed here"


class Chromium:
    """One page of a browser."""

    def __init__(self, width: int = 1200, height: int = 1100, *, dark: bool = False) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="loadframe-chromium-", ignore_cleanup_errors=True)
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        # It reads from descriptor 3 and writes to 4 (chromium's remote-debugging-pipe).
        words = (
            f"exec {NAME} --headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run"
            f" --disable-background-networking --disable-extensions --remote-debugging-pipe"
            f" --user-data-dir={self._folder.name} --window-size={width},{height} about:blank"
            f" 3<&{theirs_in} 4>&{theirs_out}"
        )
        self._process = subprocess.Popen(
            ["bash", "-c", words],
            pass_fds=(theirs_in, theirs_out),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._rest = b""
        self._number = 0
        self._session: str | None = None
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(target["targetId"] for target in targets if target["type"] == "page")
        self._session = self.call("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **metrics)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._session = None
        try:
            self.call("Browser.close")
        finally:
            self._process.wait(60)
            os.close(self._in)
            os.close(self._out)
            self._folder.cleanup()

    def call(self, method: str, **parameters: Any) -> Any:
        """Call a method of the browser and return its answer."""
        self._number += 1
        asked = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            asked["sessionId"] = self._session
        os.write(self._out, json.dumps(asked).encode() + b"\0")
        while True:
            while b"\0" not in self._rest:
                read = os.read(self._in, 1 << 16)
                assert read, "the browser has ended"
                self._rest += read
            message, _, self._rest = self._rest.partition(b"\0")
            answer = json.loads(message)
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]

    def open(self, url: str) -> None:
        """Go to a page."""
        self.call("Page.navigate", url=url)

    def evaluate(self, expression: str) -> Any:
        """Return the value of a JavaScript expression. The value must be representable in JSON."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def wait_for(self, expression: str) -> Any:
        """Wait until an expression is true; return its value."""
        return until(lambda: self.evaluate(expression))
