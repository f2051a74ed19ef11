"""Reads a track in a process of its own, with bounds on its time and its memory.

Templates can loop without end, and so can the code of a track, which runs nowhere else and only when it is allowed.
"""

import json
import os
import resource
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from loadframe.errors import BadInput
from loadframe.workload.importers.rally import code, template

#: Seconds of CPU time, seconds of the clock, bytes of memory, bytes of the answer.
CPU, PATIENCE, MEMORY, ANSWER = 20, 60, 2**30, 2**28


def expand(path: Path, parameters: Mapping[str, Any], *, cpu: int = CPU) -> dict[str, Any]:
    """Do what `template.expand` does, but within bounds; BadInput, too, where they are exceeded."""
    request = {"job": "expand", "path": str(path), "parameters": dict(parameters)}
    track: dict[str, Any] = _ask(request, path, "its templates do", "correct its loops", cpu)
    return track


def registered(file: Path) -> dict[str, list[str]]:
    """Do what `code.registered` does, but within bounds: no code of a track is run."""
    names: dict[str, list[str]] = _ask({"job": "registered", "path": str(file)}, file, "its reading does", "shorten it")
    return names


def run(file: Path, track: Mapping[str, Any], wanted: Sequence[code.Wanted], *, cpu: int = CPU) -> code.Ran:
    """Do what `code.run` does, but within bounds; BadInput, too, where they are exceeded."""
    request = {"job": "run", "path": str(file), "track": track, "wanted": [vars(one) for one in wanted]}
    ran = _ask(request, file, "its code does", "import the track without --allow-code", cpu)
    return code.Ran(ran["registered"], tuple(code.Draws(**one) for one in ran["draws"]))


def _ask(request: dict[str, Any], path: Path, what: str, remedy: str, cpu: int = CPU) -> Any:
    # A track can be told from its answer alone: what its code prints goes nowhere. -P keeps Python from taking
    # modules from the current folder, which may be the track's.
    with TemporaryFile("w+", encoding="utf-8") as output:
        try:
            subprocess.run(
                [sys.executable, "-P", "-m", __name__],
                input=json.dumps({**request, "cpu": cpu}),
                stdout=output,
                stderr=subprocess.DEVNULL,
                text=True,
                encoding="utf-8",
                timeout=PATIENCE,
                check=False,
                env={name: value for name, value in os.environ.items() if name in _ENVIRONMENT},
            )
            output.seek(0)
            answer = json.load(output)
        except (subprocess.TimeoutExpired, json.JSONDecodeError):
            bounds = f"within {cpu} s of CPU time, {PATIENCE} s of the clock and {MEMORY >> 20} MiB"
            raise BadInput(f"{what} not come to an end {bounds}", where=str(path), remedy=remedy) from None
    if "refused" in answer:
        raise BadInput(**answer["refused"])
    return answer["answer"]


#: What the process gets to know of its user's environment: nothing that could be a secret.
_ENVIRONMENT = ("PATH", "LANG", "LC_ALL", "PYTHONPATH", "VIRTUAL_ENV", "TMPDIR")


def _main() -> None:
    request = json.load(sys.stdin)
    for kind, bound in ((resource.RLIMIT_AS, MEMORY), (resource.RLIMIT_CORE, 0), (resource.RLIMIT_FSIZE, ANSWER)):
        resource.setrlimit(kind, (bound, bound))
    resource.setrlimit(resource.RLIMIT_CPU, (request["cpu"], request["cpu"]))
    output = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    try:
        answer = {"answer": _answer(request)}
    except BadInput as error:
        answer = {"refused": {"what": error.what, "where": error.where, "remedy": error.remedy}}
    json.dump(answer, output)
    output.close()
    # A track's code may have begun threads; nothing of it goes on.
    os._exit(0)


def _answer(request: dict[str, Any]) -> Any:
    path = Path(request["path"])
    match request["job"]:
        case "expand":
            return template.expand(path, request["parameters"])
        case "registered":
            return code.registered(path)
        case _:
            ran = code.run(path, request["track"], [code.Wanted(**one) for one in request["wanted"]])
            return {"registered": ran.registered, "draws": [vars(one) for one in ran.draws]}


if __name__ == "__main__":
    _main()
