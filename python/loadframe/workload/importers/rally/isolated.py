"""Expands a track in a process of its own, with bounds on its time and its memory: templates can loop without end."""

import json
import resource
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from loadframe.errors import BadInput
from loadframe.workload.importers.rally import template

#: Seconds of CPU time, seconds of the clock, bytes.
CPU, PATIENCE, MEMORY = 20, 60, 2**30


def expand(path: Path, parameters: Mapping[str, Any], *, cpu: int = CPU) -> dict[str, Any]:
    """Do what `template.expand` does, but within bounds; BadInput, too, where they are exceeded."""
    request = json.dumps({"path": str(path), "parameters": dict(parameters), "cpu": cpu})
    try:
        done = subprocess.run(
            [sys.executable, "-m", __name__],
            input=request,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=PATIENCE,
            check=False,
        )
        answer = json.loads(done.stdout)
    except (subprocess.TimeoutExpired, json.JSONDecodeError):
        what = f"its templates do not come to an end within {cpu} s of CPU time and {MEMORY >> 20} MiB"
        raise BadInput(what, where=str(path), remedy="correct its loops") from None
    if "refused" in answer:
        raise BadInput(**answer["refused"])
    track: dict[str, Any] = answer["track"]
    return track


def _main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    request = json.load(sys.stdin)
    resource.setrlimit(resource.RLIMIT_CPU, (request["cpu"], request["cpu"]))
    try:
        answer = {"track": template.expand(Path(request["path"]), request["parameters"])}
    except BadInput as error:
        answer = {"refused": {"what": error.what, "where": error.where, "remedy": error.remedy}}
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    _main()
