"""Renders a track and runs its code in a separate process, with limits on time and memory.

Templates and code of a track may loop forever. Code runs only here, and only if the user allows it.
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

#: Maximum size of the result, in bytes.
ANSWER = 2**29
#: Divisors of the memory limit: for the requests of one parameter source, and for the packed requests of all.
_SHARE, _KEPT = 16, 32
#: Fraction of the CPU time for drawing requests.
_DRAWING = 0.7
#: Seconds of CPU time from the soft limit (SIGXCPU) to the hard limit (SIGKILL).
_GRACE = 5


@dataclass(frozen=True)
class Limits:
    """Limits for a track: seconds of CPU time, bytes of memory, and requests to draw.

    The wall-clock limit is longer, since the machine may be busy.
    """

    cpu: int = 20
    memory: int = 2**30
    #: Maximum requests to draw per operation.
    draws: int = 100_000

    @property
    def clock(self) -> int:
        """The limit of wall-clock time, in seconds: 30 s plus twice the CPU time."""
        return 30 + 2 * self.cpu


DEFAULT = Limits()


def expand(path: Path, root: Path, parameters: Mapping[str, Any], limits: Limits = DEFAULT) -> dict[str, Any]:
    """Render the track file `path` in a separate process within limits, and return it as data; see `template.expand`.

    BadInput also if a limit is exceeded.
    """
    request = {"job": "expand", "path": str(path), "root": str(root), "parameters": dict(parameters)}
    track: dict[str, Any] = _run_isolated(request, path, "the templates need", "fix their loops", limits)
    return track


def locate(path: Path, root: Path, parameters: Mapping[str, Any], limits: Limits = DEFAULT) -> dict[str, str]:
    """Return file and line of each part of a track, from a separate process within limits; see `template.locate`.

    BadInput if a limit is exceeded.
    """
    request = {"job": "locate", "path": str(path), "root": str(root), "parameters": dict(parameters)}
    places: dict[str, str] = _run_isolated(request, path, "the templates need", "fix their loops", limits)
    return places


def registered(file: Path) -> dict[str, list[str]]:
    """Return the names that a track's code registers, by kind, from a separate process; see `code.registered`.

    The code is parsed, not run. BadInput if the file cannot be read, or parsing exceeds a default limit.
    """
    request = {"job": "registered", "path": str(file)}
    names: dict[str, list[str]] = _run_isolated(request, file, "parsing the file needs", "shorten it", DEFAULT)
    return names


def run(file: Path, track: Mapping[str, Any], wanted: Sequence[code.DrawRequest], limits: Limits = DEFAULT) -> code.Ran:
    """Run a track's code in a separate process within limits; return its registrations and draws, as `code.run`.

    Draws are in the order of `wanted`, with unpacked values. BadInput if the code does not load or exceeds a limit.
    """
    request = {"job": "run", "path": str(file), "track": track, "wanted": [vars(one) for one in wanted]}
    ran = _run_isolated(request, file, "the code needs", "import the track without --allow-code", limits)
    draws = (code.Draws(**{**one, "values": code.unpacked(one["values"])}) for one in ran["draws"])
    return code.Ran(ran["registered"], tuple(draws))


def _run_isolated(request: dict[str, Any], path: Path, what: str, remedy: str, limits: Limits) -> Any:
    """Run a job of `_answer` in a separate process within limits, and return its result. Blocks until the process ends.

    `request` is as in `_answer`, without limits. BadInput if the job refuses its input, exceeds a limit, or crashes.
    `path`, `what` (such as `the code needs`) and `remedy` are for these errors.
    """
    # The output of the track's code is discarded. -P keeps Python from importing modules from the current folder, which
    # may be the track's.
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
            raise _exceeded(what, f"{limits.clock} s of wall-clock time", "--time-limit", path, remedy) from None
        output.seek(0)
        try:
            answer = json.load(output)
        except json.JSONDecodeError:
            if ended.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
                raise _exceeded(what, f"{limits.cpu} s of CPU time", "--time-limit", path, remedy) from None
            if ended.returncode == -signal.SIGXFSZ:
                raise _too_much(what, path, remedy) from None
            # Native allocators may crash the process where Python raises MemoryError.
            if ended.returncode in (-signal.SIGSEGV, -signal.SIGABRT, -signal.SIGBUS):
                raise _out_of_memory(what, limits, path, remedy) from None
            what = f"the import process exited with status {ended.returncode}"
            raise BadInput(what, where=str(path), remedy=remedy) from None
    if answer.get("exceeded") == "memory":
        raise _out_of_memory(what, limits, path, remedy)
    if answer.get("exceeded") == "answer":
        raise _too_much(what, path, remedy)
    if "refused" in answer:
        raise BadInput(**answer["refused"])
    return answer["answer"]


def _out_of_memory(what: str, limits: Limits, path: Path, remedy: str) -> BadInput:
    """Return the error for a job that exceeds the memory limit; `what` begins the message: `the code needs`."""
    return _exceeded(what, f"{limits.memory >> 20} MiB of memory", "--memory-limit", path, remedy)


def _too_much(what: str, path: Path, remedy: str) -> BadInput:
    """Return the error for a job whose result is too large; `what` begins the message: `the code needs`."""
    return BadInput(f"{what} more than {ANSWER >> 20} MiB for the result", where=str(path), remedy=remedy)


def _exceeded(what: str, bound: str, option: str, path: Path, remedy: str) -> BadInput:
    """Return the error for a job that exceeds a limit, which `option` raises.

    `what` begins the message, such as `the code needs`, and `bound` is the limit, such as `512 MiB of memory`. `path`
    is the track's file; `remedy` is the alternative to a higher limit.
    """
    return BadInput(f"{what} more than {bound}", where=str(path), remedy=f"raise the limit with {option}, or {remedy}")


#: Environment variables that the process inherits; others may hold secrets.
_ENVIRONMENT = ("PATH", "LANG", "LC_ALL", "PYTHONPATH", "VIRTUAL_ENV", "TMPDIR")


def _main() -> None:
    """Read a job from standard input, run it within its limits, and write the answer as JSON to standard output.

    Then end the process with status 0. Output of the job itself goes to standard error.
    """
    request = json.load(sys.stdin)
    memory, cpu = request["memory"], request["cpu"]
    for kind, bound in ((resource.RLIMIT_AS, memory), (resource.RLIMIT_CORE, 0), (resource.RLIMIT_FSIZE, ANSWER)):
        resource.setrlimit(kind, (bound, bound))
    # Soft limit: SIGXCPU. Hard limit: SIGKILL.
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
    # Exit without waiting for threads of the track's code.
    os._exit(0)


def _answer(request: dict[str, Any]) -> Any:
    """Run the job that `request` names, and return its result as JSON values; errors of the job propagate.

    Keys: `job` (`expand`, `locate`, `registered` or `run`) and `path`; `root` and `parameters` for the first two;
    `track`, `wanted`, and the limits `memory` (bytes) and `cpu` (s) for `run`.
    """
    path = Path(request["path"])
    match request["job"]:
        case "expand":
            return template.expand(path, Path(request["root"]), request["parameters"])
        case "locate":
            return template.locate(path, Path(request["root"]), request["parameters"])
        case "registered":
            return code.registered(path)
        case _:
            wanted = [code.DrawRequest(**one) for one in request["wanted"]]
            memory = request["memory"]
            budget = code.Budget(memory // _SHARE, memory // _KEPT, request["cpu"] * _DRAWING)
            ran = code.run(path, request["track"], wanted, budget)
            return {"registered": ran.registered, "draws": [vars(one) for one in ran.draws]}


if __name__ == "__main__":
    _main()
