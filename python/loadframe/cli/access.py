"""The options that say how an existing cluster is reached: its addresses, TLS, and who asks."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from loadframe.cli.output import tell
from loadframe.errors import BadInput

if TYPE_CHECKING:
    from loadframe.store import Access, Store
    from loadframe.store.access import Tls

_PANEL = "Secured clusters (with --hosts)"

User = Annotated[str | None, typer.Option(help="Ask as this user; the password is asked for.", rich_help_panel=_PANEL)]
PasswordFile = Annotated[
    Path | None, typer.Option(help="The file with the password; or LOADFRAME_PASSWORD.", rich_help_panel=_PANEL)
]
ApiKeyFile = Annotated[
    Path | None, typer.Option(help="The file with an API key; or LOADFRAME_API_KEY.", rich_help_panel=_PANEL)
]
TokenFile = Annotated[
    Path | None, typer.Option(help="The file with a bearer token; or LOADFRAME_TOKEN.", rich_help_panel=_PANEL)
]
Ca = Annotated[
    Path | None,
    typer.Option(help="Trust this authority (PEM) and not the system's.", rich_help_panel=_PANEL),
]
Cert = Annotated[Path | None, typer.Option(help="The client's certificate (PEM).", rich_help_panel=_PANEL)]
Key = Annotated[Path | None, typer.Option(help="Its key (PEM); in the same file if not given.", rich_help_panel=_PANEL)]
Insecure = Annotated[
    bool, typer.Option("--insecure", help="Believe any certificate; runs are marked.", rich_help_panel=_PANEL)
]
Compress = Annotated[bool, typer.Option("--compress", help="Compress bodies of requests.", rich_help_panel=_PANEL)]


#: The kind of store where none is named.
DEFAULT_STORE = "opensearch"

#: The parameters of a command that takes all of these, by name, and their options.
_OPTIONS = {
    name: f"--{name.replace('_', '-')}"
    for name in (
        "user",
        "password_file",
        "api_key_file",
        "token_file",
        "ca",
        "cert",
        "key",
        "insecure",
        "compress",
    )
}


#: Those that are files.
_FILES = ("password_file", "api_key_file", "token_file", "ca", "cert", "key")


def existing(given: Mapping[str, Any]) -> "tuple[list[str], Access]":
    """Return the hosts and how they are reached, from a command's parameters; none, and in the clear, without hosts.

    BadInput for options that contradict each other, or that say something about a cluster that is not named.
    """
    from loadframe.store import OPEN, Access, find
    from loadframe.store.access import endpoints
    from loadframe.store.secrets import credentials

    if given["hosts"] is None:
        for name, option in _OPTIONS.items():
            if given[name]:
                raise BadInput(f"{option} is about a cluster that is there already", remedy="name it with --hosts")
        return [], OPEN
    # Typer hands paths to the command itself as Path, but keeps them among its parameters as they were typed.
    files = {name: None if given[name] is None else Path(given[name]) for name in _FILES}
    kind = find(given.get("store") or DEFAULT_STORE)
    _require_scheme_of(kind, given["hosts"])
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
        _warn("who asks is sent in the clear, and everybody on the way can read it: write https:// if the cluster can")
    if tls and not tls.verify:
        _warn("certificates are not verified: whoever answers is believed")
    return addresses, Access(tls, auth, given["compress"])


def _require_scheme_of(kind: "Store", hosts: str) -> None:
    """BadInput for a URL with a scheme of another store, such as `redis://` where OpenSearch is to be measured."""
    scheme = hosts.strip().partition("://")[0]
    if "://" not in hosts or scheme in ("http", "https", *kind.schemes):
        return
    from loadframe.store import stores

    for other in stores().values():
        if scheme in other.schemes:
            raise BadInput(
                f"{scheme}:// is an address of {other.kind}, and the store to ask is {kind.kind}",
                where=hosts,
                remedy=f"give --store {other.kind}",
            )


def _tls(secure: bool | None, ca: Path | None, cert: Path | None, key: Path | None, insecure: bool) -> "Tls | None":
    from loadframe.store.access import Tls
    from loadframe.store.secrets import warn_if_open

    asked = next((name for name, value in (("--ca", ca), ("--cert", cert), ("--insecure", insecure)) if value), None)
    if key and not cert:
        raise BadInput("--key is the key of no certificate", remedy="give --cert, too")
    if asked and secure is False:
        raise BadInput(f"{asked} is about TLS, and the hosts are asked without it", remedy="write https://")
    if ca and insecure:
        raise BadInput("--ca and --insecure contradict each other: one verifies, the other does not")
    if not (asked or secure):
        return None
    if cert:
        key = key or cert
        if key.exists():
            warn_if_open(key, _warn)
    return Tls(ca, cert, key, verify=not insecure)


def _warn(text: str) -> None:
    tell(text, style="yellow")
