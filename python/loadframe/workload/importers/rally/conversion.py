"""Shared state and helpers for converting operations of a track."""

from dataclasses import dataclass, field
from typing import Any

from loadframe.workload.importers.imported import Hole, literal
from loadframe.workload.importers.rally.track import Track
from loadframe.workload.importers.source import ImportedObject

Form = dict[str, Any]


@dataclass
class TrackConversion:
    """State of converting a track's operations to forms, in the order of its schedule."""

    track: Track
    #: Names of created objects, by kind: `index`, `data stream`, a template section or a path.
    made: dict[str, set[str]] = field(default_factory=dict)
    #: Number of requests of operations that end, by name.
    ends: dict[str, int] = field(default_factory=dict)
    #: Parts of an operation that are not imported, by the operation's name.
    dropped: dict[str, list[str]] = field(default_factory=dict)

    def note(self, kind: str, name: str) -> None:
        """Record that an operation creates an object."""
        self.made.setdefault(kind, set()).add(name)

    def has_made(self, kind: str, name: str) -> bool:
        """Return whether an earlier operation creates an object."""
        return name in self.made.get(kind, ())

    def leave_out(self, name: str, what: str) -> None:
        """Record a part of an operation that is not imported, and report it."""
        self.drop(name, what)
        self.track.leave_out(f"operation {name}: {what}")

    def drop(self, name: str, what: str) -> None:
        """Record a part of an operation that is not imported, without reporting it."""
        dropped = self.dropped.setdefault(name, [])
        if what not in dropped:
            dropped.append(what)

    def target(self, part: ImportedObject) -> str:
        """Return the index of an operation as in a path; default: the only collection, or `_all`."""
        target = part.get("index", part.get("data-stream", part.get("indices")))
        if isinstance(target, list) and all(isinstance(entry, str) for entry in target):
            target = ",".join(target)
        if isinstance(target, Hole):
            return target
        if target is not None and (not isinstance(target, str) or "/" in target):
            raise part.error("index", "expected an index name")
        return target or self.track.only_collection() or "_all"

    def is_collection(self, target: str) -> bool:
        """Return whether a form can use a target as its collection: it is declared, created earlier, or a variable."""
        return isinstance(target, Hole) or target in self.track.collections or self.has_made("index", target)

    def parameters(self, part: ImportedObject) -> dict[str, Any]:
        """Return the query parameters of an operation."""
        parameters = {}
        for key, value in part.mapping("request-params").items():
            if isinstance(value, dict):
                raise part.error("request-params", f"expected a scalar or a list for {key}")
            parameters[key] = literal(",".join(map(str, value)) if isinstance(value, list) else value)
        return parameters

    def request(self, part: ImportedObject, method: str, path: str, body: Any = None) -> list[Form]:
        """Return a plain request."""
        request: dict[str, Any] = {"method": method, "path": literal(path)}
        if body is not None:
            request["body"] = literal(body)
        if parameters := self.parameters(part):
            request["parameters"] = parameters
        return [{"request": request}]

    def on_collection(self, part: ImportedObject, kind: str, path: str, **more: Any) -> list[Form]:
        """Return a form of `kind` for a collection, or a plain request for other targets."""
        target = self.target(part)
        if self.is_collection(target) and not part.data.get("request-params"):
            return [{kind: {"collection": target, **more}}]
        return self.request(part, "POST", f"/{target}/{path}")
