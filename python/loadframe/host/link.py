"""Network link of a node with its own network namespace: delay, loss, rate limit and cut.

Each setting applies at both ends of the link, and so in both directions. Loss and cuts are ingress filters: a sender
would notice packets that its own queue drops. The rate limit is a token bucket filter (tbf) at egress. The delay needs
netem, which some kernels lack.
"""

import shutil
import subprocess
from dataclasses import dataclass

from loadframe.base.errors import BadInput, LoadframeError
from loadframe.base.units import format_bandwidth, format_duration
from loadframe.host.supervisor import NODE_END

#: Burst after a pause: the bytes that the rate allows in this time, and at least 16 full packets.
_BURST_TIME, _LEAST_BURST = 0.01, 16 * 1500
#: Longest wait of a packet in the rate limiter's queue, as in a switch buffer; later packets are dropped.
_QUEUE_TIME = "200ms"
#: Capacity of the delay queue in packets, above the product of any rate and delay that is allowed here.
_ON_THE_WAY = 1_000_000
#: Priorities of the filters. The cut filter runs before the loss filter.
_CUT, _LOSS = 1, 2
#: Classic BPF: drop each packet; or load a random 32-bit number (kernel documentation, networking/filter, `rand`) and
#: drop the packet if it is below a threshold. 0 lets a packet pass and 2 drops it (tc-actions: TC_ACT_OK, TC_ACT_SHOT).
_DROP_ALL = "1,6 0 0 2,"
_DROP_SOME = "4,32 0 0 4294963256,53 0 1 {threshold},6 0 0 0,6 0 0 2,"


@dataclass(frozen=True)
class Shape:
    """Delay, loss and rate of a link, applied to each packet in each direction."""

    delay: float = 0.0  #: added one-way delay, in seconds
    loss: float = 0.0  #: probability that a packet is dropped, independent of other packets
    rate: float | None = None  #: maximum rate, in bytes/s

    def __post_init__(self) -> None:
        """Raise BadInput unless the delay is 0 to 60 s, the loss 0 to below 1, and the rate 1,000 to 2e10 bytes/s."""
        if not 0 <= self.delay <= 60:
            raise BadInput(
                f"the delay of a link must be 0 to 60 s; got {self.delay} s", remedy="give a delay such as 20ms"
            )
        if not 0 <= self.loss < 1:
            raise BadInput(
                f"the loss of a link must be at least 0 % and below 100 %; got {100 * self.loss:.3g} %",
                remedy="give a loss such as 1%; to drop all packets, cut the link",
            )
        if self.rate is not None and not 1000 <= self.rate <= 2e10:
            raise BadInput(
                f"the rate of a link must be 1000 to 2e10 B/s; got {self.rate:g} B/s",
                remedy="give 8kbit to 160gbit, such as 100mbit",
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
    """One node's link: the name of its outer end, and the id of a process in the node's network namespace."""

    name: str
    pid: int

    def shape(self, shape: Shape) -> None:
        """Replace the current shape; an empty shape removes it.

        If the kernel refuses, remove any shape and raise BadInput (no support for delays) or LoadframeError.
        """
        for end in self._ends():
            _attempt(end, "qdisc", "delete", "dev", end.interface, "root")
            _attempt(end, "filter", "delete", "dev", end.interface, "ingress", "pref", str(_LOSS))
        try:
            for end in self._ends():
                _apply_shape(end, shape)
        except LoadframeError:
            self.shape(Shape())
            raise

    def cut(self) -> None:
        """Drop all IPv4 packets in both directions, until `restore`.

        The interfaces stay up, so peers notice only missing answers. If the kernel refuses, undo the cut and raise
        LoadframeError.
        """
        try:
            for end in self._ends():
                _filter(end, _CUT, _DROP_ALL)
        except LoadframeError:
            self.restore()
            raise

    def restore(self) -> None:
        """Undo a cut; the shape stays. Does nothing without a cut; errors are ignored."""
        for end in self._ends():
            _attempt(end, "filter", "delete", "dev", end.interface, "ingress", "pref", str(_CUT))

    @property
    def inside(self) -> tuple[str, ...]:
        """Return the command prefix that runs a command in the node's network namespace."""
        return (shutil.which("nsenter") or "nsenter", f"--net=/proc/{self.pid}/ns/net", "--")

    def _ends(self) -> tuple["_End", "_End"]:
        """Return the outer end of the link and the end in the node's network namespace."""
        return _End(self.name), _End(NODE_END, self.inside)


@dataclass(frozen=True)
class _End:
    """One end of a link: its interface, and the command prefix that runs a command where it is."""

    interface: str
    prefix: tuple[str, ...] = ()


def _apply_shape(end: _End, shape: Shape) -> None:
    """Add rate limit, delay and loss to an end without a shape; BadInput if the kernel cannot delay packets.

    LoadframeError if it refuses another change.
    """
    parent = ["root"]
    if shape.rate is not None:
        burst = max(round(shape.rate * _BURST_TIME), _LEAST_BURST)
        bucket = ["rate", f"{round(shape.rate * 8)}bit", "burst", f"{burst}b", "latency", _QUEUE_TIME]
        _tc(end, "qdisc", "add", "dev", end.interface, "root", "handle", "1:", "tbf", *bucket)
        parent = ["parent", "1:1"]
    if shape.delay:
        error = _attempt(
            end,
            *("qdisc", "add", "dev", end.interface, *parent, "netem"),
            *("delay", f"{round(shape.delay * 1e6)}us", "limit", str(_ON_THE_WAY)),
        )
        if error:
            raise BadInput(
                f"this kernel cannot delay packets: {error}",
                remedy="load its module sch_netem (`modprobe sch_netem`), or use a kernel that has it; loss, rate "
                "limits and cuts work without it",
            )
    if shape.loss:
        _filter(end, _LOSS, _DROP_SOME.format(threshold=max(round(shape.loss * 2**32), 1)))


def _filter(end: _End, preference: int, program: str) -> None:
    """Replace the ingress filter of the priority `preference` by the BPF bytecode `program`, for IPv4 packets.

    LoadframeError if that fails.
    """
    # Fails when the qdisc already exists, which is fine.
    _attempt(end, "qdisc", "add", "dev", end.interface, "clsact")
    # Only IP packets: ARP still works, as behind a switch that is disconnected farther away.
    position = ("dev", end.interface, "ingress", "pref", str(preference), "protocol", "ip")
    _attempt(end, "filter", "delete", *position[:5])
    _tc(end, "filter", "add", *position, "bpf", "direct-action", "bytecode", program)


def _tc(end: _End, *arguments: str) -> None:
    """Run tc with these arguments at an end of the link; LoadframeError if it fails."""
    if error := _attempt(end, *arguments):
        raise LoadframeError(f"could not change the link: {error}", where=" ".join(("tc", *arguments)))


def _attempt(end: _End, *arguments: str) -> str | None:
    """Run tc at an end of the link; return the first line of its error, or None if it succeeded."""
    finished = subprocess.run([*end.prefix, "tc", *arguments], capture_output=True, text=True, check=False)
    if finished.returncode == 0:
        return None
    lines = [line for line in finished.stderr.splitlines() if line.strip()]
    return lines[0].removeprefix("Error: ") if lines else f"tc exited with status {finished.returncode}"
