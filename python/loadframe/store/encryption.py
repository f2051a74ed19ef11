"""What is encrypted of a cluster that is started here, and the certificate that each of its nodes gets for that."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from loadframe.base.errors import BadInput

#: The folder of a node's certificate, below its own, and the files there.
FOLDER = "config/tls"
AUTHORITY = f"{FOLDER}/authority.pem"
CERTIFICATE = f"{FOLDER}/certificate.pem"
KEY = f"{FOLDER}/key.pem"
#: The certificate and its key in one file, as some servers want them.
BUNDLE = f"{FOLDER}/node.pem"


class Encryption(StrEnum):
    """Which connections go by TLS: those of clients (`http`, the word of search engines), those between nodes, both."""

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
        """Whether clients connect by TLS."""
        return self in (Encryption.HTTP, Encryption.BOTH)

    @property
    def nodes(self) -> bool:
        """Whether nodes connect to each other by TLS."""
        return self in (Encryption.TRANSPORT, Encryption.BOTH)


def refuse_settings(encryption: Encryption, settings: Mapping[str, Any], decided: Callable[[str], bool]) -> None:
    """BadInput for a setting that loadframe decides where it encrypts, which the user's own would contradict."""
    for name in settings if encryption.any else ():
        if decided(name):
            raise BadInput(
                f"with encryption: {encryption} the setting {name} is loadframe's to decide",
                where=str(settings[name]),
                remedy="leave the setting out, or leave encryption out and encrypt by settings alone",
            )


@dataclass(frozen=True)
class Certificates:
    """A node's certificate and key, and the authority that it trusts, as PEM."""

    authority: str  #: the certificate of the cluster's authority
    certificate: str
    key: str = field(repr=False)  #: in PKCS #8, without a password

    def files(self, *, bundled: bool = False) -> dict[str, str]:
        """Return a node's files, by their paths in its folder."""
        if bundled:
            return {AUTHORITY: self.authority, BUNDLE: self.certificate + self.key}
        return {AUTHORITY: self.authority, CERTIFICATE: self.certificate, KEY: self.key}
