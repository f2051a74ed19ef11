"""`--ranks N`: starts the ranks on this machine with mpirun, and stands for them: terminal, interrupts, status."""

import contextlib
import importlib.util
import os
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import IO

from loadframe.base.errors import BadInput, GeneratorFailed
from loadframe.base.printable import printable
from loadframe.ranks.environment import STARTER
from loadframe.ranks.pipe_safe_stdout import outlive_readers
from loadframe.ranks.workspace import remove_abandoned, workspace

#: Signals that rank 0 gets in our place, by what stands for them on the socket.
_SIGNALS = {signal.SIGINT: b"I", signal.SIGTERM: b"T", signal.SIGHUP: b"H"}
#: This program, on a machine where Python lies at the same path.
PROGRAM = (sys.executable, "-c", "from loadframe.cli import main; main()")
#: How long mpirun may take to end when rank 0 has, s.
_ENDING = 15.0
#: How long it may take when rank 0 was killed and what it has recorded is kept, s.
_KEEPING = 90.0
#: How long mpirun may take to end its ranks when it is told to, s.
_STOPPING = 5.0
#: The socket at which rank 0 gets the terminal, in the workspace.
_DOOR = "door"
#: pid, uid and gid of the process at the other end of a Unix socket.
_PEER = struct.Struct("3i")


def launch(number: int) -> int:
    """Run this command anew as `number` ranks, and return its exit status. BadInput where there is no MPI."""
    mpirun = _mpirun()
    remove_abandoned()
    with (
        workspace() as (folder, held),
        socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as door,
        tempfile.TemporaryFile() as said,
    ):
        # No other user can enter the folder. A path through the descriptor is short enough for any socket.
        door.bind(f"/proc/self/fd/{held}/{_DOOR}")
        door.listen()
        process = subprocess.Popen(
            [*mpirun, "-n", str(number), *_command()],
            env={
                # Ranks of one machine share memory. By TCP they would listen at all of its addresses.
                "OMPI_MCA_btl": "^tcp",
                **os.environ,
                STARTER: str(folder),
                # What a killed mpirun leaves lies in our folder.
                "OMPI_MCA_btl_sm_backing_directory": str(folder),
                "PRTE_MCA_prte_tmpdir_base": str(folder),
            },
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            # Ctrl-C is for us, and we tell rank 0.
            start_new_session=True,
            pass_fds=[held],
        )
        try:
            began, status = _stand_for(door, process)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_ENDING if status is not None else _KEEPING)
        finally:
            _end(process)
        if status:
            _say_notice(said)
        if status is None:
            raise _killed(said) if began else _never_began(said, process.returncode)
        return status


def _stand_for(door: socket.socket, process: "subprocess.Popen[bytes]") -> tuple[bool, int | None]:
    """Give rank 0 our terminal and our interrupts; return whether it began, and its status, None if it said none."""
    asked: list[bytes] = []
    with _listening(lambda number: asked.append(_SIGNALS[signal.Signals(number)])) as ears:
        line = _visitor(door, process, ears)
        if line is None:
            return False, None
        with line:
            given = [number for number in (0, 1, 2) if _is_open(number)]
            socket.send_fds(line, [bytes(given)], given)
            while True:
                for sign in asked:
                    with contextlib.suppress(OSError):
                        line.send(sign)
                asked.clear()
                ready, _, _ = select.select([line.fileno(), ears], [], [])
                if ears in ready:
                    os.read(ears, 64)
                if line.fileno() in ready:
                    said = _received(line)
                    return True, said[0] if said else None


def _received(line: socket.socket) -> bytes:
    try:
        return line.recv(16)
    except ConnectionError:
        return b""


def _visitor(door: socket.socket, process: "subprocess.Popen[bytes]", ears: int) -> socket.socket | None:
    while process.poll() is None:
        ready, _, _ = select.select([door], [], [], 0.1)
        if door in ready:
            line, _ = door.accept()
            if _is_ours(line):
                return line
            line.close()
        if select.select([ears], [], [], 0)[0]:
            # Before there is a rank 0 that could be told.
            _end(process)
            raise KeyboardInterrupt
    return None


