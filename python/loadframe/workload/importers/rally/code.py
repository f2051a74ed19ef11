"""Code of a track (track.py): the names it registers, and the requests of its parameter sources.

`registered` parses the code. `run` executes it; call it only in the process of `isolated`, and only if the user allows
it. An audit hook refuses network access, subprocesses and file changes. It stops mistakes, not malicious code.
"""

import ast
import asyncio
import importlib.util
import inspect
import json
import os
import random
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any

from loadframe.base.errors import BadInput
from loadframe.workload.importers.rally import toolkit
from loadframe.workload.importers.source import text_of

#: Files with code of a track.
FILES = ("track.py", "workload.py")
#: Kinds of registrations: the suffixes of the methods `register_...`.
KINDS = (
    *("param_source", "runner", "scheduler", "track_processor", "workload_processor"),
    *("standard_value_source", "query_randomization_info", "other"),
)
#: Parameters that may differ between requests.
VARY = ("body", "index", "query")
#: Minimum requests to draw from a source, regardless of the time limit.
_LEAST = 200
_WITHOUT = "import the track without --allow-code, which skips the operations that need its code"


@dataclass(frozen=True)
class DrawRequest:
    """A request for draws: a parameter source, the operation that uses it, and the number of requests to draw."""

    source: str
    operation: str
    params: dict[str, Any]
    clients: int
    most: int


@dataclass(frozen=True)
class Draws:
    """Requests of a parameter source, and why drawing stopped.

    `ended`: the source is exhausted. `full`: size limit. `slow`: time limit. `failed`: reason of an error.
    """

    values: list[dict[str, Any]]
    ended: bool = False
    full: bool = False
    slow: bool = False
    failed: str | None = None


@dataclass
class Budget:
    """Limits for drawing: bytes of the requests per source, bytes of packed requests in total, and seconds."""

    of_source: int = 2**26
    kept: int = 2**27
    seconds: float = 15.0

    def share(self, sources: int) -> float:
        """Return the seconds for the next source if `sources`, at least 1, share the remaining seconds equally."""
        return self.seconds / sources


@dataclass(frozen=True)
class Ran:
    """Result of running a track's code: registered names by kind, and draws in the order of `wanted`."""

    registered: dict[str, list[str]]
    draws: tuple[Draws, ...]


class RefusedError(PermissionError):
    """A track's code attempted a forbidden action."""


def registered(file: Path) -> dict[str, list[str]]:
    """Return the names that a track's code registers as literals, for each of KINDS, such as `param_source`.

    Names that the code computes are missed. All lists are empty if the code does not parse. Does not run the code.
    BadInput if the file cannot be read.
    """
    names: dict[str, list[str]] = {kind: [] for kind in KINDS}
    try:
        tree = ast.parse(text_of(file))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return names
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            kind = node.func.attr.removeprefix("register_")
            if kind in names and node.args and isinstance(name := getattr(node.args[0], "value", None), str):
                names[kind].append(name)
    return names


def run(file: Path, track: Mapping[str, Any], wanted: Sequence[DrawRequest], budget: Budget) -> Ran:
    """Run a track's code and draw from its parameter sources; BadInput, with the line, if loading the code fails.

    `track` is the rendered track. Call it in a separate process: it installs stubs and an audit hook, and changes
    `sys.path` and the random seed. Lowers `budget`. Errors while drawing are in `Draws.failed`. Values are packed; see
    `unpacked`.
    """
    folder = file.parent.resolve()
    toolkit.install()
    sys.dont_write_bytecode = True
    sys.path[:0] = [str(folder), str(folder.parent)]
    sys.addaudithook(_refuse)
    registry = _Registry()
    wrap_errors = _WrapErrors(file, folder)
    with wrap_errors:
        random.seed(_SEED)
        register = _module(file, folder)["register"]
        register(registry)
    facts = _facts(track, folder)
    draws = []
    for left, one in zip(range(len(wanted), 0, -1), wanted, strict=True):
        began = _elapsed()
        source = registry.param_source.get(one.source)
        draws.append(_draws(source, one, facts, wrap_errors, budget, budget.share(left)))
        budget.seconds = max(0.0, budget.seconds - (_elapsed() - began))
    return Ran({kind: [str(name) for name in getattr(registry, kind)] for kind in KINDS}, tuple(draws))


