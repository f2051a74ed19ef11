"""The link of a node that has a network of its own: what it does to packets, and whether it is cut.

Both ends are worked on, so that a packet fares alike on its way to the node and from it. Loss and cuts are filters
where packets arrive: the sender must not see them, as it would if its own queue refused them. The rate is a token
bucket where packets leave, the delay netem's, which not every kernel has.
"""

import shutil
import subprocess
from dataclasses import dataclass

from loadframe.base.errors import BadInput, LoadframeError
from loadframe.base.units import format_bandwidth, format_duration
from loadframe.host.supervisor import NODE_END

#: Bytes that may leave at once after a pause: as many as the rate allows in this time, and no less than a few packets.
_BURST_TIME, _LEAST_BURST = 0.01, 16 * 1500
#: How long a packet may wait for its turn at the rate before it is lost, as in the buffer of a switch.
_QUEUE_TIME = "200ms"
#: Packets that may be on their way at once through a delay: more than any rate here times any sensible delay.
_ON_THE_WAY = 1_000_000
#: Filters by their preference: a cut stands before losses, and goes without them.
_CUT, _LOSS = 1, 2
#: Classic BPF: drop each packet; or load a random 32-bit number (kernel documentation, networking/filter, `rand`) and
#: drop the packet if it is below a threshold. 0 lets a packet pass and 2 drops it (tc-actions: TC_ACT_OK, TC_ACT_SHOT).
_DROP_ALL = "1,6 0 0 2,"
_DROP_SOME = "4,32 0 0 4294963256,53 0 1 {threshold},6 0 0 0,6 0 0 2,"


@dataclass(frozen=True)
class Shape:
    """What a link does to each packet, in each direction."""

    delay: float = 0.0  #: s that it takes one way, on top of what it takes anyway
    loss: float = 0.0  #: share of packets that do not arrive, each by chance and on its own
    rate: float | None = None  #: bytes per second at most

    def __post_init__(self) -> None:
        if not 0 <= self.delay <= 60:
            raise BadInput(f"a delay of {self.delay} s on a link", remedy="give 0 to 60 s, such as 20ms")
        if not 0 <= self.loss < 1:
            raise BadInput(
                f"a loss of {100 * self.loss:.3g} % on a link",
                remedy="give 0 % or more and less than 100 %; to lose all, cut it",
            )
        if self.rate is not None and not 1000 <= self.rate <= 2e10:
            raise BadInput(
                f"a rate of {self.rate:g} B/s on a link", remedy="give 8kbit to 160gbit a second, such as 100mbit"
            )

    def __bool__(self) -> bool:
        return self != Shape()

    def __str__(self) -> str:
        words = [f"delay {format_duration(self.delay)}"] if self.delay else []
        words += [f"loss {self.loss * 100:g} %"] if self.loss else []
        words += [f"rate {format_bandwidth(self.rate)}"] if self.rate is not None else []
        return ", ".join(words)


@dataclass(frozen=True)
class Link:
    """One node's link: its end outside by name, the node's own by the id of a process in its network."""

    name: str
    pid: int

    def shape(self, shape: Shape) -> None:
        """Replace the shape by this one; BadInput, with the link unshaped, if the kernel cannot do that."""
        for end in self._ends():
            _attempt(end, "qdisc", "delete", "dev", end.interface, "root")
            _attempt(end, "filter", "delete", "dev", end.interface, "ingress", "pref", str(_LOSS))
        try:
            for end in self._ends():
                _put(end, shape)
        except LoadframeError:
            self.shape(Shape())
            raise

    def cut(self) -> None:
        """Let no packet through any more, in silence: neighbours go on to see a link that is up."""
        for end in self._ends():
            _filter(end, _CUT, _DROP_ALL)

    def restore(self) -> None:
        """Undo a cut; the shape stays."""
        for end in self._ends():
            _attempt(end, "filter", "delete", "dev", end.interface, "ingress", "pref", str(_CUT))

    @property
    def inside(self) -> tuple[str, ...]:
        """What to put before a command line that is to run in the node's network."""
        return (shutil.which("nsenter") or "nsenter", f"--net=/proc/{self.pid}/ns/net", "--")

    def _ends(self) -> tuple["_End", "_End"]:
        return _End(self.name), _End(NODE_END, self.inside)


@dataclass(frozen=True)
class _End:
    interface: str
    prefix: tuple[str, ...] = ()


def _put(end: _End, shape: Shape) -> None:
    parent = ["root"]
    if shape.rate is not None:
        burst = max(round(shape.rate * _BURST_TIME), _LEAST_BURST)
        bucket = ["rate", f"{round(shape.rate * 8)}bit", "burst", f"{burst}b", "latency", _QUEUE_TIME]
        _tc(end, "qdisc", "add", "dev", end.interface, "root", "handle", "1:", "tbf", *bucket)
        parent = ["parent", "1:1"]
    if shape.delay:
        told = _attempt(
            end,
            *("qdisc", "add", "dev", end.interface, *parent, "netem"),
            *("delay", f"{round(shape.delay * 1e6)}us", "limit", str(_ON_THE_WAY)),
        )
        if told:
            raise BadInput(
                f"the kernel cannot delay packets here: {told}",
                remedy="load its module sch_netem (`modprobe sch_netem`), or take a kernel that has it; loss, rate "
                "and cuts work without",
            )
    if shape.loss:
        _filter(end, _LOSS, _DROP_SOME.format(threshold=max(round(shape.loss * 2**32), 1)))


def _filter(end: _End, preference: int, program: str) -> None:
    # It is there from the second time on.
    _attempt(end, "qdisc", "add", "dev", end.interface, "clsact")
    # Only of IP: neighbours still learn each other's hardware addresses, as behind a switch that is cut off elsewhere.
    where = ("dev", end.interface, "ingress", "pref", str(preference), "protocol", "ip")
    _attempt(end, "filter", "delete", *where[:5])
    _tc(end, "filter", "add", *where, "bpf", "direct-action", "bytecode", program)


def _tc(end: _End, *arguments: str) -> None:
    if told := _attempt(end, *arguments):
        raise LoadframeError(f"the link cannot be changed: {told}", where=" ".join(("tc", *arguments)))


def _attempt(end: _End, *arguments: str) -> str | None:
    """Return what tc said if it failed."""
    done = subprocess.run([*end.prefix, "tc", *arguments], capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return None
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    return lines[0].removeprefix("Error: ") if lines else f"tc left with status {done.returncode}"
