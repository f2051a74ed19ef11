"""A simulated store: real processes that speak the search protocol and answer after a service time of known law.

What a measurement of it should find is known beforehand (`model`), so every analysis can be held against the truth. Its
nodes run on one machine, since they share their queues through a folder (`shared`).
"""

import json
import sys
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from loadframe.base.errors import BadInput
from loadframe.store.base import Figure, Found, Installation, NodePlan, NodeSpec
from loadframe.store.distribution import Distribution
from loadframe.store.search.store import SearchStore
from loadframe.store.sim.model import FOLDER, VERSION, SimModel


class Sim(SearchStore):
    """Nodes of `loadframe.store.sim.server`; the settings are those of its model."""

    kind = "sim"
    only_here = True  # they share their queues, and are run by this very installation
    start_seconds = (1.0, 0.2)
    watched: tuple[Figure, ...] = (
        Figure("queries/s", "search_query_total", total=True),
        Figure("searches", "search_active"),
        Figure("queued", "search_queue"),
        Figure("rejected", "search_rejected"),
        Figure("data", "store_bytes", size=True),
    )

    def installation(self, home: Path | None) -> Found | None:
        """It comes with loadframe."""
        return super().installation(home) if home else Found(VERSION, Path(sys.executable))

    def distribution(self, version: str) -> Distribution:
        """Refuse: there is nothing to fetch."""
        raise BadInput(f"there is no version {version} of the simulated store", remedy=f"take {VERSION}")

    def software(self, version: str) -> dict[str, str]:
        """It speaks as OpenSearch does."""
        return {"distribution": "opensearch", "version": "3.0"}

    def electors(self, nodes: int) -> int | None:
        """All nodes are alike, and nobody is elected."""
        return None

    def check_settings(self, settings: Mapping[str, Any]) -> None:
        """Settings are the parameters of the model."""
        SimModel.from_settings(settings)

    def plan(self, node: NodeSpec, installation: Installation) -> NodePlan:
        """Run the server with this Python."""
        argv = (
            str(installation.home),
            "-m",
            "loadframe.store.sim",
            f"--name={node.name}",
            f"--address={node.address}",
            f"--port={node.port}",
            f"--cluster={node.folder.parent}",
            f"--settings={json.dumps(dict(node.settings))}",
            f"--seed={zlib.crc32(node.name.encode())}",
            *(("--founding",) if node.founders else ()),
        )
        return NodePlan(files={}, folders=(), argv=argv, environment={"LANG": "C.UTF-8"}, facts={}, shared=(FOLDER,))


STORE = Sim()
