"""Start of ranks: `--ranks N` with mpirun, which connects rank 0 to the terminal, and the entry point of each rank.

The ranks share a private folder (the launcher's socket, MPI's shared memory and session files). Each process that uses
it holds a shared lock on it, which the kernel releases when the process ends. A folder without locks is abandoned, and
the next command removes it. Process ids are not needed.
"""

import contextlib
import fcntl
import importlib.util
import os
import secrets
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import IO

from loadframe.base.errors import BadInput, GeneratorFailed
from loadframe.base.untrusted import outlet, printable
from loadframe.ranks import STARTER, Place, liveness

_SHARED_MEMORY = Path("/dev/shm")


@contextlib.contextmanager
def workspace() -> Iterator[tuple[Path, int]]:
    """Create a folder in /dev/shm, or else for temporary files; yield it and a descriptor with a shared lock.

    On exit, remove the folder and release the lock.
    """
    held = None
    while held is None:
        path = Path(tempfile.mkdtemp(prefix=f"{_prefix()}{secrets.token_hex(4)}-", dir=_base()))
        # Until it is locked, another command can take the new folder for an abandoned one and remove it.
        held = hold(path)
    try:
        yield path, held
    finally:
        shutil.rmtree(path, ignore_errors=True)
        os.close(held)


def hold(path: Path) -> int | None:
    """Return a descriptor that holds a shared lock on a workspace while it is open, or None if that fails.

    It fails if the folder is missing, belongs to another user, or is being removed. Never waits.
    """
    try:
        held = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    with contextlib.suppress(OSError):
        there = os.fstat(held)
        if there.st_uid == os.geteuid():
            fcntl.flock(held, fcntl.LOCK_SH | fcntl.LOCK_NB)
            if os.path.samestat(there, path.lstat()):
                return held
    os.close(held)
    return None


def remove_abandoned() -> list[Path]:
    """Remove this user's workspaces that no process holds, and return their paths, sorted."""
    removed = []
    for path in sorted(_base().glob(f"{_prefix()}*")):
        held = hold(path)
        if held is None:
            continue
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path)
            removed.append(path)
        except OSError:
            # Ranks or their launcher still use it.
            pass
        finally:
            os.close(held)
    return removed


def _base() -> Path:
    """Return the folder of workspaces: /dev/shm if it is writable, else the folder of temporary files."""
    return _SHARED_MEMORY if os.access(_SHARED_MEMORY, os.W_OK) else Path(tempfile.gettempdir())


def _prefix() -> str:
    """Return the beginning of the names of this user's workspaces."""
    return f"loadframe-ranks-{os.geteuid()}-"


def outlive_readers() -> None:
    """Replace `sys.stdout` and `sys.stderr` by streams whose writes never fail, even if their reader has ended."""
    sys.stdout, sys.stderr = outlet(sys.stdout), outlet(sys.stderr)


#: Signals that are forwarded to rank 0, with their bytes on the socket.
_SIGNALS = {signal.SIGINT: b"I", signal.SIGTERM: b"T", signal.SIGHUP: b"H"}
#: Command of this program, for machines with Python at the same path.
PROGRAM = (sys.executable, "-c", "from loadframe.cli import main; main()")
#: Timeout for mpirun to exit after rank 0, s.
_ENDING = 15.0
#: Timeout for mpirun to exit after rank 0 was killed, while the recording is rescued, s.
_KEEPING = 90.0
#: Timeout for mpirun to stop its ranks on SIGTERM, s.
_STOPPING = 5.0
#: Socket in the workspace over which rank 0 receives the terminal.
_DOOR = "door"
#: pid, uid and gid of the process at the other end of a Unix socket.
_PEER = struct.Struct("3i")


