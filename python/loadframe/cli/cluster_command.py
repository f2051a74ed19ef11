"""`loadframe cluster up NAME -- COMMAND`: run a command on a cluster that stops with it."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from loadframe.base.errors import BadInput
from loadframe.cli.output import tell

if TYPE_CHECKING:
    from loadframe.cluster import Cluster

#: Seconds that the command has to end after an interrupt, before SIGTERM, and again before SIGKILL.
_GRACE = 10.0


def require_program(command: Sequence[str]) -> None:
    """Raise BadInput unless the program exists. Call it before starting a cluster."""
    if shutil.which(command[0]) is None:
        raise BadInput(
            f"the program {command[0]!r} does not exist",
            remedy="write `loadframe cluster up NAME [options] -- COMMAND`, with a program in PATH, or its path",
        )


def run_on(cluster: "Cluster", command: Sequence[str], name: str) -> int:
    """Run a command with the cluster's addresses in its environment, and return its exit code (128 + signal).

    Print the deviations of nodes that occur during the command. An interrupt ends the command and is raised again.
    """
    before = set(cluster.deviations())
    with _ending(subprocess.Popen(command, env={**os.environ, **variables(cluster, name)})) as process:
        status = process.wait()
    for sentence in cluster.deviations():
        if sentence not in before:
            tell(f"while the command ran: {sentence}", style="yellow")
    return status if status >= 0 else 128 - status


def variables(cluster: "Cluster", name: str) -> dict[str, str]:
    """Return the environment variables for a command: addresses as `host:port`, and credentials."""
    addresses = cluster.addresses
    environment = {
        "LOADFRAME_CLUSTER": name,
        "LOADFRAME_STORE": cluster.store.kind,
        "LOADFRAME_HOSTS": ",".join(addresses),
        "LOADFRAME_HOST": addresses[0],
    }
    auth = cluster.access.auth
    if auth and auth.scheme == "basic":
        environment |= {"LOADFRAME_USER": auth.user or "", "LOADFRAME_PASSWORD": auth.secret}
    if (tls := cluster.access.tls) and tls.ca:
        environment["LOADFRAME_CA"] = str(tls.ca)
    return environment


@contextmanager
def _ending(process: "subprocess.Popen[bytes]") -> "Iterator[subprocess.Popen[bytes]]":
    """End the process on exit: wait, then SIGTERM, then SIGKILL."""
    try:
        yield process
    finally:
        # Ctrl-C at a terminal has reached the process, too.
        steps: tuple[Callable[[], None], ...] = (lambda: None, process.terminate, process.kill)
        for step in steps:
            if process.poll() is not None:
                break
            step()
            try:
                process.wait(_GRACE)
            except subprocess.TimeoutExpired:
                continue
