"""The page: one file, with everything that it needs, and a policy by which a browser lets it have nothing else."""

import base64
import hashlib
from pathlib import Path

_PARTS = Path(__file__).parent / "parts"


def _part(name: str) -> str:
    return (_PARTS / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """Return how a policy names an inline script or style (CSP, section `hash-source`)."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


_STYLE = _part("page.css")
_SCRIPT = "".join(map(_part, ("chart.js", "answer.js", "page.js")))

#: The document, as it is sent.
PAGE = _part("page.html").replace("{style}", _STYLE).replace("{script}", _SCRIPT).encode()
#: Its Content-Security-Policy: its own script and style, its own server, and nothing from anywhere else.
POLICY = (
    f"default-src 'none'; script-src {_hash(_SCRIPT)}; style-src {_hash(_STYLE)}; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
