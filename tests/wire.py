"""Traffic to a port of a cluster that loadframe encrypts."""

import contextlib
import socket
import ssl
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from loadframe.cluster import credentials

_PATIENCE = 10.0


def speaks_tls(address: str, vouching: Path) -> bool:
    """Whether a handshake succeeds there, with a certificate for that very address by the authority in that file.

    We show a certificate of the cluster's own, as its nodes want of each other. SSLCertVerificationError where the
    node's does not verify.
    """
    host, _, port = address.rpartition(":")
    context = ssl.create_default_context(cafile=vouching)
    context.load_cert_chain(*_of_a_node(vouching))
    with socket.create_connection((host, int(port)), _PATIENCE) as connection:
        try:
            with context.wrap_socket(connection, server_hostname=host):
                return True
        except ssl.SSLCertVerificationError:
            raise
        except (ssl.SSLError, OSError):
            return False


def hangs_up_on(address: str, words: bytes) -> bool:
    """Return whether the server ends a connection after these plain bytes, with a TLS alert or without data."""
    host, _, port = address.rpartition(":")
    answer = b""
    with socket.create_connection((host, int(port)), _PATIENCE) as connection:
        connection.sendall(words)
        with contextlib.suppress(ConnectionResetError):
            while piece := connection.recv(4096):
                answer += piece
    # A record of TLS that is an alert begins with 21.
    return not answer or answer[0] == 21


@cache
def _folder() -> "TemporaryDirectory[str]":
    return TemporaryDirectory(prefix="loadframe-wire-")


@cache
def _of_a_node(vouching: Path) -> tuple[Path, Path]:
    """Return the files of a certificate as a node gets one, and of its key."""
    certificates = credentials.certify(vouching.parent.parent, "test", "127.0.0.1")
    folder = Path(_folder().name) / vouching.parent.parent.name
    folder.mkdir()
    for name, text in (("certificate.pem", certificates.certificate), ("key.pem", certificates.key)):
        (folder / name).write_text(text)
    return folder / "certificate.pem", folder / "key.pem"
