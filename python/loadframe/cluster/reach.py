"""Access to an existing cluster: addresses and secrets, from the options of a command or the keys of an experiment.

Command-line options never contain secrets, because all users of the machine can read command lines.
"""

import contextlib
import getpass
import os
import re
import socket
import stat
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import loadframe.store as stores
from loadframe.base.errors import BadInput
from loadframe.base.untrusted import read_input
from loadframe.cluster.aws import AwsOptions, sign
from loadframe.store import OPEN, Access, Store
from loadframe.store.access import Auth, Scheme, Tls, endpoints, split_address
from loadframe.store.web import Proxy, proxy_for

PASSWORD = "LOADFRAME_PASSWORD"
API_KEY = "LOADFRAME_API_KEY"
TOKEN = "LOADFRAME_TOKEN"

#: Size limit of a file with a secret, bytes.
_MAX_SIZE = 1 << 20

Warn = Callable[[str], None]


def credentials(
    *,
    user: str | None,
    password_file: Path | None,
    api_key_file: Path | None,
    token_file: Path | None,
    warn: Warn,
    aws: AwsOptions | None = None,
    environment: Mapping[str, str] = os.environ,
) -> Auth | None:
    """Return the credentials from the options, or else from the environment, or None.

    A user's password is read from the terminal if neither has it. BadInput for contradictory or incomplete
    credentials. `warn` receives a warning for files that other users can read.
    """
    schemes = [
        option
        for option, value in (("--user", user), ("--api-key-file", api_key_file), ("--token-file", token_file))
        if value is not None
    ]
    if aws and aws.given:
        schemes.append(aws.given)
    if len(schemes) > 1:
        raise BadInput(f"{' and '.join(schemes)} exclude each other", remedy="give one of them")
    if password_file and user is None:
        raise BadInput("--password-file requires --user", remedy="give --user, too")
    if aws and aws.given:
        return sign(aws, partial(warn_if_open, warn=warn), environment)
    if user is not None:
        return _basic(user, password_file, warn, environment)
    if api_key_file:
        return Auth(
            "api_key", _visible(read_secret(api_key_file, warn), str(api_key_file)), file=_renewable(api_key_file)
        )
    if token_file:
        return Auth("bearer", _visible(read_secret(token_file, warn), str(token_file)), file=_renewable(token_file))
    key, token = environment.get(API_KEY), environment.get(TOKEN)
    if key and token:
        raise BadInput(f"the environment has both {API_KEY} and {TOKEN}", remedy="unset one of them")
    if key:
        return Auth("api_key", _visible(key, API_KEY))
    return Auth("bearer", _visible(token, TOKEN)) if token else None


def read_secret(file: Path, warn: Warn) -> str:
    """Return the secret in a file, without the line's end; BadInput if the file is unreadable, no text or empty.

    `warn` is called if other users can read the file.
    """
    try:
        text = read_input(file, _MAX_SIZE).decode().rstrip("\r\n")
    except UnicodeDecodeError:
        raise BadInput("cannot read the secret: the file is not text", where=str(file)) from None
    except BadInput as error:
        why = error.what.removeprefix("cannot read the file: ")
        raise BadInput(f"cannot read the secret: {why}", where=str(file), remedy=error.remedy) from None
    warn_if_open(file, warn)
    if not text:
        raise BadInput("the file is empty", where=str(file), remedy="store the secret in it, and nothing else")
    return text


def warn_if_open(file: Path, warn: Warn) -> None:
    """Warn if other users of this machine can read a file that holds a secret; OSError if the file is missing."""
    mode = file.stat().st_mode
    if mode & (stat.S_IRGRP | stat.S_IROTH):
        warn(f"other users can read the secret in {file} (mode {stat.S_IMODE(mode):o}): run chmod 600 {file}")


