"""What an agent is made of: the package's own sources as a zip file, and the command that runs them elsewhere.

Nothing has to be installed there but Python. The sources go over the connection, into memory.
"""

import io
import sys
import zipfile
from functools import cache
from pathlib import Path

_PACKAGE = Path(__file__).parents[1]
#: The parts whose functions are called on other machines. What gathers a part's modules for others to import would
#: import libraries there, so of these parts it stays empty.
_PARTS, _BARE = ("base", "host", "store", "cluster", "observe"), ("cluster", "observe")
#: The oldest Python that the sources are written for.
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
echo "there is no Python {major}.{minor} or newer" >&2
exit 72
"""
#: What the command leaves with where there is no such Python.
NO_PYTHON = 72


@cache
def bundle() -> bytes:
    """Return the zip file."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as content:
        for path in sorted(_PACKAGE.glob("*.py")):
            content.write(path, f"loadframe/{path.name}")
        for part in _PARTS:
            for path in sorted((_PACKAGE / part).rglob("*")):
                name = f"loadframe/{path.relative_to(_PACKAGE)}"
                if part in _BARE and name == f"loadframe/{part}/__init__.py":
                    content.writestr(name, "")
                elif path.suffix in (".py", ".json"):
                    content.write(path, name)
    return buffer.getvalue()


def agent_command() -> tuple[str, ...]:
    """Return the command that becomes an agent on another machine, which then reads the bundle's size and the bundle.

    It takes this very Python where it is there as well, as on a shared file system, or else one of the PATH.
    """
    major, minor = PYTHON
    names = ["python3", *(f"python{major}.{newer}" for newer in range(minor, minor + 6))]
    candidates = " ".join(f'"{name}"' for name in (sys.executable, *names))
    return ("/bin/sh", "-c", _FIND.format(candidates=candidates, major=major, minor=minor, boot=_BOOT))
