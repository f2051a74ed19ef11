"""Reads a track in a process of its own, with limits on its time and its memory.

Templates can loop without end, and so can the code of a track, which runs nowhere else and only when it is allowed.
"""

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from loadframe.base.errors import BadInput
from loadframe.workload.importers.rally import code, template

#: Bytes of the answer.
ANSWER = 2**29
#: The share of the memory that the requests of one parameter source may fill, and what is kept of those of all.
_SHARE, _KEPT = 16, 32
#: The share of the CPU time that may pass while requests are drawn.
_DRAWING = 0.7
#: Seconds of CPU time between the limit and the end of a process that does not heed it.
_GRACE = 5


@dataclass(frozen=True)
class Limits:
    """How much a track may take: seconds of CPU time, bytes of memory, and draws.

    The clock may take longer, since machines are busy.
    """

    cpu: int = 20
    memory: int = 2**30
    #: Requests of one operation whose parameters are drawn.
    draws: int = 100_000

    @property
    def clock(self) -> int:
        """Seconds of the clock."""
        return 30 + 2 * self.cpu


DEFAULT = Limits()


def expand(path: Path, root: Path, parameters: Mapping[str, Any], limits: Limits = DEFAULT) -> dict[str, Any]:
    """Do what `template.expand` does, but within limits; BadInput, too, where they are exceeded."""
    request = {"job": "expand", "path": str(path), "root": str(root), "parameters": dict(parameters)}
    track: dict[str, Any] = _ask(request, path, "its templates need", "correct its loops", limits)
    return track


def locate(path: Path, root: Path, parameters: Mapping[str, Any], limits: Limits = DEFAULT) -> dict[str, str]:
    """Do what `template.locate` does, but within limits; BadInput, too, where they are exceeded."""
    request = {"job": "locate", "path": str(path), "root": str(root), "parameters": dict(parameters)}
    places: dict[str, str] = _ask(request, path, "its templates need", "correct its loops", limits)
    return places


def registered(file: Path) -> dict[str, list[str]]:
    """Do what `code.registered` does, but within limits: no code of a track is run."""
    request = {"job": "registered", "path": str(file)}
    names: dict[str, list[str]] = _ask(request, file, "reading it needs", "shorten it", DEFAULT)
    return names


def run(file: Path, track: Mapping[str, Any], wanted: Sequence[code.Wanted], limits: Limits = DEFAULT) -> code.Ran:
    """Do what `code.run` does, but within limits; BadInput, too, where they are exceeded."""
    request = {"job": "run", "path": str(file), "track": track, "wanted": [vars(one) for one in wanted]}
    ran = _ask(request, file, "its code needs", "import the track without --allow-code", limits)
    draws = (code.Draws(**{**one, "values": code.unpacked(one["values"])}) for one in ran["draws"])
    return code.Ran(ran["registered"], tuple(draws))


def _ask(request: dict[str, Any], path: Path, what: str, remedy: str, limits: Limits) -> Any:
    # Only the answer is read; what the track's code prints is discarded. -P keeps Python from taking
    # modules from the current folder, which may be the track's.
    with TemporaryFile("w+", encoding="utf-8") as output:
        try:
            ended = subprocess.run(
                [sys.executable, "-P", "-m", __name__],
                input=json.dumps({**request, "cpu": limits.cpu, "memory": limits.memory}),
                stdout=output,
                stderr=subprocess.DEVNULL,
                text=True,
                encoding="utf-8",
                timeout=limits.clock,
                check=False,
                env={name: value for name, value in os.environ.items() if name in _ENVIRONMENT},
            )
        except subprocess.TimeoutExpired:
            raise _exceeded(what, f"{limits.clock} s of the clock", "--time-limit", path, remedy) from None
        output.seek(0)
        try:
            answer = json.load(output)
        except json.JSONDecodeError:
            if ended.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
                raise _exceeded(what, f"{limits.cpu} s of CPU time", "--time-limit", path, remedy) from None
            if ended.returncode == -signal.SIGXFSZ:
                raise _too_much(what, path, remedy) from None
            # The allocators of libraries end the process where Python raises a MemoryError.
            if ended.returncode in (-signal.SIGSEGV, -signal.SIGABRT, -signal.SIGBUS):
                raise _out_of_memory(what, limits, path, remedy) from None
            how = f"ended with status {ended.returncode}"
            raise BadInput(f"the process that reads it {how}", where=str(path), remedy=remedy) from None
    if answer.get("exceeded") == "memory":
        raise _out_of_memory(what, limits, path, remedy)
    if answer.get("exceeded") == "answer":
        raise _too_much(what, path, remedy)
    if "refused" in answer:
        raise BadInput(**answer["refused"])
    return answer["answer"]


def _out_of_memory(what: str, limits: Limits, path: Path, remedy: str) -> BadInput:
    return _exceeded(what, f"{limits.memory >> 20} MiB of memory", "--memory-limit", path, remedy)


def _too_much(what: str, path: Path, remedy: str) -> BadInput:
    return BadInput(f"{what} more than {ANSWER >> 20} MiB for what it makes", where=str(path), remedy=remedy)


def _exceeded(what: str, bound: str, option: str, path: Path, remedy: str) -> BadInput:
    return BadInput(f"{what} more than {bound}", where=str(path), remedy=f"raise it with {option}, or {remedy}")


#: What the process gets to know of its user's environment: nothing that could be a secret.
_ENVIRONMENT = ("PATH", "LANG", "LC_ALL", "PYTHONPATH", "VIRTUAL_ENV", "TMPDIR")


def _main() -> None:
    request = json.load(sys.stdin)
    memory, cpu = request["memory"], request["cpu"]
    for kind, bound in ((resource.RLIMIT_AS, memory), (resource.RLIMIT_CORE, 0), (resource.RLIMIT_FSIZE, ANSWER)):
        resource.setrlimit(kind, (bound, bound))
    # A process that does not heed the signal at the first of the two is killed at the second.
    resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu + _GRACE))
    output = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    try:
        text = json.dumps({"answer": _answer(request)})
    except BadInput as error:
        text = json.dumps({"refused": {"what": error.what, "where": error.where, "remedy": error.remedy}})
    except MemoryError:
        text = json.dumps({"exceeded": "memory"})
    output.write(text if len(text) < ANSWER else json.dumps({"exceeded": "answer"}))
    output.close()
    # A track's code may have begun threads; nothing of it goes on.
    os._exit(0)


def _answer(request: dict[str, Any]) -> Any:
    path = Path(request["path"])
    match request["job"]:
        case "expand":
            return template.expand(path, Path(request["root"]), request["parameters"])
        case "locate":
            return template.locate(path, Path(request["root"]), request["parameters"])
        case "registered":
            return code.registered(path)
        case _:
            wanted = [code.Wanted(**one) for one in request["wanted"]]
            memory = request["memory"]
            budget = code.Budget(memory // _SHARE, memory // _KEPT, request["cpu"] * _DRAWING)
            ran = code.run(path, request["track"], wanted, budget)
            return {"registered": ran.registered, "draws": [vars(one) for one in ran.draws]}


if __name__ == "__main__":
    _main()
