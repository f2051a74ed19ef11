"""Which machines there are for nodes, and how many nodes each takes."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loadframe.base.errors import BadInput

#: As ssh takes it: a name, perhaps with a user before it; and the number of nodes that it takes.
_MACHINE = re.compile(r"(?P<name>(?:[\w.-]+@)?[\w][\w.-]*)(?::(?P<slots>\d+)|\s+slots=(?P<more>\d+))?")


@dataclass(frozen=True)
class Placement:
    """How nodes are put on machines."""

    per_machine: int | None = None  #: nodes that a machine takes that says no number of its own; None for 1
    share: bool = True  #: whether machines that the load generator runs on may have nodes
    network: str | None = None  #: an interface, a network such as 10.1.0.0/16, or a suffix of names such as -ib

    def __post_init__(self) -> None:
        if self.per_machine is not None and self.per_machine < 1:
            raise BadInput(f"{self.per_machine} nodes a machine", remedy="give 1 or more")

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "Placement":
        """Read what `dataclasses.asdict` made."""
        return cls(**record)


def parse(text: str) -> tuple[str, int | None]:
    """Return a machine's name and its slots, from `name`, `name:2` or, as in host files, `name slots=2`; BadInput."""
    match = _MACHINE.fullmatch(text.strip())
    if match is None:
        raise BadInput(f"{text.strip()!r} does not name a machine", remedy="write name, name:2, or name slots=2")
    slots = match["slots"] or match["more"]
    if slots is not None and int(slots) < 1:
        raise BadInput(f"{match['name']} takes {slots} nodes", remedy="give it 1 or more, or leave it out")
    return match["name"], None if slots is None else int(slots)


def listed(text: str) -> tuple[str, ...]:
    """Return the machines of a list `a,b:2`, or of the host file named `@path`, as `parse` reads each; BadInput."""
    if not text.startswith("@"):
        return _checked((word for word in text.split(",") if word.strip()), "--machines")
    path = Path(text[1:]).expanduser()
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"the host file cannot be read: {error}", where=str(path), remedy="name another one") from error
    return _checked((line for line in (line.partition("#")[0] for line in lines) if line.strip()), str(path))


def _checked(words: Iterable[str], where: str) -> tuple[str, ...]:
    machines = []
    for word in words:
        try:
            name, slots = parse(word)
        except BadInput as error:
            raise BadInput(error.what, where=where, remedy=error.remedy) from None
        machines.append(name if slots is None else f"{name}:{slots}")
    if not machines:
        raise BadInput("no machine is named", where=where, remedy="name some, such as --machines node1,node2:2")
    return tuple(machines)
