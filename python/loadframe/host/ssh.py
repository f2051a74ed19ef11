"""Machines that are reached with the OpenSSH client, using its configuration, agent, jump hosts and shared connections.

Passwords are never prompted for. LOADFRAME_SSH replaces the command `ssh`, for example by `ssh -F FILE`.
"""

import os
import re
import shlex
from collections.abc import Sequence

from loadframe.base.errors import BadInput
from loadframe.host.agent import PATIENCE, HostKind
from loadframe.host.agent_client import agent_command
from loadframe.host.machines import MachinesHost
from loadframe.host.placement import Placement, parse
from loadframe.host.remote import RemoteMachine
from loadframe.host.wire import Connection, PipeConnection

#: Connect timeout, and interval of keep-alive messages, in seconds.
_CONNECT, _ALIVE = 15, 10
_OPTIONS = {
    "BatchMode": "yes",
    "ConnectTimeout": _CONNECT,
    "ServerAliveInterval": _ALIVE,
    "ServerAliveCountMax": round(PATIENCE / _ALIVE),
    "ClearAllForwardings": "yes",
}
#: Pattern of ssh's error output, cause, remedy. The first match applies.
_CAUSES = (
    (
        r"IDENTIFICATION HAS CHANGED",
        "its host key differs from the known one",
        "find out why before you continue: this may be an attack; `ssh-keygen -R` removes the known key",
    ),
    (
        r"Host key verification failed|host key is known",
        "its host key is unknown",
        "connect once manually (`{ssh} {name}`) and verify the key, or add it to ~/.ssh/known_hosts",
    ),
    (
        r"Could not resolve hostname",
        "its name does not resolve",
        "check the name, or set its address in ~/.ssh/config",
    ),
    (
        r"Permission denied|Too many authentication failures",
        "authentication without a password failed",
        "install your key there (`ssh-copy-id {name}`) or load it into ssh-agent, until "
        "`{ssh} -o BatchMode=yes {name} true` works",
    ),
    (
        r"Connection refused|timed out|No route to host|Network is unreachable|Connection closed",
        "it does not answer",
        "check that it is running and that `{ssh} {name} true` works",
    ),
)


class SshHost(MachinesHost):
    """Machines by their ssh names, `name` or `name:slots`."""

    def __init__(
        self, machines: Sequence[str], placement: Placement, scratch: str | None = None, kind: HostKind | None = None
    ) -> None:
        """Parse the names without connecting; BadInput without a machine, or for an invalid or repeated name.

        See `RemoteMachine` for `scratch` and `kind`.
        """
        if not machines:
            raise BadInput(
                "--host ssh requires machines",
                remedy="name them: --machines node1,node2:2, or --machines @hostfile (machines: in an experiment)",
            )
        parsed = [parse(text) for text in machines]
        super().__init__(
            "ssh",
            [
                RemoteMachine(
                    name,
                    _Connect(name),
                    explain=_Explain(name),
                    slots=slots or placement.per_machine or 1,
                    network=placement.network,
                    scratch=scratch,
                    kind=kind,
                )
                for name, slots in parsed
            ],
            placement,
        )

    def require(self) -> None:
        """Connect to all machines; BadInput if one is unreachable or unsuitable, or if two names are of one machine.

        BadInput also if their architectures differ, or the generator runs on one and nodes must not share its machine.
        """
        super().require()
        names: dict[tuple[str, str], str] = {}
        for machine in self.machines:
            other = names.setdefault((machine.facts.identity, machine.facts.boot), machine.hostname)
            if other != machine.hostname:
                raise BadInput(
                    f"{other} and {machine.hostname} are the same machine, and its nodes would use the same ports",
                    remedy=f"name it once, with its number of nodes: {other}:2",
                )


def ssh() -> list[str]:
    """Return the words of the ssh command in LOADFRAME_SSH, or `ssh` if it is unset or empty.

    BadInput if the words cannot be told apart, because a quote is open.
    """
    command = os.environ.get("LOADFRAME_SSH", "")
    try:
        return shlex.split(command) or ["ssh"]
    except ValueError as error:
        raise BadInput(
            f"cannot split LOADFRAME_SSH into words: {error}", where=command, remedy="close each quote"
        ) from error


class _Connect:
    """Function that connects to the agent on a machine by ssh."""

    def __init__(self, name: str) -> None:
        """Take the machine's name as ssh knows it."""
        self._name = name

    def __call__(self) -> Connection:
        """Start ssh with the agent, and return the connection without waiting; BadInput if ssh is not installed."""
        options = [f"-o{key}={value}" for key, value in _OPTIONS.items()]
        # The remote shell splits this string again.
        command = [*ssh(), "-T", "-x", *options, "--", self._name, shlex.join(agent_command())]
        try:
            return PipeConnection(command)
        except OSError as error:
            raise BadInput(
                f"could not run {command[0]}: {error.strerror}", remedy="install the OpenSSH client (openssh-client)"
            ) from error


class _Explain:
    """Function that explains why ssh did not connect."""

    def __init__(self, name: str) -> None:
        """Take the machine's name, for messages."""
        self._name = name

    def __call__(self, status: int | None, words: str) -> BadInput:
        """Return the error, with cause and remedy, for an exit status and error output (`words`) of ssh."""
        for pattern, what, remedy in _CAUSES:
            if re.search(pattern, words, re.IGNORECASE):
                todo = remedy.format(ssh=shlex.join(ssh()), name=self._name)
                return BadInput(f"could not connect: {what}", where=self._name, remedy=todo)
        said = words.splitlines()[-1] if words else f"ssh exited with status {status}"
        return BadInput(
            f"could not connect: {said}", where=self._name, remedy=f"check that `ssh {self._name} true` works"
        )
