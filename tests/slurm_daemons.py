"""Real Slurm daemons on this machine: a controller and several compute nodes with separate ports and folders."""

import contextlib
import getpass
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from subprocess import CompletedProcess
from typing import Self

import psutil

#: Seconds. Daemons on a busy machine take their time.
PATIENCE = 240

#: All machines are this one, so each has its own port, folder and address of the loopback interface. Cores are counted
#: as the tests want them (`config_overrides`), and jobs end soon after their time (`KillWait`). On a busy machine no
#: message, start or end takes so long that Slurm gives a job or a machine up.
CONFIGURATION = """\
ClusterName=loadframe
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
AuthType=auth/none
CredType=cred/none
SlurmUser={user}
SlurmdUser={user}
StateSaveLocation={folder}/controller
SlurmdSpoolDir={folder}/%n
TmpFS={folder}/%n
SlurmctldPidFile={folder}/controller/pid
SlurmdPidFile={folder}/%n/pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
MpiDefault=none
ReturnToService=2
KillWait=5
MessageTimeout=100
TCPTimeout=30
BatchStartTimeout=300
UnkillableStepTimeout=600
SchedulerParameters=batch_sched_delay=0,sched_interval=2
"""
MACHINE = "NodeName={name} NodeHostname={host} NodeAddr={address} Port={port} CPUs={cores} RealMemory={memory}\n"


class SlurmDaemons:
    """A Slurm cluster of `machines` nodes named n1, n2, ..., each reporting `cores` cores.

    Context manager: the cluster runs inside it; leaving it ends all jobs. Slurm clients need `environment`.
    """

    def __init__(self, machines: int = 3, cores: int = 8, memory: int = 16_000) -> None:
        """Take the number of machines, and of each the cores and the memory (MiB)."""
        self.folder = Path(tempfile.mkdtemp(prefix="loadframe-slurm-"))
        # Root's servers run as another user that needs access to the folder.
        self.folder.chmod(0o755)
        self.machines = [f"n{number}" for number in range(1, machines + 1)]
        self.addresses = [f"127.0.9.{number}" for number in range(1, machines + 1)]
        self._processes: list[subprocess.Popen[bytes]] = []
        (self.folder / "slurm.conf").write_text(self._configuration(cores, memory))
        for name in ("controller", *self.machines):
            (self.folder / name).mkdir()
        # Drop Slurm's variables, which are set when the tests themselves run inside a job.
        outer = {name: text for name, text in os.environ.items() if not name.startswith(("SLURM", "PMI", "OMPI"))}
        self.environment = {
            **outer,
            # The machines are on the loopback. Links of other tests come and go, and Open MPI would use them.
            "OMPI_MCA_btl_tcp_if_include": "lo",
            "SLURM_CONF": str(self.folder / "slurm.conf"),
            "PATH": f"{Path(sys.executable).parent}:{outer['PATH']}",
        }

    def _configuration(self, cores: int, memory: int) -> str:
        host, user = socket.gethostname(), getpass.getuser()
        controller, *ports = _free_ports(len(self.machines) + 1)
        text = CONFIGURATION.format(host=host, port=controller, user=user, folder=self.folder)
        for name, address, port in zip(self.machines, self.addresses, ports, strict=True):
            text += MACHINE.format(name=name, host=host, address=address, port=port, cores=cores, memory=memory)
        return text + "PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP\n"

    def __enter__(self) -> Self:
        try:
            self._start("controller", _daemon("slurmctld"), "-D")
            for name in self.machines:
                self._start(name, *_named(name), _daemon("slurmd"), "-D", "-N", name)
            self._await(lambda: self.run("sinfo", "-h", "-o", "%T %D").stdout.strip() == f"idle {len(self.machines)}")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._processes:
            self.run("scancel", "--user", getpass.getuser())
            with contextlib.suppress(AssertionError):
                self._await(lambda: not self.run("squeue", "-h").stdout.strip(), within=30)
        for process in reversed(self._processes):
            process.terminate()
        for process in self._processes:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for left in self._left():
            with contextlib.suppress(psutil.NoSuchProcess):
                left.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _start(self, name: str, *command: str) -> None:
        # They end with the tests even when those are killed.
        command = ("setpriv", "--pdeathsig", "KILL", *command)
        with (self.folder / name / "log").open("ab") as log:
            self._processes.append(
                subprocess.Popen(command, env=self.environment, stdout=log, stderr=log, start_new_session=True)
            )

    def _left(self) -> list[psutil.Process]:
        """Return the keepers of job steps (slurmstepd) that have outlived their daemon."""
        # Their command lines name only their step. The configuration path in their environment identifies the cluster.
        keepers = []
        for process in psutil.process_iter(["name"]):
            with contextlib.suppress(psutil.Error):
                ours = process.info["name"] == "slurmstepd" and process.environ().get("SLURM_CONF")
                if ours == self.environment["SLURM_CONF"]:
                    keepers.append(process)
        return keepers

    def _await(self, condition, within: float = PATIENCE) -> None:
        end = time.monotonic() + within
        while not condition():
            assert time.monotonic() < end, self.logs()
            time.sleep(0.1)

    def logs(self) -> str:
        """Return the last lines of all daemons, for messages of tests that fail."""
        ends = [(name, (self.folder / name / "log").read_text().splitlines()[-15:]) for name in ("controller", "n1")]
        return "\n".join(f"{name}: {line}" for name, lines in ends for line in lines)

    def run(self, *words: object, folder: Path | None = None, **more: str) -> CompletedProcess[str]:
        """Run a command with this cluster as its Slurm; `more` is added to its environment."""
        return subprocess.run(
            [str(word) for word in words],
            env={**self.environment, **more},
            capture_output=True,
            text=True,
            timeout=PATIENCE * 2,
            check=False,
            cwd=folder,
        )

    @contextlib.contextmanager
    def allocation(self, machines: int, *words: str) -> Iterator[dict[str, str]]:
        """Hold that number of whole machines; yield the environment for commands inside the allocation."""
        done = self.run("salloc", "--no-shell", "--exclusive", f"--nodes={machines}", *words)
        assert done.returncode == 0, done.stderr
        job = done.stderr.split("job allocation ")[1].split()[0]
        names = self.run("squeue", "-h", "-j", job, "-o", "%N").stdout.strip()
        try:
            yield {**self.environment, "SLURM_JOB_ID": job, "SLURM_JOB_NODELIST": names}
        finally:
            self.run("scancel", job)

    def wait(self, job: str, within: float = PATIENCE * 2) -> str:
        """Wait until a job ends; return its state, such as COMPLETED, FAILED or TIMEOUT."""
        state = ""

        def over() -> bool:
            nonlocal state
            state = self.run("squeue", "-h", "--states=all", "-j", job, "-o", "%T").stdout.strip()
            return state not in ("PENDING", "RUNNING", "COMPLETING", "CONFIGURING")

        self._await(over, within)
        return state

    def processes(self, job: str) -> list[psutil.Process]:
        """Return the processes of a job that still run, in any session or group."""
        running = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                variables = process.environ()
                if variables.get("SLURM_CONF") == self.environment["SLURM_CONF"]:
                    running += [process] if variables.get("SLURM_JOB_ID") == job else []
        return running


