"""Names of machines for nodes, and the number of nodes for each."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loadframe.base.errors import BadInput

#: A name as in ssh, optionally with a user, and optionally the number of nodes.
_MACHINE = re.compile(r"(?P<name>(?:[\w.-]+@)?[\w][\w.-]*)(?::(?P<slots>\d+)|\s+slots=(?P<more>\d+))?")


@dataclass(frozen=True)
class Placement:
    """Placement of nodes on machines."""

    per_machine: int | None = None  #: slots of a machine without a number, or None for 1
    share: bool = True  #: whether machines that run the load generator may also run nodes
    network: str | None = None  #: interface, network such as 10.1.0.0/16, or suffix of host names such as -ib

    def __post_init__(self) -> None:
        if self.per_machine is not None and self.per_machine < 1:
            raise BadInput(f"nodes per machine must be at least 1; got {self.per_machine}", remedy="give 1 or more")

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "Placement":
        """Create it from the dictionary that `dataclasses.asdict` returned."""
        return cls(**record)


def parse(text: str) -> tuple[str, int | None]:
    """Return the machine name and slots of `name`, `name:2` or, as in host files, `name slots=2`.

    The slots are None if not given. BadInput for other text.
    """
    match = _MACHINE.fullmatch(text.strip())
    if match is None:
        raise BadInput(f"{text.strip()!r} is not a machine name", remedy="write name, name:2, or name slots=2")
    slots = match["slots"] or match["more"]
    if slots is not None and int(slots) < 1:
        raise BadInput(
            f"the slots of {match['name']} must be at least 1; got {slots}",
            remedy="give 1 or more, or omit the machine",
        )
    return match["name"], None if slots is None else int(slots)


def listed(text: str) -> tuple[str, ...]:
    """Return the machines of a list `a,b:2`, or of the host file in `@path`. BadInput for invalid entries."""
    if not text.startswith("@"):
        return _checked((word for word in text.split(",") if word.strip()), "--machines")
    path = Path(text[1:]).expanduser()
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"could not read the host file: {error}", where=str(path), remedy="give another file") from error
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
        raise BadInput(
            "the list of machines is empty", where=where, remedy="name machines, such as --machines node1,node2:2"
        )
    return tuple(machines)
