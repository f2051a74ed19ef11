"""What a workload file says of the encryption of its values."""

import re
from typing import Annotated

from pydantic import AfterValidator

from loadframe.yamlfile import Model, shown, wrong


def _key(value: str) -> str:
    if not re.fullmatch(r"[0-9A-Fa-f]{32}", value):
        raise wrong(f"{shown(value)} is not a key", "give 32 hexadecimal digits")
    return value


class ClientEncryption(Model):
    """Whether values are encrypted before the store gets them, and the key of AES-128.

    The key stands in the manifest, since runs must be repeatable: it must not be one that protects anything.
    """

    enabled: bool
    key: Annotated[str, AfterValidator(_key)] = "000102030405060708090a0b0c0d0e0f"