def _is_ours(line: socket.socket) -> bool:
    """Whether the process at the other end runs as this user."""
    _, uid, _ = _PEER.unpack(line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
    return bool(uid == os.geteuid())


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End mpirun and its ranks: it removes what it made if it is told, and is killed if that takes too long."""
    for number, patience in ((signal.SIGTERM, _STOPPING), (signal.SIGKILL, None)):
        if process.poll() is None:
            os.killpg(process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(patience)


@contextlib.contextmanager
def _listening(heard: Callable[[int], None]) -> Iterator[int]:
    """Have signals taken down; yield what can be selected on for them."""
    ears, bell = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def take_down(number: int, _: FrameType | None) -> None:
        heard(number)
        with contextlib.suppress(BlockingIOError):
            os.write(bell, b".")

    before = {number: signal.signal(number, take_down) for number in _SIGNALS}
    try:
        yield ears
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(ears)
        os.close(bell)


def adopt(folder: Path) -> Callable[[int], None]:
    """As rank 0, take over the terminal and the interrupts of the process that a user started.

    Returns what tells it the exit status. If that process dies, this one is interrupted. PermissionError if the
    process at the other end runs as another user.
    """
    line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    inside = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    line.connect(f"/proc/self/fd/{inside}/{_DOOR}")
    os.close(inside)
    if not _is_ours(line):
        raise PermissionError(f"the launcher's socket in {folder} belongs to another user")
    numbers, descriptors, _, _ = socket.recv_fds(line, 16, 3)
    for number, descriptor in zip(numbers, descriptors, strict=True):
        os.dup2(descriptor, number)
        os.close(descriptor)

    def hear() -> None:
        meaning = {sign: number for number, sign in _SIGNALS.items()}
        while sign := _received(line):
            os.kill(os.getpid(), meaning[sign])
        # Its terminal may be gone too.
        with contextlib.suppress(OSError):
            outlive_readers()
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=hear, name="starter", daemon=True).start()

    def tell(status: int) -> None:
        with contextlib.suppress(OSError):
            line.send(bytes([status & 255]))

    return tell


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def _mpirun() -> list[str]:
    """Return the command that starts ranks of the MPI that this Python has: its own, else the site's."""
    if importlib.util.find_spec("mpi4py") is None:
        raise BadInput("--ranks needs MPI, and this Python has no mpi4py", remedy="pip install 'loadframe[mpi]'")
    beside = Path(sys.executable).parent / "mpirun"
    mpirun = str(beside) if beside.exists() else shutil.which("mpirun")
    if mpirun is None:
        raise BadInput(
            "--ranks needs mpirun, and there is none beside this Python nor in the PATH",
            remedy="pip install 'loadframe[mpi]', or load this site's module of MPI",
        )
    version = subprocess.run([mpirun, "--version"], capture_output=True, text=True, check=False).stdout
    if "Open MPI" not in version:
        return [mpirun]
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    # The ranks share this machine as threads do: no cores of their own, and more of them than cores if that is asked.
    return [mpirun, *root, "--host", f"localhost:{os.cpu_count()}", "--oversubscribe", "--bind-to", "none"]


def _command() -> list[str]:
    script = Path(sys.argv[0])
    return [*([sys.executable, str(script)] if script.is_file() else PROGRAM), *sys.argv[1:]]


def _say_notice(said: IO[bytes]) -> None:
    """Print what mpirun noticed of ranks that died."""
    said.seek(0)
    for line in said.read().decode(errors="replace").splitlines():
        if "noticed" in line or "exited on" in line:
            print(f"mpirun: {printable(line.strip())}", file=sys.stderr)


def _killed(said: IO[bytes]) -> GeneratorFailed:
    """Return the error for a rank 0 that ended without a word, with what the process that knew it says."""
    said.seek(0)
    lines = said.read().decode(errors="replace").splitlines()
    words = [line.removeprefix("loadframe: ") for line in lines if line.startswith("loadframe: rank 0 ")]
    return GeneratorFailed(words[0] if words else "rank 0 was killed", remedy="`dmesg` says if memory had run out")


def _never_began(said: IO[bytes], status: int) -> GeneratorFailed:
    said.seek(0)
    lines = said.read().decode(errors="replace").strip().splitlines()
    words = "; ".join(line.strip() for line in lines[-8:] if line.strip("- "))
    return GeneratorFailed(
        f"the ranks ended with status {status} before rank 0 had said how: {words or 'no words'}",
        remedy="try mpirun by itself: mpirun -n 2 hostname",
    )