def launch(number: int) -> int:
    """Run this command again as `number` ranks with mpirun, wait for them, and return rank 0's exit status.

    BadInput without MPI; GeneratorFailed if rank 0 is killed or does not start; KeyboardInterrupt for a signal before
    it connects. Side effect: removes abandoned workspaces.
    """
    mpirun = _mpirun()
    remove_abandoned()
    with (
        workspace() as (folder, held),
        socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as door,
        tempfile.TemporaryFile() as said,
    ):
        # Other users cannot enter the folder. The path through the descriptor fits the length limit of socket
        # addresses.
        door.bind(f"/proc/self/fd/{held}/{_DOOR}")
        door.listen()
        process = subprocess.Popen(
            [*mpirun, "-n", str(number), *_command()],
            env={
                # Ranks on one machine use shared memory. The TCP transport would listen on all addresses.
                "OMPI_MCA_btl": "^tcp",
                **os.environ,
                STARTER: str(folder),
                # In the workspace, so that the files of a killed mpirun are removed with it.
                "OMPI_MCA_btl_sm_backing_directory": str(folder),
                "PRTE_MCA_prte_tmpdir_base": str(folder),
            },
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            # Ctrl-C must reach only this process, which forwards it to rank 0.
            start_new_session=True,
            pass_fds=[held],
        )
        try:
            began, status = _forward(door, process)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_ENDING if status is not None else _KEEPING)
        finally:
            _end(process)
        if status:
            _print_notice(said)
        if status is None:
            raise _killed(said) if began else _never_began(said, process.returncode)
        return status


def _forward(door: socket.socket, process: "subprocess.Popen[bytes]") -> tuple[bool, int | None]:
    """Pass the terminal and signals to rank 0 until it ends.

    Returns whether rank 0 connected at `door`, and its exit status, or None if it sent none. `process` is mpirun. A
    signal before the connection ends mpirun and raises KeyboardInterrupt.
    """
    pending: list[bytes] = []
    with _listening(lambda number: pending.append(_SIGNALS[signal.Signals(number)])) as ears:
        line = _accept(door, process, ears)
        if line is None:
            return False, None
        with line:
            given = [number for number in (0, 1, 2) if _is_open(number)]
            socket.send_fds(line, [bytes(given)], given)
            while True:
                for sign in pending:
                    with contextlib.suppress(OSError):
                        line.send(sign)
                pending.clear()
                ready, _, _ = select.select([line.fileno(), ears], [], [])
                if ears in ready:
                    os.read(ears, 64)
                if line.fileno() in ready:
                    said = _received(line)
                    return True, said[0] if said else None


def _received(line: socket.socket) -> bytes:
    """Wait for the next message of a socket and return it, at most 16 bytes; empty if the other end has closed."""
    try:
        return line.recv(16)
    except ConnectionError:
        return b""


def _accept(door: socket.socket, process: "subprocess.Popen[bytes]", ears: int) -> socket.socket | None:
    """Wait for the connection of rank 0 and return it; None if mpirun exits before.

    Connections of other users are closed. A signal (`ears` is readable) ends mpirun and raises KeyboardInterrupt.
    """
    while process.poll() is None:
        ready, _, _ = select.select([door], [], [], 0.1)
        if door in ready:
            line, _ = door.accept()
            if _is_ours(line):
                return line
            line.close()
        if select.select([ears], [], [], 0)[0]:
            # Rank 0 has not connected yet, so it cannot be told.
            _end(process)
            raise KeyboardInterrupt
    return None


