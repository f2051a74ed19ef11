"""What generates the load of a run, and how it shares out the hosts and the connections to them."""

from dataclasses import dataclass
from typing import Any, Literal

#: Which of several hosts a request goes to: each client keeps to one, they take turns, or the idlest.
Spread = Literal["fixed", "round_robin", "all"]


@dataclass(frozen=True)
class Generator:
    """Worker threads, how requests are spread over hosts, and how many connections they may share.

    `connections` is a cap over all threads; None lets each client have its own.
    """

    threads: int = 1
    spread: Spread = "fixed"
    connections: int | None = None

    def target(self) -> dict[str, Any]:
        """Return what the engine's plan says of it in its target."""
        capped = {} if self.connections is None else {"connections": self.connections}
        return {"spread": self.spread, **capped}

    def describe(self) -> dict[str, Any]:
        """Return what a manifest says of it."""
        return {"ranks": 1, "threads": self.threads, "spread": self.spread, "connections": self.connections}