def _basic(user: str, password_file: Path | None, warn: Warn, environment: Mapping[str, str]) -> Auth:
    """Return the credentials of a user with the password from the file, LOADFRAME_PASSWORD, or a prompt.

    BadInput if there is no terminal, or the user name contains a colon.
    """
    if ":" in user:
        raise BadInput(
            "a user name cannot contain a colon",
            where="--user",
            remedy=f"give a password in --password-file or {PASSWORD}, since all users can read command lines",
        )
    if password_file:
        return Auth("basic", read_secret(password_file, warn), user, file=_renewable(password_file))
    password = environment.get(PASSWORD)
    if password is None:
        if not sys.stdin.isatty():
            raise BadInput(
                f"no password for {user}, and no terminal to read it from",
                remedy=f"give --password-file, or set {PASSWORD}",
            )
        password = getpass.getpass(f"Password for {user}: ")
    return Auth("basic", password, user)


def _renewable(file: Path) -> Path | None:
    """Return the path of a file that can be read again, or None for a pipe."""
    return file.absolute() if file.is_file() else None


def _visible(secret: str, where: str) -> str:
    """Return the secret; BadInput, with `where`, unless it has only visible ASCII characters, as in HTTP headers."""
    if not all("!" <= character <= "~" for character in secret):
        raise BadInput(
            "the secret contains spaces, line breaks or non-ASCII characters", where=where, remedy="copy it again"
        )
    return secret


#: Time limit of a connection to an address, s.
_CONNECT_TIMEOUT = 5.0
#: The greeting (see `Store`) for all stores that are administered by HTTP.
_HTTP = b"GET / HTTP/1.0\r\n\r\n"


def access_to(kind: str, hosts: str, given: Mapping[str, Any], warn: Warn) -> tuple[list[str], Access]:
    """Return the `host:port`s of a comma-separated list, and the access to them.

    `given` has the values of the options `user`, `password_file`, `api_key_file`, `token_file`, `aws_service`,
    `aws_region`, `aws_profile`, `ca`, `cert`, `key`, `insecure` and `compress`, files as paths; absent ones, None and
    False mean not given. BadInput if they contradict each other.
    `warn` receives warnings about unprotected secrets and unverified certificates.
    """
    store = stores.find(kind)
    _check_scheme(store, hosts)
    addresses, secure = endpoints(hosts, store.port, store.schemes)
    get = given.get
    tls = _tls(secure, get("ca"), get("cert"), get("key"), bool(get("insecure")), warn)
    _check_support(store, given, tls)
    auth = credentials(
        user=get("user"),
        password_file=get("password_file"),
        api_key_file=get("api_key_file"),
        token_file=get("token_file"),
        aws=AwsOptions(get("aws_service"), get("aws_region"), get("aws_profile"), addresses),
        warn=warn,
    )
    if auth and tls is None and not all(address.startswith(("127.", "localhost:", "[::1]")) for address in addresses):
        warn("credentials are sent unencrypted; use https:// if the cluster supports TLS")
    if tls and not tls.verify:
        warn("certificates are not verified: any server with these addresses is accepted")
    access = Access(tls, auth, bool(get("compress")))
    if not (store.speaks_http and (proxied := _proxied(addresses, access.scheme))):
        return addresses, access
    proxy = proxied[0][1]
    hosts = ",".join(split_address(address)[0] for address, _ in proxied)
    warn(
        f"{proxy.variable} applies: administrative requests go through the proxy {proxy}, load connects directly; set "
        f"NO_PROXY={hosts} to send both directly"
    )
    return addresses, replace(access, proxied=True)


def _proxied(addresses: Sequence[str], scheme: str) -> list[tuple[str, Proxy]]:
    """Return (address, proxy) for each address for which the environment names a proxy; `scheme`: http or https."""
    return [(address, proxy) for address in addresses if (proxy := proxy_for(address, scheme))]


def require_reachable(addresses: Sequence[str], access: Access = OPEN) -> None:
    """Raise BadInput, with all addresses that do not accept connections within 5 s, if there are any.

    Uses no proxy. `access` is only for the remedy.
    """
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
            remedy="load does not go through the proxy: run it where the address can be reached directly"
            if access.proxied
            else "start the node, or correct its address",
        )


