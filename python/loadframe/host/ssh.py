"""Machines that OpenSSH's client reaches, as it is: its configuration, agent, jump hosts and shared connections hold.

No password is ever asked for. LOADFRAME_SSH is the command to run instead of `ssh`, such as `ssh -F FILE`.
"""

import os
import re
import shlex
from collections.abc import Sequence

from loadframe.base.errors import BadInput
from loadframe.host.agent import PATIENCE, Kind
from loadframe.host.bundle import agent_command
from loadframe.host.connection import Connection, PipeConnection
from loadframe.host.machines import MachinesHost
from loadframe.host.placement import Placement, parse
from loadframe.host.remote import RemoteMachine

#: Seconds that a machine may take to answer at all, and seconds between signs of life.
_CONNECT, _ALIVE = 15, 10
_OPTIONS = {
    "BatchMode": "yes",
    "ConnectTimeout": _CONNECT,
    "ServerAliveInterval": _ALIVE,
    "ServerAliveCountMax": round(PATIENCE / _ALIVE),
    "ClearAllForwardings": "yes",
}
#: What ssh says when it fails, what that is, and what to do; the first that fits.
_CAUSES = (
    (
        r"IDENTIFICATION HAS CHANGED",
        "its host key is not the one that is known",
        "find out why before you go on: somebody may stand between; `ssh-keygen -R` forgets the key that is known",
    ),
    (
        r"Host key verification failed|host key is known",
        "its host key is not known",
        "connect once by hand (`{ssh} {name}`) and compare the key, or add it to ~/.ssh/known_hosts",
    ),
    (
        r"Could not resolve hostname",
        "there is no machine of that name",
        "check the name, or give it an address in ~/.ssh/config",
    ),
    (
        r"Permission denied|Too many authentication failures",
        "it does not let us in without a password",
        "have `{ssh} -o BatchMode=yes {name} true` work: put your key there (`ssh-copy-id {name}`), or load it into "
        "ssh-agent",
    ),
    (
        r"Connection refused|timed out|No route to host|Network is unreachable|Connection closed",
        "it does not answer",
        "see that it is up and that `{ssh} {name} true` works",
    ),
)


class SshHost(MachinesHost):
    """Machines by their names for ssh, `name` or `name:slots`."""

    def __init__(
        self, machines: Sequence[str], placement: Placement, scratch: str | None = None, kind: Kind | None = None
    ) -> None:
        """BadInput without a machine."""
        if not machines:
            raise BadInput(
                "nodes on machines that ssh reaches want machines",
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
        """BadInput for the first machine that cannot be used, and for two names of one machine."""
        super().require()
        names: dict[tuple[str, str], str] = {}
        for machine in self.machines:
            other = names.setdefault((machine.facts.identity, machine.facts.boot), machine.hostname)
            if other != machine.hostname:
                raise BadInput(
                    f"{other} and {machine.hostname} are one machine, and its nodes would be at the same ports",
                    remedy=f"name it once, with the number of nodes that it takes: {other}:2",
                )


def ssh() -> list[str]:
    """Return the command that reaches machines."""
    return shlex.split(os.environ.get("LOADFRAME_SSH", "")) or ["ssh"]


class _Connect:
    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self) -> Connection:
        options = [f"-o{key}={value}" for key, value in _OPTIONS.items()]
        # The far side's shell puts the command together again.
        command = [*ssh(), "-T", "-x", *options, "--", self._name, shlex.join(agent_command())]
        try:
            return PipeConnection(command)
        except OSError as error:
            raise BadInput(
                f"{command[0]} cannot be run: {error.strerror}", remedy="install OpenSSH's client (openssh-client)"
            ) from error


class _Explain:
    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, status: int | None, words: str) -> BadInput:
        for pattern, what, remedy in _CAUSES:
            if re.search(pattern, words, re.IGNORECASE):
                todo = remedy.format(ssh=shlex.join(ssh()), name=self._name)
                return BadInput(f"the machine cannot be used: {what}", where=self._name, remedy=todo)
        said = words.splitlines()[-1] if words else f"ssh left with status {status}"
        return BadInput(
            f"the machine cannot be used: {said}", where=self._name, remedy=f"see that `ssh {self._name} true` works"
        )
