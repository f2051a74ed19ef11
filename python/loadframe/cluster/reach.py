"""Addresses and access of an existing cluster, from the options of a command or the keys of an experiment."""

import contextlib
import socket
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import loadframe.store as stores
from loadframe.base.errors import BadInput
from loadframe.store import Access, Store
from loadframe.store.access import Tls, endpoints, split_address
from loadframe.store.secrets import credentials, warn_if_open

Warn = Callable[[str], None]
#: Time limit of a connection to an address, s.
_CONNECT_TIMEOUT = 5.0


def access_to(kind: str, hosts: str, given: Mapping[str, Any], warn: Warn) -> tuple[list[str], Access]:
    """Return the `host:port`s of a comma-separated list, and the access to them.

    `given` has the values of the options `user`, `password_file`, `api_key_file`, `token_file`, `ca`, `cert`, `key`,
    `insecure` and `compress`, files as paths; None and False mean not given. BadInput if they contradict each other.
    `warn` receives warnings about unprotected secrets and unverified certificates.
    """
    store = stores.find(kind)
    _check_scheme(store, hosts)
    addresses, secure = endpoints(hosts, store.port, store.schemes)
    tls = _tls(secure, given["ca"], given["cert"], given["key"], given["insecure"], warn)
    auth = credentials(
        user=given["user"],
        password_file=given["password_file"],
        api_key_file=given["api_key_file"],
        token_file=given["token_file"],
        warn=warn,
    )
    if auth and tls is None and not all(address.startswith(("127.", "localhost:", "[::1]")) for address in addresses):
        warn("credentials are sent unencrypted; use https:// if the cluster supports TLS")
    if tls and not tls.verify:
        warn("certificates are not verified: any server with these addresses is accepted")
    return addresses, Access(tls, auth, given["compress"])


def require_reachable(addresses: Sequence[str]) -> None:
    """Raise BadInput, with all addresses that do not accept connections, if there are any."""
    refused = []
    for address in addresses:
        try:
            socket.create_connection(split_address(address), timeout=_CONNECT_TIMEOUT).close()
        except OSError as error:
            refused.append(f"{address}: {error.strerror or error}")
    if refused:
        raise BadInput(
            f"cannot connect to {'; '.join(refused)}",
            where="--hosts",
            remedy="start the node, or remove its address",
        )


def share_a_node(hosts: Collection[str], others: Collection[str]) -> bool:
    """Return whether two lists of `host:port` share a node, even if they use different names of its host."""
    return not _resolved(hosts).isdisjoint(_resolved(others))


def _resolved(addresses: Collection[str]) -> set[str]:
    """Return the addresses, and those with the IP addresses of their hosts."""
    resolved = set(addresses)
    for address in addresses:
        # The host of an old ledger may be unknown by now.
        with contextlib.suppress(OSError, UnicodeError, BadInput):
            host, port = split_address(address)
            resolved |= {f"{ip}:{port}" for *_, (ip, *_) in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)}
    return resolved


def _check_scheme(store: Store, hosts: str) -> None:
    """Refuse a URL with the scheme of another store, such as `redis://` with --store opensearch."""
    scheme = hosts.strip().partition("://")[0]
    if "://" not in hosts or scheme in ("http", "https", *store.schemes):
        return
    for other in stores.stores().values():
        if scheme in other.schemes:
            raise BadInput(
                f"{scheme}:// is an address of {other.kind}, and --store is {store.kind}",
                where=hosts,
                remedy=f"give --store {other.kind}",
            )


def _tls(
    secure: bool | None, ca: Path | None, cert: Path | None, key: Path | None, insecure: bool, warn: Warn
) -> Tls | None:
    """Return the TLS settings, None without TLS. `secure` is the addresses' scheme, None if they have none."""
    given = next((name for name, value in (("--ca", ca), ("--cert", cert), ("--insecure", insecure)) if value), None)
    if key and not cert:
        raise BadInput("--key requires --cert", remedy="give --cert, too")
    if given and secure is False:
        raise BadInput(f"{given} requires TLS, and the addresses start with http://", remedy="write https://")
    if ca and insecure:
        raise BadInput("--ca and --insecure contradict each other: one verifies certificates, the other does not")
    if not (given or secure):
        return None
    if cert:
        key = key or cert
        if key.exists():
            warn_if_open(key, warn)
    return Tls(ca, cert, key, verify=not insecure)
