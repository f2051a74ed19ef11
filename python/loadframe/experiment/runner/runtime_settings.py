"""Settings of an existing cluster that an experiment changes at run time."""

import contextlib
import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

from loadframe.base.errors import BadInput, LoadframeError, StoreFailed
from loadframe.cluster import Cluster
from loadframe.experiment.runner.ledger import Ledger

#: Time limit of a setting to take effect, and the interval between two reads, s.
_EFFECT_WITHIN, _POLL = 3.0, 0.05
#: Level of a setting after a failure.
_UNKNOWN = object()


class RuntimeSettings:
    """The settings of one cluster: their levels, their effects, and which ones differ from before the experiment.

    A level of None is the value before the experiment.
    """

    def __init__(self, ledger: Ledger) -> None:
        """`ledger` receives the values before the experiment."""
        self._ledger = ledger
        #: Values in effect, by setting and level as JSON, measured before the first run.
        self._effects: dict[tuple[str, str], str] = {}
        #: Levels that the cluster has now, by setting; missing ones are as before the experiment.
        self.applied: dict[str, Any] = {}

    def test(self, cluster: Cluster, levels: Mapping[str, Sequence[Any]]) -> None:
        """Set and read each level of each setting once, then restore it; BadInput if a level cannot be set."""
        before = cluster.store.running_settings(cluster.addresses, list(levels))
        self._ledger.changes.settings = {name: setting.explicit for name, setting in before.items()}
        self._ledger.write()
        for name, values in levels.items():
            for level in values:
                self._effects[name, json.dumps(level)] = self._set(cluster, name, level)
            self._set(cluster, name, None)

    def require_distinct(self, levels: Mapping[str, Sequence[Any]], where: str) -> None:
        """Raise BadInput if two tested levels of a setting have the same effect."""
        for name, values in levels.items():
            seen: dict[str, Any] = {}
            for level in values:
                value = self._effects[name, json.dumps(level)]
                if value in seen:
                    raise BadInput(
                        f"{name} has the value {value} with the levels {seen[value]} and {level}",
                        where=where,
                        remedy="remove one of the levels; null stands for the value before the experiment",
                    )
                seen[value] = level

    def apply(self, cluster: Cluster, settings: Mapping[str, Any], where: str) -> None:
        """Set the levels that the cluster does not have yet; StoreFailed if one has another effect than in the test."""
        for name, level in settings.items():
            if name in self.applied and self.applied[name] == level:
                continue
            value = self._set(cluster, name, level)
            expected = self._effects.get((name, json.dumps(level)))
            if expected is not None and value != expected:
                raise StoreFailed(
                    f"{name} has the value {value}, not {expected}, after it was set to {level}",
                    where=where,
                    remedy="check whether another client changes this setting",
                )

    def forget(self) -> None:
        """Apply all settings again before the next run."""
        self.applied = {name: None if level is None else _UNKNOWN for name, level in self.applied.items()}

    def changed(self) -> list[str]:
        """Return the settings that may differ from before the experiment."""
        return [name for name, level in self.applied.items() if level is not None]

    def _set(self, cluster: Cluster, name: str, level: Any) -> str:
        """Set a setting, or restore it if `level` is None; return the value in effect."""
        before, earlier = self._value(cluster, name), self.applied.get(name)
        self.applied[name] = _UNKNOWN
        try:
            cluster.configure({name: self._ledger.changes.settings[name] if level is None else level})
        except LoadframeError:
            # The server may have applied the setting although its answer was lost.
            with contextlib.suppress(LoadframeError):
                if self._value(cluster, name) == before:
                    self.applied[name] = earlier
            raise
        self.applied[name] = level
        # Some stores apply a setting only after they have answered.
        end = time.monotonic() + _EFFECT_WITHIN
        wanted = self._effects.get((name, json.dumps(level)))
        while True:
            value = self._value(cluster, name)
            if value == wanted or (wanted is None and value != before) or time.monotonic() > end:
                return value
            time.sleep(_POLL)

    @staticmethod
    def _value(cluster: Cluster, name: str) -> str:
        """Return the value in effect."""
        value: str = cluster.store.running_settings(cluster.addresses, [name])[name].value
        return value
