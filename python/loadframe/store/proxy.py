"""HTTP proxies from the environment, for administrative requests to existing clusters. Load never uses them."""

import base64
import ipaddress
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies_environment, proxy_bypass

from loadframe.base.errors import BadInput
from loadframe.store.access import split_address

#: Ports of proxies without one in their URL, as in curl.
_PORT = 1080


@dataclass(frozen=True)
class Proxy:
    """An HTTP proxy, and the environment variable that names it."""

    host: str
    port: int
    variable: str
    headers: dict[str, str] = field(repr=False)  #: with the credentials, if the URL has them

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


def proxy_for(address: str, scheme: str) -> Proxy | None:
    """Return the proxy for requests to `host:port`, or None for loopback addresses and hosts in NO_PROXY.

    Reads HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY, in upper or lower case. BadInput for a proxy that is not
    supported.
    """
    proxies = getproxies_environment()
    name = scheme if scheme in proxies else "all"
    if name not in proxies or _is_direct(address, proxies.get("no", "")):
        return None
    variable = f"{name.upper()}_PROXY"
    url = proxies[name] if "://" in proxies[name] else f"http://{proxies[name]}"
    parts = urlsplit(url)
    try:
        host, port = parts.hostname, parts.port or _PORT
    except ValueError:
        host, port = None, 0
    if parts.scheme != "http" or not host:
        raise BadInput(
            f"{variable} names a proxy that Loadframe does not support, for requests to {address}",
            where=f"{parts.scheme}://{host or '?'}",
            remedy=f"name an HTTP proxy (http://host:port), or add the host to NO_PROXY: NO_PROXY={_host(address)}",
        )
    headers = {}
    if parts.username is not None:
        login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        headers["Proxy-Authorization"] = f"Basic {base64.b64encode(login.encode()).decode()}"
    return Proxy(host, port, variable, headers)


def _is_direct(address: str, exceptions: str) -> bool:
    """Whether a host is this machine, or in NO_PROXY: a domain, an address, a network (CIDR) or `*`."""
    host = _host(address)
    if host == "localhost" or proxy_bypass(host, {"no": exceptions}):
        return True
    if proxy_bypass(address, {"no": exceptions}):
        return True
    try:
        ip = ipaddress.ip_address(host)
    except ValueError:
        return False
    return ip.is_loopback or any(ip in network for network in _networks(exceptions))


def _networks(exceptions: str) -> list[ipaddress.IPv4Network | ipaddress.IPv6Network]:
    networks = []
    for text in exceptions.split(","):
        if "/" in text:
            try:
                networks.append(ipaddress.ip_network(text.strip(), strict=False))
            except ValueError:
                continue
    return networks


def _host(address: str) -> str:
    return split_address(address)[0]
