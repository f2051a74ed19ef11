"""Command-line options in messages, replaced by the keys of an experiment file with the same meaning."""

import contextlib
import re
from collections.abc import Iterator

from loadframe.base.errors import LoadframeError
from loadframe.experiment.file.model import LimitsEntry, StoreEntry

#: Keys by option; other options stay.
_KEYS = {
    **{name.replace("_", "-"): f"store.{name}" for name in StoreEntry.model_fields},
    **{name: f"store.limits.{name}" for name in LimitsEntry.model_fields},
    **{
        name: name for name in ("clients", "rate", "arrivals", "warmup", "duration", "threads", "connections", "spread")
    },
    "store": "store.kind",
    "set": "store.settings",
    "container-runtime": "store.runtime",
    "per-machine": "store.placement.per_machine",
    "network": "store.placement.network",
}
_OPTION = re.compile(r"--([a-z]+(?:-[a-z]+)*)(?: (\w+)=(\w+))?")


@contextlib.contextmanager
def options_as_keys() -> Iterator[None]:
    """Replace options by keys in the messages of errors that leave this context."""
    try:
        yield
    except LoadframeError as error:
        with_keys(error)
        raise


def with_keys(error: LoadframeError) -> None:
    """Replace options by keys in the message of an error, except in commands in backquotes."""
    error.what = _replaced(error.what)
    error.where = error.where and _replaced(error.where)
    error.remedy = error.remedy and _replaced(error.remedy)


def _replaced(text: str) -> str:
    parts = text.split("`")
    parts[::2] = [_OPTION.sub(_key, part) for part in parts[::2]]
    return "`".join(parts)


def _key(option: re.Match[str]) -> str:
    name, setting, value = option.groups()
    if name not in _KEYS:
        return option[0]
    return f"{_KEYS[name]}: {{{setting}: {value}}}" if setting else _KEYS[name]
