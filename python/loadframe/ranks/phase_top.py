"""Rank 0's part in a phase, and the phase's handle for other threads."""

import json
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from loadframe import _engine
from loadframe.base.errors import BadInput, LoadframeError
from loadframe.base.units import counted
from loadframe.ranks import messages
from loadframe.ranks.messages import Header, Offset, RankLost, Wire
from loadframe.ranks.phase_participant import BEAT, Participant

#: Delay from the start message to the start of the load, s: fixed, and per level of the tree.
_RUN_UP = 0.25
_STEP = 0.05
#: Maximum clock uncertainty, s. Beyond it, values of different ranks cannot be assigned to the same second.
UNCERTAIN = 0.01

#: Remedy for a file that rank 0 can read and another rank cannot.
_SAME_FILES = "provide the files that rank 0 reads at the same paths on the machines of all ranks"
#: Remedy for a lost rank.
_WITHOUT_IT = "start the ranks again; if the machine is defective, without it"
_REFUSALS: dict[str, type[Exception]] = {
    "PlanRefused": _engine.PlanRefused,
    "TargetRefused": _engine.TargetRefused,
    "StartFailed": _engine.StartFailed,
}


class RootParticipant(Participant):
    """Participant of rank 0. `begun` yields the load's start time, in s of the run; `done` yields the outcome."""

    def __init__(self, world: Wire, order: Header, plan: dict[str, Any], folder: Path) -> None:
        """Join a phase as rank 0; `folder` is the phase's, and `order` has also `names` (machines of the members)."""
        super().__init__(world, order, plan)
        self._order = order
        self.begun: Future[float] = Future()
        self.done: Future[dict[str, Any]] = Future()
        self.recorder: Any = None
        self._folder = folder
        self._names: Sequence[str] = order["names"]
        self._ranks: list[int] = order["members"]
        #: Offsets before the load, by rank; `_clocks` has those after it.
        self._before: dict[int, Offset] | None = None
        self._lost: dict[int, str] = {}
        self._failure: str | None = None
        self._interrupted = False
        self._text = json.dumps(plan)

    def start(self) -> None:
        """Send the order to the members of the phase, and start the clock comparison."""
        order = {key: value for key, value in self._order.items() if key != "names"}
        self.down(order, self._text.encode())
        self._measure_clocks()

    def everybody(self, kind: str, **fields: Any) -> None:
        """Send a message of this kind, with further fields, to all members, and handle it on this rank; see `down`."""
        self.down({"kind": kind, "id": self.id, **fields})

    def quiet(self) -> dict[int, float]:
        """Return the silence, s, by rank, of ranks directly below that were silent for over two heartbeats (4 s)."""
        now = time.monotonic()
        return {rank: now - at for rank, at in self._heard.items() if now - at > 2 * BEAT}

    def abandon(self, why: str, *, interrupted: bool = False) -> None:
        """Continue without the other ranks, which are lost, and stop this rank's load.

        The phase fails with the reason `why`, unless it has failed before. With `interrupted`, its outcome counts as
        interrupted instead of failed.
        """
        self._interrupted = interrupted
        self._failure = self._failure or why
        self.stop()
        for rank in self._below:
            if rank in self._heard:
                super().lose(rank, why)

    def _up(self, header: Header, payload: bytes = b"") -> None:
        """Stop the phase if the message reports a lost rank; ignore others, as no rank is above."""
        if header["kind"] == "lost":
            self._lost[header["rank"]] = header["why"]
            self._fail(f"{self._name(header['rank'])} {header['why']}")

    def _fail(self, why: str) -> None:
        """Stop the load on all ranks, and keep the reason of the first failure."""
        if self._failure is None:
            self._failure = why
            self.everybody("stop")

    def _name(self, rank: int) -> str:
        """Return a rank with its machine, for messages."""
        return f"rank {rank} on {self._names[self._ranks.index(rank)]}"

    def _all_clocked(self) -> None:
        """After the first comparison, prepare all ranks; after the second, which follows the load, finish.

        BadInput refuses the phase if a clock is more uncertain than `UNCERTAIN`.
        """
        if self._before is None:
            self._before = dict(self._clocks)
            unclear = {rank: c for rank, c in self._before.items() if c.uncertainty > UNCERTAIN}
            if unclear:
                worst = max(unclear, key=lambda rank: unclear[rank].uncertainty)
                self._refuse(
                    BadInput(
                        f"the clock of {self._name(worst)} can be compared with rank 0's only to"
                        f" {unclear[worst].uncertainty * 1e3:.0f} ms (limit {UNCERTAIN * 1e3:.0f} ms)",
                        remedy="remove that machine, or check the network between the machines",
                    )
                )
            else:
                self.everybody("prepare")
        else:
            self._finish()

    def _all_ready(self) -> None:
        """Start the load on all ranks, or refuse the phase.

        It is refused if a rank was lost, refused the plan, or cannot reach a node that other ranks reach.
        """
        if self._failure:
            self._refuse(RankLost(self._failure, remedy=_WITHOUT_IT))
        elif self._refused:
            rank, kind, words = min(self._refused)
            message = f"{self._name(rank)}: {words}"
            # If rank 0 had refused too, it would be the minimum.
            differs = kind == "PlanRefused" and rank != 0
            self._refuse(
                BadInput(message, remedy=_SAME_FILES) if differs else _REFUSALS.get(kind, RuntimeError)(message)
            )
        elif partly := {host: s for host, s in self._unreached.items() if s["of"] < len(self._ranks)}:
            self._refuse(self._unreachable(partly))
        else:
            self._begin_all()

    def _unreachable(self, hosts: dict[str, dict[str, Any]]) -> LoadframeError:
        """Return the error for nodes, by `host:port`, that only some ranks reach; it names the first node."""
        host, seen = next(iter(hosts.items()))
        names = ", ".join(self._name(rank) for rank in seen["ranks"])
        others = f" (and {counted(len(hosts) - 1, 'more node')})" if len(hosts) > 1 else ""
        return BadInput(
            f"{seen['of']} of {len(self._ranks)} ranks cannot reach the node {host}{others}: {names}: {seen['why']}",
            remedy="bind nodes to addresses that all ranks' machines can reach, and check firewalls between them",
        )

    def _begin_all(self) -> None:
        """Create the recorder and start the load on all ranks at a common time; set `begun` to that time, s of the run.

        Refuse the phase if the recorder cannot be created.
        """
        at = time.monotonic() + _RUN_UP + _STEP * messages.depth(len(self._ranks))
        try:
            self.recorder = self._ready.recorder(self._folder, at)
        except Exception as error:
            self._refuse(error)
            return
        self.everybody("begin", at=at)
        self.begun.set_result(self.recorder.offset)

    def _refuse(self, error: BaseException) -> None:
        """End the phase with an error; `begun`, unless the load has begun, and `done` raise it."""
        if not self.begun.done():
            self.begun.set_exception(error)
        self._complete(error)

    def _second(self, second: int, total: bytes) -> None:
        """Record the sum of a second, and send the recorder's directives (changes of the load) to all ranks.

        If it cannot be written, the phase fails.
        """
        try:
            self.recorder.second(total)
        except (OSError, ValueError) as error:
            self._fail(f"could not write the records: {error}")
            return
        self.down({"kind": "directives", "id": self.id}, self.recorder.directives())

    def _all_ended(self) -> None:
        """Compare the clocks once more, or finish at once after a failure."""
        if self._failure:
            self._finish()
        else:
            self._measure_clocks()

    def _finish(self) -> None:
        """Finish the record, write outcome.json, and complete the phase with the outcome or an error.

        RankLost if the phase failed without an outcome of any rank. Does nothing if the phase is complete.
        """
        if self.done.done():
            return
        if self._failure and not self._parts:
            self._complete(RankLost(self._failure, remedy=_WITHOUT_IT))
            return
        try:
            outcome = json.loads(self.recorder.finish(self._parts))
        except Exception as error:
            self._complete(error)
            return
        if self._interrupted:
            outcome |= {"failed": None, "interrupted": True}
        else:
            outcome["failed"] = self._failure or outcome["failed"]
        outcome["by_rank"] = [self._of_rank(entry) for entry in outcome["by_rank"]]
        boots = dict(zip(self._order["boots"], self._names, strict=True))
        outcome["by_machine"] = {boots[boot]: figures for boot, figures in self._machines.items()}
        outcome["members"] = self._ranks
        outcome["lost"] = [{"rank": rank, "why": why} for rank, why in sorted(self._lost.items())]
        (self._folder / "outcome.json").write_text(json.dumps(outcome))
        self._complete(outcome)

    def _of_rank(self, entry: dict[str, Any]) -> dict[str, Any]:
        """Return a rank's result with its rank number, machine and clock offset to rank 0.

        `entry["rank"]` is the position in the phase. Clock figures are s; `clock_change` is the offset after the load
        minus that before it.
        """
        rank = self._ranks[entry["rank"]]
        before, after = ((clocks or {}).get(rank, Offset()) for clocks in (self._before, self._clocks))
        return {
            **entry,
            "rank": rank,
            "machine": self._names[entry["rank"]],
            "clock_offset": before.seconds,
            "clock_uncertainty": before.uncertainty,
            "clock_change": after.seconds - before.seconds,
        }

    def _complete(self, result: "dict[str, Any] | BaseException") -> None:
        """Tell all ranks that the phase is over, and set `done` to the outcome or the error."""
        self.everybody("over")
        if isinstance(result, BaseException):
            if not self.done.done():
                self.done.set_exception(result)
        else:
            self.done.set_result(result)


