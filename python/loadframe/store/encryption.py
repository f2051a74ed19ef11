"""Encryption of a cluster that Loadframe starts, and the certificates of its nodes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from loadframe.base.errors import BadInput

#: Paths of a node's TLS files in its folder.
FOLDER = "config/tls"
AUTHORITY = f"{FOLDER}/authority.pem"
CERTIFICATE = f"{FOLDER}/certificate.pem"
KEY = f"{FOLDER}/key.pem"
#: Certificate and key in one file, for servers that need it.
BUNDLE = f"{FOLDER}/node.pem"


class Encryption(StrEnum):
    """Connections that use TLS: client connections (`http`), connections between nodes (`transport`), or both."""

    NONE = "none"
    HTTP = "http"
    TRANSPORT = "transport"
    BOTH = "both"

    @property
    def any(self) -> bool:
        """Whether anything is encrypted."""
        return self is not Encryption.NONE

    @property
    def clients(self) -> bool:
        """Whether client connections use TLS."""
        return self in (Encryption.HTTP, Encryption.BOTH)

    @property
    def nodes(self) -> bool:
        """Whether connections between nodes use TLS."""
        return self in (Encryption.TRANSPORT, Encryption.BOTH)


def refuse_settings(encryption: Encryption, settings: Mapping[str, Any], decided: Callable[[str], bool]) -> None:
    """BadInput for a setting that Loadframe controls when it encrypts; `decided` recognizes such settings."""
    for name in settings if encryption.any else ():
        if decided(name):
            raise BadInput(
                f"with encryption: {encryption}, Loadframe controls the setting {name}",
                where=str(settings[name]),
                remedy="leave the setting out, or leave encryption out and encrypt with settings",
            )


@dataclass(frozen=True)
class Certificates:
    """A node's certificate and key, and its trusted authority, as PEM."""

    authority: str  #: certificate of the cluster's authority
    certificate: str
    key: str = field(repr=False)  #: PKCS #8, without a password

    def files(self, *, bundled: bool = False) -> dict[str, str]:
        """Return the files by path in the node's folder; `bundled` joins certificate and key."""
        if bundled:
            return {AUTHORITY: self.authority, BUNDLE: self.certificate + self.key}
        return {AUTHORITY: self.authority, CERTIFICATE: self.certificate, KEY: self.key}
