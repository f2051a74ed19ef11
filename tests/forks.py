"""Run commands in processes that are forked from a process with all modules. This saves their imports.

Run as a program, this file is the process that forks. It ends with the process that started it.
"""

import atexit
import contextlib
import functools
import gc
import importlib
import json
import os
import pkgutil
import signal
import socket
import subprocess
import sys
import threading
import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import loadframe

#: Python and the libraries for terminals read these variables when they are imported.
_READ_BY_IMPORTS = ("PYTHON", "LANG", "LC_", "COLUMNS", "LINES", "TERM", "COLORTERM", "NO_COLOR", "FORCE_COLOR", "TTY_")
_LIBRARIES = ("httpx", "pyarrow.parquet", "pymongo", "requests", "rich.console", "rich.table", "scipy.optimize")


def can_fork(environment: Mapping[str, str]) -> bool:
    """Whether a command in this environment behaves the same in a forked process."""
    return _read_by_imports(environment) == _server()[1]


def run(
    command: Sequence[str], environment: Mapping[str, str], folder: Path, timeout: float
) -> subprocess.CompletedProcess[str]:
    """Run the command `loadframe` as `subprocess.run` does with `capture_output` and `text`."""
    pipes = [os.pipe() for _ in range(3)]
    request = {"command": command, "environment": dict(environment), "folder": str(folder.absolute())}
    socket.send_fds(_server()[0], [json.dumps(request).encode()], [end for _, end in pipes])
    for _, end in pipes:
        os.close(end)
    state, stdout, stderr = (os.fdopen(end, encoding="utf-8") for end, _ in pipes)
    with state, stdout, stderr, ThreadPoolExecutor() as pool:
        number = int(state.readline())
        output, errors, status = (pool.submit(stream.read) for stream in (stdout, stderr, state))
        try:
            code = int(status.result(timeout))
        except TimeoutError:
            os.kill(number, signal.SIGKILL)
            raise subprocess.TimeoutExpired(command, timeout) from None
        return subprocess.CompletedProcess(command, code, output.result(), errors.result())


@functools.cache
def _server() -> tuple[socket.socket, dict[str, str]]:
    """Start the process that forks; return its socket and the variables that it has read."""
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with there:
        arguments = [sys.executable, __file__, str(there.fileno())]
        subprocess.Popen(arguments, stdin=subprocess.DEVNULL, pass_fds=[there.fileno()])
    return here, _read_by_imports(os.environ)


def _read_by_imports(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(_READ_BY_IMPORTS)}


def _serve(requests: socket.socket) -> None:
    """Fork a process for each request; return in that process, prepared to run the command."""
    # The kernel removes ended children.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        message, ends, _, _ = socket.recv_fds(requests, 1 << 20, 3)
        if not message:
            os._exit(0)
        state, *outputs = ends
        if not _fork():
            break
        for end in ends:
            os.close(end)
    requests.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    if child := _fork():
        for end in outputs:
            os.close(end)
        os.write(state, f"{child}\n".encode())
        _, status = os.waitpid(child, 0)
        os.write(state, str(os.waitstatus_to_exitcode(status)).encode())
        os._exit(0)
    os.close(state)
    for number, end in enumerate(outputs, start=1):
        os.dup2(end, number)
        os.close(end)
    request = json.loads(message)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    sys.argv = request["command"]


def _exit(code: int) -> None:
    """Exit as Python does, but leave all objects to the kernel, which saves a tenth of a second of CPU time."""
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _fork() -> int:
    with warnings.catch_warnings():
        # The other threads belong to libraries that allow forks: OpenBLAS and jemalloc.
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _build() -> None:
    """Build the validators and templates that commands build on first use: a fifth of a second of CPU time."""
    from loadframe.record import Manifest, Summary
    from loadframe.record.schema.model import from_json
    from loadframe.report import page
    from loadframe.yamlfile import Model

    models = [Model]
    for model in models:
        models += model.__subclasses__()
        model.model_rebuild()
    for record in (Manifest, Summary):
        with contextlib.suppress(ValueError):
            from_json(record, "{}")
    for name in page.environment().list_templates(["j2"]):
        page.environment().get_template(name)


if __name__ == "__main__":
    del sys.path[0]
    for module in pkgutil.walk_packages(loadframe.__path__, "loadframe."):
        importlib.import_module(module.name)
    for name in _LIBRARIES:
        importlib.import_module(name)
    _build()
    # Forked processes share the pages of these objects.
    gc.freeze()
    _serve(socket.socket(fileno=int(sys.argv[1])))
    from loadframe.cli import main

    try:
        main()
    except SystemExit as end:
        _exit(end.code if isinstance(end.code, int) else end.code is not None)
