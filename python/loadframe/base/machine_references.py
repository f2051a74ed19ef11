"""CPU affinity, and reference benchmarks of the processor, the disk and the loopback network."""

import contextlib
import os
import random
import socket
import tempfile
import threading
import time
import zlib
from collections.abc import Collection, Iterator
from pathlib import Path

_BLOCK = 1 << 20
#: Size of the file, and of the transfer over loopback, in blocks.
_FILE, _TRANSFER = 16, 64
_TIMEOUT = 30.0


def disk_reference(folder: Path) -> float:
    """Measure the speed of synchronised writes in a folder, B/s: 16 MiB, one fsync per MiB. OSError if it cannot."""
    data = os.urandom(_BLOCK)
    with tempfile.TemporaryFile(dir=folder) as file:
        begin = time.perf_counter()
        for _ in range(_FILE):
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        return _FILE * _BLOCK / (time.perf_counter() - begin)


def network_reference() -> float:
    """Measure the speed of one TCP connection over loopback, B/s: 64 MiB. Blocks for the transfer.

    OSError if it fails, or if a socket waits for more than 30 s.
    """
    data = bytes(_BLOCK)
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(_TIMEOUT)
        with socket.create_connection(server.getsockname(), _TIMEOUT) as sender:
            receiver, _ = server.accept()
            receiver.settimeout(_TIMEOUT)
            begin = time.perf_counter()
            thread = threading.Thread(target=_send, args=(sender, data))
            thread.start()
            with receiver:
                received = 0
                while received < _TRANSFER * _BLOCK and (chunk := receiver.recv(_BLOCK)):
                    received += len(chunk)
            seconds = time.perf_counter() - begin
            thread.join()
    if received < _TRANSFER * _BLOCK:
        raise OSError("the loopback connection closed")
    return received / seconds


def _send(sender: socket.socket, data: bytes) -> None:
    """Send `data`, 1 MiB, 64 times; close the socket if that fails."""
    try:
        for _ in range(_TRANSFER):
            sender.sendall(data)
    except OSError:
        # The receiver reports the missing bytes.
        sender.close()


#: Compression uses branches, arithmetic and a table of some hundred KiB, like the work of a store.
_BYTES = 1 << 16
_PIECES = 15


def yardstick() -> float:
    """Return the CPU time of a fixed computation, s: the median of 15 pieces, measured now, which takes about 25 ms.

    It shows slowdowns that other metrics do not, such as a hot or shared processor without stolen time. Results are
    comparable only on the same machine with the same Python.
    """
    data = bytes(random.Random(7).choices(range(64), k=_BYTES))
    return sorted(_piece(data) for _ in range(_PIECES))[_PIECES // 2]


def _piece(data: bytes) -> float:
    """Compress the data once and return this thread's CPU time for it, s."""
    before = time.thread_time()
    zlib.compress(data)
    return time.thread_time() - before


@contextlib.contextmanager
def on(cores: Collection[int] | None) -> Iterator[None]:
    """Run this thread, in the block, and threads that it starts there on these cores.

    Cores that this process may not use are ignored; OSError if it may use none of them. Without cores (None or empty),
    changes nothing. Afterwards this thread has its old cores again; threads that were started inside keep theirs.
    """
    before = os.sched_getaffinity(0)
    if cores:
        os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
