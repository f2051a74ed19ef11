"""Report known vulnerabilities of the locked Python and Rust packages, by pip-audit and cargo audit.

Exit status 1 if there are any. A package list is "not checked" if its database does not answer; the exit status is 0.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

_TOP = Path(__file__).parents[1]


def main() -> int:
    """Print a line for each package list; return the exit status."""
    uv = shutil.which("uv") or str(_TOP / ".tools" / "bin" / "uv")
    python = [uv, "tool", "run", "--quiet", "pip-audit", "--requirement", "requirements.lock", "--disable-pip",
              "--format", "json"]  # fmt: skip
    vulnerable = [
        *audit("requirements.lock", python, python_findings),
        *audit("Cargo.lock", ["cargo", "audit", "--json"], rust_findings),
    ]
    for line in vulnerable:
        print(line)
    return 1 if vulnerable else 0


def audit(name: str, command: Sequence[str], findings: Callable[[Any], list[str]]) -> list[str]:
    """Run a checker and return its findings; print the outcome."""
    try:
        ended = subprocess.run(command, cwd=_TOP, capture_output=True, text=True, check=False)
        found = findings(json.loads(ended.stdout))
    except OSError as error:
        print(f"{name}: not checked: {command[0]}: {error.strerror}")
        return []
    except json.JSONDecodeError:
        lines = ended.stderr.strip().splitlines()
        print(f"{name}: not checked: {lines[-1] if lines else f'exit status {ended.returncode}'}")
        return []
    except ValueError as error:
        print(f"{name}: not checked: {error}")
        return []
    print(f"{name}: {len(found)} known vulnerabilities")
    return found


def python_findings(report: dict[str, Any]) -> list[str]:
    """Return the vulnerabilities. ValueError if a package was not found in the database."""
    if skipped := [package["skip_reason"] for package in report["dependencies"] if "skip_reason" in package]:
        raise ValueError(f"{len(skipped)} packages, such as: {skipped[0]}")
    return [
        f"{package['name']} {package['version']}: {entry['id']}"
        for package in report["dependencies"]
        for entry in package.get("vulns", ())
    ]


def rust_findings(report: dict[str, Any]) -> list[str]:
    """Return the vulnerabilities that cargo audit found."""
    return [
        f"{entry['package']['name']} {entry['package']['version']}: {entry['advisory']['id']}"
        for entry in report["vulnerabilities"]["list"]
    ]


if __name__ == "__main__":
    sys.exit(main())