#: Seed of random sources, so that each import draws the same requests.
_SEED = 0


class _Registry:
    """The registry passed to the track's `register(registry)`."""

    def __init__(self) -> None:
        """Begin without registrations; `meta_data` are Rally's facts that a track's code may read."""
        self.meta_data = {"rally_version": None, "benchmark_version": None, "async_runner": True}
        self.param_source: dict[str, Any] = {}
        self.runner: dict[str, Any] = {}
        self.scheduler: dict[str, Any] = {}
        self.track_processor: list[str] = []
        self.workload_processor: list[str] = []
        self.standard_value_source: list[str] = []
        self.query_randomization_info: list[str] = []
        #: Registrations of unknown kinds.
        self.other: list[str] = []

    def register_param_source(self, name: str, source: Any, **_: Any) -> None:
        """Record a parameter source by its name."""
        self.param_source[name] = source

    def register_runner(self, name: str, runner: Any, **_: Any) -> None:
        """Record a runner by the name of its operation type."""
        self.runner[name] = runner

    def register_scheduler(self, name: str, scheduler: Any, **_: Any) -> None:
        """Record a scheduler by its name."""
        self.scheduler[name] = scheduler

    def register_track_processor(self, processor: Any, **_: Any) -> None:
        """Record the name of a track processor's class."""
        self.track_processor.append(type(processor).__name__)

    def register_workload_processor(self, processor: Any, **_: Any) -> None:
        """Record the name of a workload processor's class."""
        self.workload_processor.append(type(processor).__name__)

    def register_standard_value_source(self, operation: str, field: str, _source: Any) -> None:
        """Record `OPERATION (FIELD)`. OpenSearch Benchmark uses its random values only with --randomization-enabled."""
        self.standard_value_source.append(f"{operation} ({field})")

    def register_query_randomization_info(self, operation: str, *_: Any, **__: Any) -> None:
        """Record the operation of a registration for random query values."""
        self.query_randomization_info.append(operation)

    def __getattr__(self, name: str) -> Any:
        """Return a function that records a registration of an unknown kind with its first argument.

        AttributeError for a name that does not start with `register_`.
        """
        if not name.startswith("register_"):
            raise AttributeError(name)
        return lambda *arguments, **_: self.other.append(" ".join([name, *(str(one) for one in arguments[:1])]))


class _WrapErrors:
    """Context manager that converts exceptions of a track's code, except MemoryError, to BadInput with the line."""

    def __init__(self, file: Path, folder: Path) -> None:
        """`file` is the track's code, the place of errors without a frame in `folder`, the track's resolved folder."""
        self.file = file
        self.folder = folder

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: Any) -> None:
        if error is not None and not isinstance(error, MemoryError):
            what = f"the track's code raised {type(error).__name__}: {str(error)[:300]}"
            raise BadInput(what, where=_place(error, self.file, self.folder), remedy=_WITHOUT) from None


def _place(error: BaseException, file: Path, folder: Path) -> str:
    """Return `file:line` of the innermost frame in the track's folder; `file` alone if no frame is in it."""
    place, trace = str(file), error.__traceback__
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if Path(name).is_relative_to(folder):
            place = f"{name}:{trace.tb_lineno}"
        trace = trace.tb_next
    return place


def _module(file: Path, folder: Path) -> dict[str, Any]:
    """Run the code and return its names, with their values.

    The code runs as a module of a package named after the folder, so that it can import its siblings. Both stay in
    `sys.modules`. All exceptions of the code are passed on; ImportError if Python cannot load such a file.
    """
    if folder.name not in sys.modules:
        package = ModuleType(folder.name)
        package.__path__ = [str(folder)]
        sys.modules[folder.name] = package
    spec = importlib.util.spec_from_file_location(f"{folder.name}.{file.stem}", file.resolve())
    if spec is None or spec.loader is None:
        raise ImportError(str(file))
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return vars(module)


def _elapsed() -> float:
    """Return monotonic wall-clock seconds from an arbitrary origin, because a source that waits uses no CPU time."""
    return time.monotonic()


