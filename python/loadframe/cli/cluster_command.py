"""`loadframe cluster up NAME -- COMMAND`: a cluster as part of somebody else's job, which ends with it."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from loadframe.cli.output import tell
from loadframe.errors import BadInput

if TYPE_CHECKING:
    from loadframe.cluster import Cluster

#: Seconds that the command gets to end, when loadframe is interrupted, before it is told and then made to.
_GRACE = 10.0


def require_program(command: Sequence[str]) -> None:
    """BadInput unless the command can be run: said before a cluster is started for it."""
    if shutil.which(command[0]) is None:
        raise BadInput(
            f"there is no program {command[0]!r} to run on the cluster",
            remedy="write `loadframe cluster up NAME [options] -- COMMAND`, with a program of the PATH or a path",
        )


def run_on(cluster: "Cluster", command: Sequence[str], name: str) -> int:
    """Run a command with the cluster's addresses in its environment, and return its exit status (128 + signal).

    What becomes of nodes meanwhile is told. An interrupt ends the command, and goes on to the caller.
    """
    before = set(cluster.deviations())
    with _ending(subprocess.Popen(command, env={**os.environ, **variables(cluster, name)})) as process:
        status = process.wait()
    for sentence in cluster.deviations():
        if sentence not in before:
            tell(f"while the command ran: {sentence}", style="yellow")
    return status if status >= 0 else 128 - status


def variables(cluster: "Cluster", name: str) -> dict[str, str]:
    """Return what a command is told of the cluster: addresses of nodes as `host:port`, and who may ask."""
    addresses = cluster.addresses
    told = {
        "LOADFRAME_CLUSTER": name,
        "LOADFRAME_STORE": cluster.store.kind,
        "LOADFRAME_HOSTS": ",".join(addresses),
        "LOADFRAME_HOST": addresses[0],
    }
    auth = cluster.access.auth
    if auth and auth.user:
        told |= {"LOADFRAME_USER": auth.user, "LOADFRAME_PASSWORD": auth.secret}
    if (tls := cluster.access.tls) and tls.ca:
        told["LOADFRAME_CA"] = str(tls.ca)
    return told


@contextmanager
def _ending(process: "subprocess.Popen[bytes]") -> "Iterator[subprocess.Popen[bytes]]":
    """Have the process over at the end, whatever ends the wait for it: it has nothing to talk to any more."""
    try:
        yield process
    finally:
        # Ctrl-C at a terminal has reached it as well.
        steps: tuple[Callable[[], None], ...] = (lambda: None, process.terminate, process.kill)
        for step in steps:
            if process.poll() is not None:
                break
            step()
            try:
                process.wait(_GRACE)
            except subprocess.TimeoutExpired:
                continue
