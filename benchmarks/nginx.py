"""nginx on loopback with a fixed answer, fast enough that the client is the bottleneck."""

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from loadframe.base.errors import BadInput, LoadframeError

#: Answer of an empty search, about as long as a short answer of a real store.
ANSWER = (
    '{"took":1,"timed_out":false,"_shards":{"total":1,"successful":1,"skipped":0,"failed":0},'
    '"hits":{"total":{"value":0,"relation":"eq"},"max_score":null,"hits":[]}}'
)

_CONFIGURATION = """\
daemon off;
master_process off;
pid {folder}/pid;
error_log stderr crit;
events {{ worker_connections 4096; }}
http {{
    access_log off;
    keepalive_requests 1000000000;
    keepalive_timeout 600s;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    server {{
        listen 127.0.0.1:{port}{protocol};
        default_type application/json;
        location / {{ return 200 '{answer}'; }}
        location /files/ {{ root {folder}; }}
    }}
}}
"""

#: Unprivileged user of every Linux system, used when running as root.
_NOBODY = 65534


@contextmanager
def serving(core: int, *, http2: bool = False, files: Mapping[str, bytes] | None = None) -> Iterator[str]:
    """Serve the fixed answer, and `files` below `/files/`, from one process on one core; yield `host:port`.

    Stops nginx at the end. With `http2`, only unencrypted HTTP/2 is supported.
    """
    # Debian installs it outside of the PATH of normal users.
    program = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if program is None:
        raise BadInput("nginx is not installed", remedy="apt-get install nginx-light, and stop its service")
    harness = _harness(core)
    with tempfile.TemporaryDirectory() as name, socket.socket() as free:
        folder = Path(name)
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
        free.close()
        configuration = folder / "nginx.conf"
        configuration.write_text(
            _CONFIGURATION.format(
                folder=folder, port=address.rpartition(":")[2], protocol=" http2" * http2, answer=ANSWER
            ),
            encoding="utf-8",
        )
        (folder / "files").mkdir()
        for file, content in (files or {}).items():
            (folder / "files" / file).write_bytes(content)
        if os.geteuid() == 0:
            os.chown(folder, _NOBODY, _NOBODY)
        command = [*harness, program, "-e", "stderr", "-p", str(folder), "-c", str(configuration)]
        server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        try:
            _wait(server, address)
            yield address
        finally:
            server.kill()
            server.communicate()


def _harness(core: int) -> list[str]:
    """Return the command prefix that pins a process to a core, drops root, and kills it with this process."""
    pin, drop = shutil.which("taskset"), shutil.which("setpriv")
    if pin is None or drop is None:
        raise BadInput("taskset or setpriv is not installed", remedy="apt-get install util-linux")
    rights = ["--reuid", str(_NOBODY), "--regid", str(_NOBODY), "--clear-groups"] if os.geteuid() == 0 else []
    return [pin, "-c", str(core), drop, "--pdeathsig", "KILL", *rights]


def _wait(server: subprocess.Popen[str], address: str) -> None:
    host, _, port = address.rpartition(":")
    for _ in range(100):
        if server.poll() is not None:
            _, words = server.communicate()
            raise LoadframeError(f"nginx did not start: {words.strip()}")
        try:
            socket.create_connection((host, int(port)), timeout=1).close()
            return
        except OSError:
            time.sleep(0.05)
    raise LoadframeError("nginx does not answer", where=address)
