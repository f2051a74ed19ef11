"""Connections between a command and its agents: byte streams, and values as JSON, functions by name.

Supported values: JSON types, bytes, paths, tuples, and instances of the package's dataclasses. Decoding creates only
these types and resolves only names in the package, so neither side can run other code.
"""

import base64
import contextlib
import dataclasses
import importlib
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

#: Last lines of a launcher's standard error that are kept for messages.
_WORDS = 20
#: Seconds to wait for a launcher after its input is closed. The agent stops its nodes in this time.
_LEAVING = 30.0


class Connection(Protocol):
    """Byte stream to and from an agent."""

    def send(self, data: bytes) -> None:
        """Send all of the data; OSError if the connection is closed."""

    def receive(self) -> bytes:
        """Wait for data and return it; empty at the end of the stream."""

    def hang_up(self) -> None:
        """Close the stream to the agent, so that it exits."""

    def close(self) -> None:
        """Close the stream and wait a limited time for the connection to end."""

    def status(self) -> int | None:
        """Return the exit status of the launcher, or None if unknown."""

    def words(self) -> str:
        """Return the launcher's last error output, such as the reason for a failed connection."""


class PipeConnection:
    """Standard input and output of a command that reaches the machine, such as ssh or srun."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        """Start the command; OSError if it cannot be started. `environment` None: inherit the environment.

        It runs in its own session: Ctrl-C must not end it, because nodes are stopped through it.
        """
        self._process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self._words: deque[str] = deque(maxlen=_WORDS)
        self._sending = threading.Lock()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def send(self, data: bytes) -> None:
        """Write the data to the command's input; BrokenPipeError after `hang_up` or the command's end."""
        assert self._process.stdin
        with self._sending:
            if self._process.stdin.closed:
                raise BrokenPipeError("the connection is closed")
            self._process.stdin.write(data)
            self._process.stdin.flush()

    def receive(self) -> bytes:
        """Return the available output, 64 KiB at most, waiting if there is none; empty at its end."""
        assert self._process.stdout
        return self._process.stdout.read1(2**16)  # type: ignore[attr-defined,no-any-return]

    def hang_up(self) -> None:
        """Close the command's input, so that it ends. Does not wait for that."""
        assert self._process.stdin
        with self._sending, contextlib.suppress(OSError):
            self._process.stdin.close()

    def close(self) -> None:
        """Close its input and wait; kill it if it does not exit in 30 s, such as after a network partition."""
        self.hang_up()
        try:
            self._process.wait(_LEAVING)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def status(self) -> int | None:
        """Wait up to 2 s for the command to end, and return its exit status; None if it still runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._process.wait(2.0)
        return None

    def words(self) -> str:
        """Return the last 20 lines of its standard error, after waiting up to 1 s for its end."""
        self._listener.join(1.0)
        return "\n".join(self._words)

    def _listen(self) -> None:
        """Keep the last 20 lines of the command's standard error, until it ends."""
        assert self._process.stderr
        for line in self._process.stderr:
            self._words.append(line.decode(errors="replace").rstrip())


_PACKAGE = "loadframe."
#: Key that marks a value without a JSON equivalent.
_KIND = "$"


def encoded(value: Any) -> Any:
    """Return the JSON form of a value: JSON types, bytes, paths, tuples, mappings and the package's dataclasses.

    Their items and fields are encoded, too. TypeError for other types.
    """
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, list):
        return [encoded(item) for item in value]
    if isinstance(value, Mapping) and all(isinstance(key, str) and key != _KIND for key in value):
        return {key: encoded(item) for key, item in value.items()}
    kind, content = _marked(value)
    return {_KIND: kind, "is": content}


def _marked(value: Any) -> tuple[str, Any]:
    """Return the type tag and the encoded content of a value without a JSON equivalent; TypeError if not supported."""
    if isinstance(value, tuple):
        return "tuple", [encoded(item) for item in value]
    if isinstance(value, bytes):
        return "bytes", base64.b64encode(value).decode()
    if isinstance(value, Path):
        return "path", str(value)
    if isinstance(value, Mapping):
        return "mapping", [[encoded(key), encoded(item)] for key, item in value.items()]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: encoded(getattr(value, field.name)) for field in dataclasses.fields(value) if field.init}
        return name_of(type(value)), fields
    raise TypeError(f"a {type(value).__name__} cannot be sent to another machine")


def decoded(value: Any) -> Any:
    """Return the value of which `value` is the result of `encoded`; TypeError for unsupported types."""
    if isinstance(value, list):
        return [decoded(item) for item in value]
    if not isinstance(value, dict):
        return value
    if _KIND not in value:
        return {key: decoded(item) for key, item in value.items()}
    kind, content = value[_KIND], value["is"]
    return _READERS[kind](content) if kind in _READERS else _object(kind, content)


def _object(kind: str, fields: Mapping[str, Any]) -> Any:
    """Create a dataclass from its encoded fields; TypeError if `kind` names anything else."""
    made = import_named(kind)
    if not (isinstance(made, type) and dataclasses.is_dataclass(made)):
        raise TypeError(f"{kind} is not a dataclass")
    return made(**{key: decoded(item) for key, item in fields.items()})


_READERS: Mapping[str, Callable[[Any], Any]] = {
    "tuple": lambda items: tuple(decoded(item) for item in items),
    "bytes": base64.b64decode,
    "path": Path,
    "mapping": lambda pairs: {decoded(key): decoded(item) for key, item in pairs},
}


def name_of(thing: Callable[..., Any]) -> str:
    """Return the name `module:qualified name` under which `import_named` finds a function or type.

    TypeError if it is not at the top of a module of this package.
    """
    name = f"{thing.__module__}:{thing.__qualname__}"
    if not name.startswith(_PACKAGE) or "<" in name:
        raise TypeError(
            f"{name} cannot be sent to another machine: it is not a top-level name of the loadframe package"
        )
    return name


def import_named(name: str) -> Any:
    """Import and return the function or type of that name (see `name_of`); TypeError if it is outside the package.

    ImportError or AttributeError if it does not exist.
    """
    module, _, path = name.partition(":")
    if not module.startswith(_PACKAGE):
        raise TypeError(f"{name} is not in the loadframe package")
    thing: Any = importlib.import_module(module)
    for part in path.split("."):
        thing = getattr(thing, part)
    return thing
