"""What every kind of a track's operations is made with: where it goes, its parameters, what is left out of it."""

from dataclasses import dataclass, field
from typing import Any

from loadframe.workload.importers.imported import Hole, literal
from loadframe.workload.importers.rally.track import Track
from loadframe.workload.importers.source import Part

Form = dict[str, Any]


@dataclass
class Making:
    """A track whose operations are being made into forms, in the order of its schedule."""

    track: Track
    #: What operations have made so far, by the word for it: `index`, `template`, ...
    made: dict[str, set[str]] = field(default_factory=dict)
    #: How many requests an operation has before it ends, by its name, for those that have an end.
    ends: dict[str, int] = field(default_factory=dict)
    #: What is not imported of an operation, by its name.
    dropped: dict[str, list[str]] = field(default_factory=dict)

    def note(self, what: str, name: str) -> None:
        """Remember that an operation makes something."""
        self.made.setdefault(what, set()).add(name)

    def has_made(self, what: str, name: str) -> bool:
        """Tell whether an operation before made it."""
        return name in self.made.get(what, ())

    def leave_out(self, name: str, what: str) -> None:
        """Name what is not imported of an operation."""
        self.drop(name, what)
        self.track.leave_out(f"operation {name}: {what}")

    def drop(self, name: str, what: str) -> None:
        """Remember what is not imported of an operation."""
        dropped = self.dropped.setdefault(name, [])
        if what not in dropped:
            dropped.append(what)

    def target(self, part: Part) -> str:
        """Return the index that an operation goes to, as it stands in a path."""
        target = part.get("index", part.get("data-stream", part.get("indices")))
        if isinstance(target, list) and all(isinstance(entry, str) for entry in target):
            target = ",".join(target)
        if isinstance(target, Hole):
            return target
        if target is not None and (not isinstance(target, str) or "/" in target):
            raise part.error("index", "expected the name of an index")
        return target or self.track.only_collection() or "_all"

    def is_collection(self, target: str) -> bool:
        """Tell whether a form can name it as its collection: it is declared, made by then, or drawn."""
        return isinstance(target, Hole) or target in self.track.collections or self.has_made("index", target)

    def parameters(self, part: Part) -> dict[str, Any]:
        """Return the parameters that an operation adds to the address."""
        given = {}
        for key, value in part.mapping("request-params").items():
            if isinstance(value, dict):
                raise part.error("request-params", f"{key} is not a single value")
            given[key] = literal(",".join(map(str, value)) if isinstance(value, list) else value)
        return given

    def request(self, part: Part, method: str, path: str, body: Any = None) -> list[Form]:
        """Return a call of the interface."""
        request: dict[str, Any] = {"method": method, "path": literal(path)}
        if body is not None:
            request["body"] = literal(body)
        if parameters := self.parameters(part):
            request["parameters"] = parameters
        return [{"request": request}]

    def on_collection(self, part: Part, kind: str, path: str, **more: Any) -> list[Form]:
        """Return a form for a collection, or a request with the path for any other target."""
        target = self.target(part)
        if self.is_collection(target) and not part.data.get("request-params"):
            return [{kind: {"collection": target, **more}}]
        return self.request(part, "POST", f"/{target}/{path}")
