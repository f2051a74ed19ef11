"""Settings of an instance from its environment; see docs/reference/experiment-file.md."""

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Settings:
    """All of it."""

    instance: str
    address: str  #: host:port at which the other instances reach this one
    secret: str  #: signs tokens; the same for all instances
    stores: tuple[str, ...]  #: kinds; usually the first has activities and achievements, the last everything else
    hosts: dict[str, tuple[str, ...]]  #: kind -> host:port of each node
    logins: dict[str, tuple[str, str]]  #: kind -> user and password, of stores that authenticate their clients
    placement: str  #: collections that are not on their default store
    refresh: str
    shards: int
    replicas: int
    routing: bool  #: whether a user's documents are in one shard
    merge: bool
    user_index: bool
    token_seconds: float
    record: Path | None  #: file for one line per request


def _routing(word: str) -> bool:
    """Return whether documents are routed by user; ValueError for an unknown word."""
    if word not in ("none", "user"):
        raise ValueError(f"routing must be none or user; got {word!r}")
    return word == "user"


def read() -> Settings:
    """Return the settings from the environment."""
    stores = tuple(os.environ["STORES"].split())
    data = Path(os.environ["DATA"])
    logins = {kind: f"STORE_{kind.upper()}" for kind in stores if f"STORE_{kind.upper()}_USER" in os.environ}
    return Settings(
        instance=os.environ["INSTANCE"],
        address=os.environ["ADDRESS"],
        secret=os.environ["SECRET"],
        stores=stores,
        hosts={kind: tuple(os.environ[f"STORE_{kind.upper()}_NODES"].split()) for kind in stores},
        logins={kind: (os.environ[f"{name}_USER"], os.environ[f"{name}_PASSWORD"]) for kind, name in logins.items()},
        placement=os.environ["SETTING_PLACEMENT"],
        refresh=os.environ["SETTING_REFRESH"],
        shards=int(os.environ["SETTING_SHARDS"]),
        replicas=int(os.environ["SETTING_REPLICAS"]),
        routing=_routing(os.environ["SETTING_ROUTING"]),
        merge=os.environ["SETTING_MERGE"] == "true",
        user_index=os.environ["SETTING_USER_INDEX"] == "true",
        token_seconds=float(os.environ["SETTING_TOKEN_SECONDS"]),
        record=data / "requests.jsonl" if os.environ["SETTING_RECORD"] == "true" else None,
    )