def _draws(
    source: Any, wanted: DrawRequest, track: Any, wrap_errors: _WrapErrors, budget: Budget, seconds: float
) -> Draws:
    """Return packed requests of a parameter source, up to `wanted.most` and the limits of time and size.

    `seconds` limits the time, but not the first 200 requests; it sets `slow`. A size limit of `budget` sets `full`. A
    request that cannot be imported (see `_is_lost`) is the last, without a flag. Reduces `budget.kept`, and seeds
    `random`. If the source fails or is None, no request is returned, and `failed` has the reason.
    """
    if source is None:
        return Draws([], failed="the track's code does not register this name")
    packed: list[dict[str, Any]] = []
    first: dict[str, Any] = {}
    size, until = 0, _elapsed() + seconds
    try:
        with wrap_errors:
            random.seed(_SEED)
            drawn = _draw_parameters(source, wanted, track)
            for given in islice(drawn, wanted.most):
                text = json.dumps(given, allow_nan=False)
                size += len(text)
                value = json.loads(text)
                first = first if packed else value
                one, length = _packed(first, value, text) if packed else ({"whole": value}, len(text))
                if packed and (size > budget.of_source or length > budget.kept):
                    return Draws(packed, full=True)
                budget.kept -= length
                packed.append(one)
                if _is_lost(first, value):
                    return Draws(packed)
                if len(packed) >= _LEAST and _elapsed() > until:
                    return Draws(packed, slow=True)
            return Draws(packed, ended=next(drawn, None) is None)
    except BadInput as error:
        return Draws([], failed=f"{error.what} ({error.where})")


def _is_lost(first: Mapping[str, Any], value: Mapping[str, Any]) -> bool:
    """Return whether a request cannot be imported, which makes further draws useless.

    This is so if its body is a text, or another parameter than `body`, `index` and `query` differs from the `first`
    request. None counts as missing.
    """
    fixed = {key: one for key, one in value.items() if one is not None and key not in VARY}
    fixed_before = {key: one for key, one in first.items() if one is not None and key not in VARY}
    return isinstance(value.get("body"), str) or fixed != fixed_before


def _packed(first: dict[str, Any], value: dict[str, Any], text: str) -> tuple[dict[str, Any], int]:
    """Return a request as changes from the first one, or whole if that is shorter, and its JSON length in characters.

    It is `{"changes": [[path, value], ...]}` or `{"whole": request}`. `text` is the request as JSON.
    """
    changes = list(_changes(first, value, ()))
    length = len(json.dumps(changes))
    return ({"changes": changes}, length) if length < len(text) else ({"whole": value}, len(text))


