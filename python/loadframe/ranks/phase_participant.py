"""One rank's part in a phase.

It never blocks: long work runs in the background, and `tick` polls it.
"""

import json
import os
import time
from collections.abc import Callable, Hashable, Iterable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from loadframe import _engine
from loadframe.base.interrupts import background
from loadframe.base.machine_references import on, yardstick
from loadframe.base.procfs import own_groups, throttling
from loadframe.ranks import liveness, messages
from loadframe.ranks.liveness import unreachable
from loadframe.ranks.messages import BRISK, Header, Offset, Wire, offset

#: Adds up the encoded values of a second.
Add = Callable[[list[bytes]], bytes]


class Reduction:
    """Sums of seconds over sources. A second is complete when no source can still send values for it.

    A source sends its seconds in order, possibly with gaps, and then ends.
    """

    def __init__(self, sources: Iterable[Hashable], add: Add) -> None:
        """`add` sums a list of encoded values; all `sources` (any keys, such as ranks) start at second 0."""
        self._add = add
        #: Source -> second after the last second that it sent.
        self._next: dict[Hashable, int] = dict.fromkeys(sources, 0)
        self._parts: dict[int, list[bytes]] = {}

    def take(self, source: Hashable, second: int, part: bytes) -> None:
        """Add a source's values of a second; ignored after the source has ended.

        The seconds of a source must ascend; this is not checked.
        """
        if source in self._next:
            self._next[source] = second + 1
            self._parts.setdefault(second, []).append(part)

    def end(self, source: Hashable) -> None:
        """Mark a source as ended."""
        self._next.pop(source, None)

    @property
    def awaited(self) -> int:
        """The first incomplete second; 0 if all sources have ended."""
        return min(self._next.values(), default=0)

    @property
    def open(self) -> frozenset[Hashable]:
        """Sources that have not ended."""
        return frozenset(self._next)

    def complete(self) -> list[tuple[int, bytes]]:
        """Return and remove the complete seconds with their sums, ascending; all seconds if all sources have ended."""
        until = min(self._next.values(), default=None)
        done = sorted(second for second in self._parts if until is None or second < until)
        return [(second, self._sum(self._parts.pop(second))) for second in done]

    def _sum(self, parts: list[bytes]) -> bytes:
        """Return the sum of encoded values; a single one as it is."""
        return parts[0] if len(parts) == 1 else self._add(parts)


_STAT = Path("/proc/stat")


class OwnMachine:
    """Measures this machine from construction until `figures` is called. Costs some 25 ms of CPU time."""

    def __init__(self) -> None:
        """Begin to measure: run the CPU reference once, and read the counters of CPU time and throttling."""
        self._reference_before = yardstick()
        self._before = _times()
        self._groups = own_groups()
        self._throttled, self._began = _throttled(self._groups), time.monotonic()

    def figures(self) -> Header:
        """Return the machine's figures since construction.

        `stolen`: share (0-1) of all processors' time taken by the hypervisor. `throttled`: throttled time of this
        process's control groups, summed, per elapsed time. Both are None if not available. `yardstick`: time of the CPU
        reference before and now, s.
        """
        (total, stolen), (total_before, stolen_before) = _times(), self._before
        elapsed = total - total_before
        return {
            "stolen": (stolen - stolen_before) / elapsed if elapsed > 0 else None,
            "throttled": self._throttled_share(),
            "yardstick": [self._reference_before, yardstick()],
        }

    def _throttled_share(self) -> float | None:
        """Return the throttled time of this process's control groups per time since construction, or None."""
        now = _throttled(self._groups)
        if now is None or self._throttled is None:
            return None
        return max(now - self._throttled, 0.0) / max(time.monotonic() - self._began, 1e-9)


def _throttled(groups: Sequence[Path]) -> float | None:
    """Return the total throttled time of these groups since their creation, s, or None if not available."""
    try:
        totals = [seen["cgroup.throttled_time"] for seen in map(throttling, groups) if seen]
    except OSError:
        return None
    return sum(totals) if totals else None


