"""Sources of the agent as a zip file, and the command that runs them on another machine.

The machine needs only Python. The sources are sent over the connection and stay in memory.
"""

import io
import sys
import zipfile
from functools import cache
from pathlib import Path

_PACKAGE = Path(__file__).parents[1]
#: Packages whose functions agents call. `_BARE` get an empty `__init__.py`, because the real one imports libraries.
_PACKAGES, _BARE = ("base", "host", "store", "cluster", "observe"), ("cluster", "observe")
#: Oldest supported Python version.
PYTHON = (3, 11)

_BOOT = """
import os, sys
source = sys.stdin.buffer
size = int(source.readline())
file = os.memfd_create("loadframe")
content = source.read(size)
while content:
    content = content[os.write(file, content):]
sys.path.insert(0, "/proc/self/fd/%d" % file)
from loadframe.host import agent
agent.main(source)
"""
_FIND = """
for python in {candidates}; do
  if "$python" -I -S -c "import sys; sys.exit(sys.version_info < ({major}, {minor}))" 2>/dev/null; then
    exec "$python" -I -S -c '{boot}'
  fi
done
echo "Python {major}.{minor} or newer is not installed" >&2
exit 72
"""
#: Exit status of the command if no supported Python is found.
NO_PYTHON = 72


@cache
def bundle() -> bytes:
    """Return the zip file."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as content:
        for path in sorted(_PACKAGE.glob("*.py")):
            content.write(path, f"loadframe/{path.name}")
        for package in _PACKAGES:
            for path in sorted((_PACKAGE / package).rglob("*")):
                name = f"loadframe/{path.relative_to(_PACKAGE)}"
                if package in _BARE and name == f"loadframe/{package}/__init__.py":
                    content.writestr(name, "")
                elif path.suffix in (".py", ".json"):
                    content.write(path, name)
    return buffer.getvalue()


def agent_command() -> tuple[str, ...]:
    """Return the command that becomes an agent on another machine.

    It reads the size of the bundle and the bundle from its input. It prefers the path of the current Python, which
    exists on shared file systems, and falls back to a Python in PATH.
    """
    major, minor = PYTHON
    names = ["python3", *(f"python{major}.{newer}" for newer in range(minor, minor + 6))]
    candidates = " ".join(f'"{name}"' for name in (sys.executable, *names))
    return ("/bin/sh", "-c", _FIND.format(candidates=candidates, major=major, minor=minor, boot=_BOOT))