#: Daemons are in sbin, which ordinary users do not have in their PATH.
DAEMONS = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
#: Programs that these tests require.
NEEDED = ("slurmctld", "slurmd", "srun", "setpriv")


def _daemon(program: str) -> str:
    return shutil.which(program, path=DAEMONS) or program


@cache
def named() -> bool:
    """Return whether our machines can have separate host names, which needs root.

    PMIx identifies a machine by its host name. Without separate names, MPI starts at most two ranks on one of ours.
    """
    command = ["unshare", "--uts", "hostname", "n1"]
    return all(map(shutil.which, ("unshare", "hostname"))) and not subprocess.run(command, check=False).returncode


def _named(name: str) -> tuple[str, ...]:
    """Return the command prefix that runs a command under that host name."""
    return ("unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"', name) if named() else ()


def missing() -> str | None:
    """Return why there can be no Slurm here, or None."""
    lacking = [program for program in NEEDED if shutil.which(program, path=DAEMONS) is None]
    return f"not installed: {', '.join(lacking)}" if lacking else None


#: Below the kernel's ephemeral ports and below the ports of cluster nodes.
PORTS = range(12_000, 20_000)


def _free_ports(count: int) -> list[int]:
    ports: list[int] = []
    for port in random.Random().sample(PORTS, len(PORTS)):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("", port))
            ports.append(port)
        if len(ports) == count:
            return ports
    raise AssertionError(f"there are no {count} free ports")