def _times() -> tuple[int, int]:
    """Return total and stolen time of all processors since boot, in ticks; zeros if not available."""
    try:
        # user, nice, system, idle, iowait, irq, softirq, steal; guests' time is in user's (see proc(5)).
        ticks = [int(word) for word in _STAT.read_text().partition("\n")[0].split()[1:9]]
    except (OSError, ValueError):
        return 0, 0
    return sum(ticks), ticks[7] if len(ticks) > 7 else 0


#: Interval of messages from a rank without news, s.
BEAT = 2.0
#: Number of round trips for a clock offset, and their time limit, s.
_TRIPS = 40
_TRIPPING = 0.3
#: If the shortest round trip exceeds `_ROUGH` s, ranks are busy, and measuring continues for up to `_PATIENCE` s.
_ROUGH = 0.004
_PATIENCE = 3.0
#: Time of brisk polling after a message of a clock comparison, s.
_TIGHT = 0.05
#: Sleep between polls, s: when something is due, and during steady load.
ALERT = 0.02
CALM = 0.1
#: Limit of ranks in a message.
_NAMED = 8

#: Source name of this rank's own seconds.
_SELF = "self"


class Participant:
    """One rank in one phase. Sums from the ranks below go to the rank above through `_up`, which the top overrides."""

    def __init__(self, world: Wire, order: Header, plan: dict[str, Any]) -> None:
        """Join the phase of an order: `id`, `members` (ranks), `boots` (their clocks) and `cores` (of the load).

        `plan` is the engine's plan; a copy gets this rank's position and the number of ranks. `cores` apply only on the
        machine of the first member; None, and cores that this process may not use, do not restrict the load.
        """
        self.id: int = order["id"]
        self._world = world
        members: list[int] = order["members"]
        self.position = members.index(world.rank)
        above = messages.parent(self.position)
        self._above = None if above is None else members[above]
        self._below = [members[position] for position in messages.children(self.position, len(members))]
        boots = order["boots"]
        mine = boots[self.position]
        self._same_clock = {members[p] for p in messages.children(self.position, len(members)) if boots[p] == mine}
        self._plan = {**plan, "rank": self.position, "ranks": len(members)}
        self._offsets: dict[int, Offset] = {}
        self._clocks: dict[int, Offset] = {}
        self._trips: list[tuple[float, float, float]] = []
        self._unmeasured: list[int] = []
        self._unclocked: set[object] = set()
        self._gone: set[int] = set()
        self._tight_until = 0.0
        now = time.monotonic()
        self._heard = dict.fromkeys(self._below, now)
        self._silences = {rank: liveness.Silence(mine) for rank in self._below}
        self._last_sent = now
        self._preparing: Future[Any] | None = None
        self._unready: set[object] = {_SELF, *self._below}
        self._refused: list[list[Any]] = []
        self._unreached: dict[str, dict[str, Any]] = {}
        self._ready: Any = None
        self._handle: Any = None
        #: The hosts to change to next, and the change in progress.
        self._hosts: list[str] | None = None
        self._following: Future[Any] | None = None
        #: Start time of the load on this rank's clock, s.
        self.begins = 0.0
        self._reduction = Reduction([_SELF, *self._below], _engine.add)
        self._parts: list[str] = []
        self._ended = False
        #: Boot id -> figures of the machine, from its first rank.
        self._machines: dict[str, Header] = {}
        self._machine: OwnMachine | None = None
        self._boot = mine
        self._first_of_machine = boots.index(mine) == self.position
        #: Cores for the load; restricted only on the machine of the first rank.
        kept = set(order["cores"] or ()) if mine == boots[0] else set()
        self._cores = kept & os.sched_getaffinity(0)

    @property
    def pause(self) -> float:
        """Time to sleep before the next poll, s: 0.0002 during clock comparisons, else from 0.02 to 0.1.

        Between these, it is the time until the next second ends. It is 0.02 before the first second and at the end.
        """
        now = time.monotonic()
        if now < self._tight_until:
            return BRISK
        # Poll often before the first second and at the end, so that polling does not prolong short phases.
        if _SELF not in self._reduction.open or not self._reduction.awaited:
            return ALERT
        return min(max(self.begins + self._reduction.awaited + 1 - now, ALERT), CALM)

    def down(self, header: Header, payload: bytes = b"") -> None:
        """Handle a message of the rank above, and forward it to the ranks below, except `clocks` and `ping`.

        A time `at` in it is converted to each clock below. Messages that change the load have no effect here before it
        has begun. Kinds without a case are only forwarded.
        """
        kind = header["kind"]
        if kind == "clocks":
            self._measure_clocks()
            return
        if kind == "ping":
            self._tight_until = time.monotonic() + _TIGHT
            times = {"sent": header["sent"], "answered": time.monotonic()}
            self._up({"kind": "pong", **times, "door": liveness.door(self._boot)})
            return
        for rank in self._below:
            if rank not in self._gone:
                self._world.send(rank, self._translated(header, rank), payload)
        match kind:
            case "prepare":
                self._preparing = background(self._prepare)
            case "begin":
                self._begin(header["at"])
            case "directives" if self._handle:
                self._handle.apply(payload)
            case "stop":
                self.stop()
            case "close" if self._handle:
                self._handle.close()
            case "hold" if self._handle:
                self._handle.hold()
            case "adjust" if self._handle:
                self._adjust(header)
            case "hosts" if self._handle:
                self._hosts = header["hosts"]
                self._follow()

    def _adjust(self, header: Header) -> None:
        """Set the measured window: `measured_from` and `until` of the header, s of the load, None for unchanged.

        If this rank hears of it too late, it reports itself as lost and stops its load.
        """
        try:
            self._handle.adjust(header["measured_from"], header["until"])
        except ValueError as error:
            self._up({"kind": "lost", "rank": self._world.rank, "why": f"heard of the window too late: {error}"})
            self.stop()

    def _follow(self) -> None:
        """Send the load to the latest `_hosts` in the background, unless a change is in progress.

        Hosts that arrive meanwhile replace each other. If a change failed, report this rank as lost and stop its load.
        """
        if self._following and self._following.done():
            if error := self._following.exception():
                why = f"cannot send load to the changed cluster: {error}"
                self._up({"kind": "lost", "rank": self._world.rank, "why": why})
                self.stop()
            self._following = None
        if self._hosts is not None and self._following is None:
            hosts, self._hosts = self._hosts, None
            self._following = background(lambda: self._handle.set_hosts(hosts))

    def stop(self) -> None:
        """Stop this rank's load without waiting; do nothing before it has begun."""
        if self._handle:
            self._handle.stop()

    def heard(self, rank: int, header: Header, payload: bytes) -> None:
        """Handle a message of a rank below, which also shows that it is alive. Messages of a lost rank are ignored.

        Kinds are `pong`, `clocked`, `ready`, `second`, `ended` and `lost`; any other is only a heartbeat.
        """
        if rank in self._gone:
            return
        self._heard[rank] = time.monotonic()
        match header["kind"]:
            case "pong":
                self._pong(rank, header)
            case "clocked" if rank in self._unclocked:
                nearer = self._offsets[rank]
                for farther, seconds, uncertainty in header["offsets"]:
                    self._clocks[farther] = Offset(seconds, uncertainty).behind(nearer)
                self._clocked(rank)
            case "ready" if rank in self._unready:
                self._refused = (self._refused + header["refused"])[:_NAMED]
                self._add_unreached(header["unreached"])
                self._readied(rank)
            case "second":
                self._reduction.take(rank, header["second"], payload)
                self._pass_seconds()
            case "ended":
                if payload:
                    self._parts.append(payload.decode())
                self._machines |= header["machines"]
                self._reduction.end(rank)
                self._pass_seconds()
            case "lost":
                self._up(header)

    def tick(self) -> None:
        """Poll background work and the load, and pass on its seconds.

        Also gives up ranks below that died or are silent too long (`lose`), and sends a heartbeat to the rank above if
        nothing was sent for 2 s.
        """
        now = time.monotonic()
        if self._preparing and self._preparing.done():
            self._prepared(self._preparing)
            self._preparing = None
        self._follow()
        if self._handle and _SELF in self._reduction.open:
            self._take_seconds()
        for rank, at in list(self._heard.items()):
            why = self._silences[rank].lost(now - at)
            if why and (rank in self._reduction.open or rank in self._unready):
                self.lose(rank, why)
        if now - self._last_sent > BEAT:
            self._up({"kind": "alive"})

    def lose(self, rank: int, why: str) -> None:
        """Continue without a rank directly below and those behind it, and report the loss and its reason upwards.

        It no longer counts in the clock comparison, the preparation and the seconds.
        """
        self._gone.add(rank)
        self._heard.pop(rank, None)
        self._up({"kind": "lost", "rank": rank, "why": why})
        if rank in self._unmeasured:
            measuring = self._unmeasured[0] == rank
            self._unmeasured.remove(rank)
            if measuring:
                self._ping()
        if rank in self._unclocked:
            self._clocked(rank)
        if rank in self._unready:
            self._readied(rank)
        self._reduction.end(rank)
        self._pass_seconds()

    def _up(self, header: Header, payload: bytes = b"") -> None:
        """Send a message of this phase to the rank above; do nothing at the top of the tree."""
        self._last_sent = time.monotonic()
        if self._above is not None:
            self._world.send(self._above, {**header, "id": self.id}, payload)

    def _translated(self, header: Header, rank: int) -> Header:
        """Return a copy of a header with its time `at`, if any, s, converted to the clock of `rank` below."""
        ahead = self._offsets.get(rank, Offset()).seconds
        return {**header, **{key: header[key] + ahead for key in ("at",) if key in header}}

    # Clocks

    def _measure_clocks(self) -> None:
        """Start to measure the clocks of the ranks below, one after the other."""
        self._clocks = {}
        self._unmeasured = [rank for rank in self._below if rank not in self._gone]
        self._unclocked = {_SELF, *self._unmeasured}
        self._ping()

    def _ping(self) -> None:
        """Start the round trips to the next unmeasured rank below.

        When all are measured, tell the ranks below to measure theirs.
        """
        self._trips = []
        if self._unmeasured:
            self._tight_until = time.monotonic() + _TRIPPING
            self._world.send(self._unmeasured[0], {"kind": "ping", "id": self.id, "sent": time.monotonic()})
            return
        for rank in self._below:
            if rank not in self._gone:
                self._world.send(rank, {"kind": "clocks", "id": self.id})
        self._clocked(_SELF)

    def _pong(self, rank: int, header: Header) -> None:
        """Record a round trip to `rank`; send the next one, or store the clock's offset and measure the next rank.

        An answer of a rank that is not being measured only updates its probe endpoint. On one machine, the offset is 0.
        """
        now = time.monotonic()
        self._silences[rank].door = header["door"]
        if self._unmeasured[:1] != [rank]:
            return
        self._trips.append((header["sent"], header["answered"], now))
        if self._needs_more_trips(now - self._trips[0][0]):
            self._tight_until = now + _TIGHT
            self._world.send(rank, {"kind": "ping", "id": self.id, "sent": time.monotonic()})
            return
        measured = offset(self._trips)
        # Processes on one machine read the same clock, so the offset is exactly 0.
        self._offsets[rank] = Offset(0.0, 0.0) if rank in self._same_clock else measured
        self._clocks[rank] = self._offsets[rank]
        del self._unmeasured[0]
        self._ping()

    def _needs_more_trips(self, tripping: float) -> bool:
        """Return whether another round trip is due, after `tripping` s of them.

        It is due until 3 trips were made; below 40 trips, for up to 0.3 s; and for up to 3 s while the shortest trip
        exceeds 4 ms.
        """
        if len(self._trips) < _TRIPS and (len(self._trips) < 3 or tripping < _TRIPPING):
            return True
        return tripping < _PATIENCE and min(received - sent for sent, _, received in self._trips) > _ROUGH

    def _clocked(self, source: object) -> None:
        """Mark a source (this rank or one below) as done with its clocks; report once all are done."""
        self._unclocked.discard(source)
        if not self._unclocked:
            self._all_clocked()

    def _all_clocked(self) -> None:
        """Send the clocks of all ranks behind this one to the rank above, as [rank, offset, uncertainty].

        Both are in s, relative to this rank's clock.
        """
        offsets = [[rank, clock.seconds, clock.uncertainty] for rank, clock in self._clocks.items()]
        self._up({"kind": "clocked", "offsets": offsets})

    # Preparation

    def _prepare(self) -> Any:
        """Prepare the engine, on the load's cores; return it and the reasons why nodes are unreachable, by `host:port`.

        On the first rank of a machine, also begins to measure the machine. Blocks. Raises the engine's errors.
        """
        unreached = unreachable(self._plan["target"].get("hosts", []))
        with on(self._cores):
            ready = _engine.prepare_rank(json.dumps(self._plan))
        if self._first_of_machine:
            self._machine = OwnMachine()
        return ready, unreached

    def _prepared(self, preparing: "Future[Any]") -> None:
        """Store the result or the error of `_prepare`, and mark this rank as ready."""
        error = preparing.exception()
        if error is None:
            self._ready, unreached = preparing.result()
            named = {"ranks": [self._world.rank], "of": 1}
            self._add_unreached({host: {"why": why, **named} for host, why in unreached.items()})
        else:
            self._refused.append([self._world.rank, type(error).__name__, str(error)])
        self._readied(_SELF)

    def _add_unreached(self, unreached: dict[str, dict[str, Any]]) -> None:
        """Add unreachable nodes, by `host:port`, to those known here.

        Each has `why` (the first reason), up to eight `ranks`, and their number, `of`.
        """
        for host, seen in unreached.items():
            known = self._unreached.setdefault(host, {"why": seen["why"], "ranks": [], "of": 0})
            known["ranks"] = (known["ranks"] + seen["ranks"])[:_NAMED]
            known["of"] += seen["of"]

    def _readied(self, source: object) -> None:
        """Mark a source (this rank or one below) as prepared; report once all are."""
        self._unready.discard(source)
        if not self._unready:
            self._all_ready()

    def _all_ready(self) -> None:
        """Report up to eight refusals, and unreachable nodes, of this rank and those behind it to the rank above."""
        self._up({"kind": "ready", "refused": self._refused[:_NAMED], "unreached": self._unreached})

    # Load

    def _begin(self, at: float) -> None:
        """Start this rank's load at `at`, s on its monotonic clock; the engine must be prepared.

        If that fails, report the rank as lost and end its seconds; no exception is raised.
        """
        self.begins = at
        try:
            with on(self._cores):
                self._handle = self._ready.begin(at)
        except Exception as error:
            self._up({"kind": "lost", "rank": self._world.rank, "why": f"could not start: {error}"})
            self._reduction.end(_SELF)
            self._pass_seconds()

    def _take_seconds(self) -> None:
        """Take recorded seconds from the engine, and its outcome at the end; pass complete seconds on."""
        over = self._handle.wait(0.0)
        for second in self._handle.seconds():
            self._reduction.take(_SELF, _engine.second_number(second), second)
        if over:
            self._end_own()
        self._pass_seconds()

    def _end_own(self) -> None:
        """Add the outcome of this rank's engine, or report the rank as lost; end its seconds."""
        try:
            self._parts.append(self._handle.outcome())
        except RuntimeError as error:
            self._up({"kind": "lost", "rank": self._world.rank, "why": f"failed: {error}"})
        self._reduction.end(_SELF)

    def _pass_seconds(self) -> None:
        """Pass on seconds that are complete; when all sources have ended, pass on their outcomes, once."""
        for second, total in self._reduction.complete():
            self._second(second, total)
        if not self._reduction.open and not self._ended:
            self._ended = True
            if self._machine:
                self._machines[self._boot] = self._machine.figures()
            self._all_ended()

    def _second(self, second: int, total: bytes) -> None:
        """Send the sum of a second to the rank above."""
        self._up({"kind": "second", "second": second}, total)

    def _all_ended(self) -> None:
        """Send the sum of all outcomes, and the figures of the machines, to the rank above."""
        header = {"kind": "ended", "machines": self._machines}
        self._up(header, _engine.add_outcomes(self._parts).encode() if self._parts else b"")