#: Runs a function in the coordinator's thread.
Tell = Callable[[Callable[[], None]], None]


class PhaseOfRanks:
    """Handle of a phase on several ranks, with the interface of the engine's handle."""

    def __init__(self, top: RootParticipant, tell: Tell) -> None:
        """Wait until the start of the load is scheduled; raise the error if the phase was refused.

        `tell` runs a function in the coordinator's thread.
        """
        self._top = top
        self._tell = tell
        self._over = threading.Event()
        top.done.add_done_callback(lambda _: self._over.set())
        #: Start time of the load, in s of the run.
        self.offset: float = top.begun.result()

    @property
    def started(self) -> float:
        """Start time of the load, in s of this machine's CLOCK_MONOTONIC."""
        return self._top.begins

    def wait(self, seconds: float) -> bool:
        """Wait up to `seconds` s for the end; return whether it has ended."""
        return self._over.wait(seconds)

    def stop(self) -> None:
        """Stop the load on all ranks, without waiting for its end."""
        self._tell(lambda: self._top.everybody("stop"))

    def close(self) -> None:
        """Stop reading from sources on all ranks, without waiting for it."""
        self._tell(lambda: self._top.everybody("close"))

    def hold(self) -> None:
        """Freeze the number of clients on all ranks, without waiting for it."""
        self._tell(lambda: self._top.everybody("hold"))

    def adjust(self, measured_from: int | None = None, until: int | None = None) -> None:
        """Set the end of the warm-up (`measured_from`) and of the window (`until`) on all ranks.

        Both are whole s after the start of the load; None leaves one unchanged. Does not wait; a rank that hears of it
        too late counts as lost.
        """

        def tell() -> None:
            """Adjust the recorder, then all ranks."""
            self._top.recorder.adjust(measured_from, until)
            self._top.everybody("adjust", measured_from=measured_from, until=until)

        self._tell(tell)

    def set_hosts(self, hosts: list[str]) -> None:
        """Set the target's hosts (`host:port`) on all ranks, without waiting for it."""
        self._tell(lambda: self._top.everybody("hosts", hosts=hosts))

    def progress(self) -> dict[str, Any]:
        """Return totals so far and the rates of the last second, over all ranks, as the engine's `Handle.progress`."""
        figures: dict[str, Any] = self._top.recorder.progress()
        return figures

    def measures(self) -> "_engine.Measures":
        """Return the measures so far over all ranks, as the engine's `Handle.measures`."""
        measures: _engine.Measures = self._top.recorder.measures()
        return measures

    def answers(self) -> list[tuple[str, bytes]]:
        """Return an empty list: answers stay on their ranks."""
        return []

    def outcome(self) -> str:
        """Wait for the end, and return the outcome of all ranks as JSON.

        RankLost if a failure left no outcome of any rank; ValueError or OSError if the record cannot be finished.
        """
        return json.dumps(self._top.done.result())
