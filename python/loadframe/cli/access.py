"""Access to existing clusters: options for addresses, TLS and credentials, named clusters, and consent to data loss."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from loadframe.base.errors import BadInput
from loadframe.base.units import format_count
from loadframe.cli.output import tell
from loadframe.cli.topics import Topic, option

if TYPE_CHECKING:
    from loadframe.cluster import Cluster
    from loadframe.experiment.runner.session import DroppedData
    from loadframe.store import Access, Store
    from loadframe.store.access import Tls

User = Annotated[str | None, option(Topic.CREDENTIALS, help="User name. Loadframe prompts for the password.")]
PasswordFile = Annotated[
    Path | None, option(Topic.CREDENTIALS, help="File with the password. Or set LOADFRAME_PASSWORD.")
]
ApiKeyFile = Annotated[Path | None, option(Topic.CREDENTIALS, help="File with an API key. Or set LOADFRAME_API_KEY.")]
TokenFile = Annotated[Path | None, option(Topic.CREDENTIALS, help="File with a bearer token. Or set LOADFRAME_TOKEN.")]
Ca = Annotated[
    Path | None,
    option(Topic.CREDENTIALS, help="Trust this certificate authority (PEM) instead of the system's."),
]
Cert = Annotated[Path | None, option(Topic.CREDENTIALS, help="Client certificate (PEM).")]
Key = Annotated[Path | None, option(Topic.CREDENTIALS, help="Key of --cert (PEM). Default: in the same file.")]
Insecure = Annotated[
    bool, option(Topic.CREDENTIALS, "--insecure", help="Accept any certificate. The run records this.")
]
Compress = Annotated[bool, option(Topic.CREDENTIALS, "--compress", help="Compress request bodies.")]

#: The default of --store.
DEFAULT_STORE = "opensearch"

#: Parameters of commands that accept all of these options.
_FILES = ("password_file", "api_key_file", "token_file", "ca", "cert", "key")
_PARAMETERS = ("user", *_FILES, "insecure", "compress")


def existing(given: Mapping[str, Any]) -> "tuple[list[str], Access]":
    """Return addresses and access of the cluster at --hosts, from a command's parameters.

    Without --hosts: no addresses, and access without TLS. BadInput if options contradict each other, or require
    --hosts.
    """
    from loadframe.store import OPEN, Access, find
    from loadframe.store.access import endpoints
    from loadframe.store.secrets import credentials

    if given["hosts"] is None:
        for name in _PARAMETERS:
            if given[name]:
                raise BadInput(
                    f"--{name.replace('_', '-')} requires an existing cluster", remedy="give its addresses with --hosts"
                )
        return [], OPEN
    # The context keeps paths as text. Typer converts them only for the command itself.
    files = {name: None if given[name] is None else Path(given[name]) for name in _FILES}
    kind = find(given.get("store") or DEFAULT_STORE)
    _check_scheme(kind, given["hosts"])
    addresses, secure = endpoints(given["hosts"], kind.port, kind.schemes)
    tls = _tls(secure, files["ca"], files["cert"], files["key"], given["insecure"])
    auth = credentials(
        user=given["user"],
        password_file=files["password_file"],
        api_key_file=files["api_key_file"],
        token_file=files["token_file"],
        warn=_warn,
    )
    if auth and tls is None and not all(address.startswith(("127.", "localhost:", "[::1]")) for address in addresses):
        _warn("credentials are sent unencrypted; use https:// if the cluster supports TLS")
    if tls and not tls.verify:
        _warn("certificates are not verified: any server with these addresses is accepted")
    return addresses, Access(tls, auth, given["compress"])


def named(name: str, store: str, context: typer.Context) -> "Cluster":
    """Return the named cluster. BadInput if the user gave --store and the cluster is of another kind."""
    from loadframe.cluster import Cluster
    from loadframe.store import find

    cluster = Cluster.load(name)
    source = context.get_parameter_source("store")
    if source is not None and source.name != "DEFAULT" and find(store).kind != cluster.store.kind:
        raise BadInput(
            f"cluster {name} is {cluster.store.kind}, not {store}",
            remedy="leave --store out: the name identifies the cluster",
        )
    return cluster


def confirm_drop(loss: "DroppedData") -> None:
    """Ask before --replace drops data. BadInput if the user declines, or without a terminal to ask on."""
    collections = ", ".join(f"{name} ({_documents_text(count)})" for name, count in loss.documents.items())
    sentence = f"--replace drops {collections} of {loss.product}"
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise BadInput(
            f"{sentence}, which loadframe did not start",
            where=", ".join(loss.addresses),
            remedy="give --yes to drop them, or --reuse to keep the data",
        )
    tell(f"{sentence} at {', '.join(loss.addresses)}.")
    if not typer.confirm("Drop the data?", err=True):
        raise BadInput("nothing was dropped", remedy="--reuse keeps the data and skips the phases that prepare it")


def _documents_text(count: int | None) -> str:
    if count is None:
        return "not counted"
    return "1 document" if count == 1 else f"{format_count(count)} documents"


def _check_scheme(store: "Store", hosts: str) -> None:
    """Refuse a URL with the scheme of another store, such as `redis://` with --store opensearch."""
    scheme = hosts.strip().partition("://")[0]
    if "://" not in hosts or scheme in ("http", "https", *store.schemes):
        return
    from loadframe.store import stores

    for other in stores().values():
        if scheme in other.schemes:
            raise BadInput(
                f"{scheme}:// is an address of {other.kind}, and --store is {store.kind}",
                where=hosts,
                remedy=f"give --store {other.kind}",
            )


def _tls(secure: bool | None, ca: Path | None, cert: Path | None, key: Path | None, insecure: bool) -> "Tls | None":
    """Return the TLS settings, None without TLS. `secure` is the addresses' scheme, None if they have none."""
    from loadframe.store.access import Tls
    from loadframe.store.secrets import warn_if_open

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
            warn_if_open(key, _warn)
    return Tls(ca, cert, key, verify=not insecure)


def _warn(text: str) -> None:
    tell(text, style="yellow")
