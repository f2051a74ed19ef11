"""Reference benchmarks of the machine's disk and loopback network; `base.cpu` has the one of its processor."""

import os
import socket
import tempfile
import threading
import time
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
    """Measure the speed of one TCP connection over loopback, B/s: 64 MiB. OSError if it cannot."""
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
    try:
        for _ in range(_TRANSFER):
            sender.sendall(data)
    except OSError:
        # The receiver reports the missing bytes.
        sender.close()