def require_protocol(store: Store, addresses: Sequence[str]) -> None:
    """Raise BadInput if the first address speaks the protocol of another store than `store`. Uses no TLS and no proxy.

    A server whose protocol is not recognized is accepted, and so is any server if the store has no known protocol.
    """
    kinds = {other.kind: other.greeting for other in stores.stores().values() if other.greeting}
    expected = "HTTP" if store.speaks_http else store.kind
    if expected != "HTTP" and expected not in kinds:
        return
    protocol = _protocol(addresses[0], kinds, kinds[store.kind][0] if store.kind in kinds else _HTTP)
    if protocol is None or protocol == expected:
        return
    spoken, option = f"the protocol of {protocol}", f"--store {protocol}"
    if protocol not in kinds:
        spoken, option = protocol, "the --store of its product"
    raise BadInput(
        f"this server speaks {spoken}, not {'HTTP' if store.speaks_http else f'the protocol of {store.kind}'}",
        where=addresses[0],
        remedy=f"give {option}, or correct the address",
    )


def _protocol(address: str, greetings: Mapping[str, tuple[bytes, bytes]], expected: bytes) -> str | None:
    """Return the name of the greeting that a server answers, or `HTTP`; None if it is not recognized or silent.

    `greetings` are name -> (bytes to send, pattern of the answer). Sends the greeting `expected` first, so that a
    server of the expected product gets no other.
    """
    protocols: dict[bytes, dict[str, bytes]] = {expected: {}, _HTTP: {}}
    # Text first: servers of text protocols wait for the end of a line in binary greetings.
    for name, (greeting, pattern) in sorted(greetings.items(), key=lambda entry: not entry[1][0].endswith(b"\n")):
        protocols.setdefault(greeting, {})[name] = pattern
    # Last, because MongoDB answers HTTP with a hint.
    protocols[_HTTP]["HTTP"] = rb"HTTP/\d"
    for greeting, patterns in protocols.items():
        answer = _answer(address, greeting)
        for name, pattern in patterns.items():
            if re.match(pattern, answer):
                return name
    return None


def _answer(address: str, greeting: bytes) -> bytes:
    """Return up to 4 KiB of a server's answer to the first bytes of a connection; empty without one within 1 s."""
    with contextlib.suppress(OSError), socket.create_connection(split_address(address), timeout=1.0) as connection:
        connection.sendall(greeting)
        return connection.recv(4096)
    return b""


def share_a_node(hosts: Collection[str], others: Collection[str]) -> bool:
    """Return whether two lists of `host:port` share a node, even if they use different names of its host."""
    return not _resolved(hosts).isdisjoint(_resolved(others))


def _resolved(addresses: Collection[str]) -> set[str]:
    """Return the addresses, and the same addresses with each IP address of their hosts instead.

    A host that cannot be resolved adds none.
    """
    resolved = set(addresses)
    for address in addresses:
        # The host of an old ledger may be unknown by now.
        with contextlib.suppress(OSError, UnicodeError, BadInput):
            host, port = split_address(address)
            resolved |= {f"{ip}:{port}" for *_, (ip, *_) in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)}
    return resolved


def _check_scheme(store: Store, hosts: str) -> None:
    """Raise BadInput for a URL with the scheme of another store, such as `redis://` with --store opensearch."""
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


#: The options of each scheme of credentials.
_SCHEMES: Mapping[Scheme, Sequence[str]] = {
    "basic": ("user",),
    "api_key": ("api_key_file",),
    "bearer": ("token_file",),
    "aws": ("aws_service", "aws_region", "aws_profile"),
}


def _check_support(store: Store, given: Mapping[str, Any], tls: Tls | None) -> None:
    """Raise the store's BadInput for options that it does not support, before secrets are read."""
    schemes = [scheme for scheme, options in _SCHEMES.items() if any(given.get(name) for name in options)]
    for scheme in schemes or (None,):
        store.with_access(Access(tls, scheme and Auth(scheme, "", ""), bool(given.get("compress"))))


def _tls(
    secure: bool | None, ca: Path | None, cert: Path | None, key: Path | None, insecure: bool, warn: Warn
) -> Tls | None:
    """Return the TLS settings, None without TLS; BadInput if the options contradict each other or the addresses.

    `secure` is whether the addresses request TLS, None if they do not say; without it, `ca`, `cert` or `insecure` (no
    verification of certificates) turn TLS on. `warn` is called for a key file that other users can read.
    """
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