def _is_ours(line: socket.socket) -> bool:
    """Return whether the process at the other end of a Unix socket belongs to this process's user."""
    _, uid, _ = _PEER.unpack(line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
    return bool(uid == os.geteuid())


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Stop mpirun's process group: SIGTERM lets it clean up; SIGKILL follows after 5 s. Do nothing if it has ended."""
    for number, patience in ((signal.SIGTERM, _STOPPING), (signal.SIGKILL, None)):
        if process.poll() is None:
            os.killpg(process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(patience)


@contextlib.contextmanager
def _listening(collect: Callable[[int], None]) -> Iterator[int]:
    """Pass the numbers of SIGINT, SIGTERM and SIGHUP to `collect`; yield a descriptor that is readable after one.

    The caller reads the descriptor empty. On exit, restores the previous handlers.
    """
    ears, bell = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def handle(number: int, _: FrameType | None) -> None:
        """Collect the signal, and make the descriptor readable."""
        collect(number)
        with contextlib.suppress(BlockingIOError):
            os.write(bell, b".")

    before = {number: signal.signal(number, handle) for number in _SIGNALS}
    try:
        yield ears
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(ears)
        os.close(bell)


def adopt(folder: Path) -> Callable[[int], None]:
    """Take over the terminal and the signals of the process that the user started; only for rank 0.

    `folder` is the workspace with that process's socket; its standard streams replace those of this process. Returns a
    function that sends the exit status to it. If that process dies, this one gets SIGTERM. PermissionError if the
    socket belongs to another user.
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
        """Raise the signals that arrive on the socket in this process; after its end, raise SIGTERM."""
        meaning = {sign: number for number, sign in _SIGNALS.items()}
        while sign := _received(line):
            os.kill(os.getpid(), meaning[sign])
        # Its terminal may be closed too.
        with contextlib.suppress(OSError):
            outlive_readers()
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=hear, name="starter", daemon=True).start()

    def tell(status: int) -> None:
        with contextlib.suppress(OSError):
            line.send(bytes([status & 255]))

    return tell


def _is_open(descriptor: int) -> bool:
    """Return whether a file descriptor of this process is open."""
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def _mpirun() -> list[str]:
    """Return the mpirun command and its options: mpirun next to this Python, else the one in PATH.

    The options of Open MPI allow more ranks than cores. BadInput without mpi4py or mpirun.
    """
    if importlib.util.find_spec("mpi4py") is None:
        raise BadInput("--ranks requires mpi4py, which is not installed", remedy="pip install 'loadframe[mpi]'")
    bundled = Path(sys.executable).parent / "mpirun"
    mpirun = str(bundled) if bundled.exists() else shutil.which("mpirun")
    if mpirun is None:
        raise BadInput(
            "--ranks requires mpirun, which is neither next to this Python nor in PATH",
            remedy="pip install 'loadframe[mpi]', or load the site's MPI module",
        )
    version = subprocess.run([mpirun, "--version"], capture_output=True, text=True, check=False).stdout
    if "Open MPI" not in version:
        return [mpirun]
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    # Ranks share the cores as threads do: no binding, and more ranks than cores are allowed.
    return [mpirun, *root, "--host", f"localhost:{os.cpu_count()}", "--oversubscribe", "--bind-to", "none"]


def _command() -> list[str]:
    """Return this command line: this Python, the script of this process or else `PROGRAM`, and its arguments."""
    script = Path(sys.argv[0])
    return [*([sys.executable, str(script)] if script.is_file() else PROGRAM), *sys.argv[1:]]


def _print_notice(said: IO[bytes]) -> None:
    """Print mpirun's messages about ranks that died, from its output `said`, to standard error."""
    said.seek(0)
    for line in said.read().decode(errors="replace").splitlines():
        if "noticed" in line or "exited on" in line:
            print(f"mpirun: {printable(line.strip())}", file=sys.stderr)


def _killed(said: IO[bytes]) -> GeneratorFailed:
    """Return the error for a rank 0 that connected and ended without a status.

    Its text is a message `loadframe: rank 0 ...` in mpirun's output `said`, or "rank 0 was killed".
    """
    said.seek(0)
    lines = said.read().decode(errors="replace").splitlines()
    words = [line.removeprefix("loadframe: ") for line in lines if line.startswith("loadframe: rank 0 ")]
    return GeneratorFailed(
        words[0] if words else "rank 0 was killed", remedy="check with `dmesg` whether memory ran out"
    )


def _never_began(said: IO[bytes], status: int) -> GeneratorFailed:
    """Return the error for an mpirun that exited with `status` before rank 0 connected.

    It quotes the last eight lines of mpirun's output `said`.
    """
    said.seek(0)
    lines = said.read().decode(errors="replace").strip().splitlines()
    words = "; ".join(line.strip() for line in lines[-8:] if line.strip("- "))
    return GeneratorFailed(
        f"mpirun exited with status {status} before rank 0 started: {words or 'no output'}",
        remedy="test mpirun alone: mpirun -n 2 hostname",
    )


def run(place: Place, command: Callable[[], int], rescue: Callable[[Path], None] = print) -> int:
    """Run as a rank and return the exit status: rank 0 runs the command, the others serve rank 0.

    If the command raises an Exception, rank 0 prints it and returns 1. If rank 0 is killed, `rescue` is called with the
    folder of the current run; by default it is printed.
    """
    starter = os.environ.get(STARTER)
    if starter:
        liveness.stay_local()
        # The lock is held until this process ends.
        hold(Path(starter))
    if place.rank:
        from loadframe.ranks.rank_process import serve

        return serve(place)
    from loadframe.ranks.coordinator import Coordinator
    from loadframe.ranks.protect import protect

    line = protect(place, rescue)
    tell = adopt(Path(starter)) if starter else None
    if tell is None:
        outlive_readers()
    status = 1
    try:
        with Coordinator(place.size, line):
            status = command()
    except Exception:
        # Print it while the terminal is still ours.
        traceback.print_exc()
    if tell:
        sys.stdout.flush()
        tell(status)
    return status