def _changes(before: Any, after: Any, path: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """Yield path and new value of each difference between two JSON values; `path` is put before the paths.

    A path has keys and indices. Objects with other keys and lists of another length differ as a whole.
    """
    if isinstance(before, dict) and isinstance(after, dict) and before.keys() == after.keys():
        for key, value in before.items():
            yield from _changes(value, after[key], (*path, key))
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, (one, other) in enumerate(zip(before, after, strict=True)):
            if not (type(one) is type(other) is str and one == other):
                yield from _changes(one, other, (*path, index))
    elif type(before) is not type(after) or before != after or isinstance(before, dict | list):
        yield path, after


def unpacked(packed: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the original requests of packed ones (see `_packed`); the first must be whole.

    They share common parts: do not modify them.
    """
    first = packed[0]["whole"] if packed else {}
    return [one["whole"] if "whole" in one else _changed(first, one["changes"]) for one in packed]


def _changed(value: Any, changes: Sequence[tuple[Sequence[str | int], Any]]) -> Any:
    """Return a value with `changes` (path and new value) applied; copies only the containers on their paths."""
    inner: dict[str | int, list[tuple[Sequence[str | int], Any]]] = {}
    for path, new in changes:
        if not path:
            return new
        inner.setdefault(path[0], []).append((path[1:], new))
    copy = value.copy() if inner else value
    for key, further in inner.items():
        copy[key] = _changed(value[key], further)
    return copy


def _draw_parameters(source: Any, wanted: DrawRequest, track: Any) -> Iterator[dict[str, Any]]:
    """Yield the parameters of successive requests of a source: a function or a class.

    A class is partitioned by clients (at most `wanted.most`), which take turns. A client ends with StopIteration, and
    the iterator with the last client. A function never ends. Exceptions of the track's code propagate.
    """
    if isinstance(source, FunctionType):
        while True:
            yield _awaited(source(track, dict(wanted.params), operation_name=wanted.operation))
    made = source(track, dict(wanted.params), operation_name=wanted.operation)
    clients = min(wanted.clients, wanted.most)
    parts = [made.partition(index, wanted.clients) for index in range(clients)] if _has(made, "partition") else [made]
    while parts:
        for part in list(parts):
            try:
                given = _awaited(part.params())
            except (StopIteration, StopAsyncIteration):
                parts.remove(part)
            else:
                yield given


def _has(made: Any, method: str) -> bool:
    """Return whether an object has a method of this name."""
    return callable(getattr(made, method, None))


@cache
def _runner() -> asyncio.Runner:
    """Return the event loop of the process. A new loop per request would take longer than most sources."""
    return asyncio.Runner()


def _awaited(given: Any) -> dict[str, Any]:
    """Return the parameters, after running them if they are a coroutine; TypeError unless they are a dictionary."""
    if inspect.iscoroutine(given):
        given = _runner().run(given)
    if not isinstance(given, dict):
        raise TypeError(f"params() must return a dictionary; got {type(given).__name__}")
    return given


def _facts(track: Mapping[str, Any], folder: Path) -> Any:
    """Return the rendered track as an object with Rally's attribute names, for the track's own code.

    Missing lists are empty. The selected challenge is the default one, or the first.
    """

    def named(key: str, **renamed: str) -> list[Any]:
        """Return the objects in a list of the track; `renamed` maps keys, with underscores, to new names."""
        entries = [entry for entry in track.get(key) or () if isinstance(entry, dict)]
        return [_object(entry, renamed) for entry in entries]

    challenges = [*named("challenges"), *named("test_procedures")]
    for challenge in challenges:
        challenge.parameters = {**(track.get("parameters") or {}), **(getattr(challenge, "parameters", None) or {})}
    chosen = [challenge for challenge in challenges if getattr(challenge, "default", False)] or challenges
    corpora = named("corpora")
    for corpus in corpora:
        lines = {"source_file": "document_file", "document_count": "number_of_documents"}
        corpus.documents = [_object(entry, lines) for entry in getattr(corpus, "documents", None) or ()]
    return SimpleNamespace(
        name=folder.name,
        description=track.get("description"),
        root=str(folder),
        meta_data=track.get("meta") or {},
        indices=named("indices"),
        data_streams=named("data-streams"),
        templates=named("templates", template="content", index_pattern="pattern"),
        component_templates=named("component-templates", template="content"),
        composable_templates=named("composable-templates", template="content", index_pattern="pattern"),
        corpora=corpora,
        challenges=challenges,
        test_procedures=challenges,
        selected_challenge=chosen[0] if chosen else None,
        selected_challenge_or_default=chosen[0]
        if chosen
        else SimpleNamespace(parameters=track.get("parameters") or {}),
    )


def _object(entry: Mapping[str, Any], renamed: Mapping[str, str]) -> SimpleNamespace:
    """Return an entry of a track as an object with underscores in its names, and some names replaced."""
    words = {key.replace("-", "_"): value for key, value in entry.items()}
    return SimpleNamespace(**{renamed.get(key, key): value for key, value in words.items()})


def _refuse(event: str, arguments: tuple[Any, ...]) -> None:
    """Raise RefusedError for audit events of network access, new processes and file changes; ignore other events."""
    what = _REFUSED.get(event)
    if what is None and event == "open" and isinstance(arguments[2], int) and arguments[2] & _WRITES:
        what = "write files"
    if what is not None:
        raise RefusedError(f"code of a track must not {what} ({event})")


_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_REFUSED: Mapping[str, str] = {
    **{f"socket.{call}": "use the network" for call in ("connect", "bind", "sendto", "sendmsg", "getaddrinfo")},
    **{f"socket.gethostby{what}": "use the network" for what in ("name", "addr")},
    **dict.fromkeys(("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork"), "start processes"),
    **{f"os.{call}": "change files" for call in ("remove", "rename", "mkdir", "rmdir", "link", "symlink", "chmod")},
    "os.kill": "end processes",
}
