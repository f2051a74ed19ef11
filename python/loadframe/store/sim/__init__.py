"""A simulated store: processes that speak the search protocol and answer after a service time from a known model.

Analyses can be checked against it, because the correct results follow from the model (`model`). All nodes run on one
machine, because they share their queues through a folder (`shared`).
"""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from loadframe.base.errors import BadInput
from loadframe.store.base import Figure, FoundInstallation, Installation, NodePlan, NodeSpec, Sample
from loadframe.store.distribution import Distribution
from loadframe.store.search import SearchStore
from loadframe.store.sim.model import FOLDER, VERSION, SimModel


class Sim(SearchStore):
    """Nodes that run `loadframe.store.sim.server`; the settings are the parameters of its model."""

    kind = "sim"
    only_here = True  # nodes share queues in a folder, and run this installation of Loadframe
    explores = False  # it keeps no documents
    start_seconds = (1.0, 0.2)
    watched: tuple[Figure, ...] = (
        Figure("queries/s", "search_query_total", total=True),
        Figure("searches", "search_active"),
        Figure("queued", "search_queue"),
        Figure("rejected", "search_rejected"),
        Figure("data", "store_bytes", size=True),
    )

    def installation(self, home: Path | None) -> FoundInstallation | None:
        """Return Loadframe's Python, which runs the nodes; BadInput for a `home`."""
        return super().installation(home) if home else FoundInstallation(VERSION, Path(sys.executable))

    def distribution(self, version: str) -> Distribution:
        """Raise BadInput: the only version needs no download."""
        raise BadInput(f"unknown version {version} of the simulated store", remedy=f"use {VERSION}")

    def software(self, version: str) -> dict[str, str]:
        """Return OpenSearch 3.0 for any version, because it speaks OpenSearch's protocol."""
        return {"distribution": "opensearch", "version": "3.0"}

    def electors(self, nodes: int) -> int | None:
        """Return None: nodes do not hold elections."""
        return None

    def durability(self, settings: Mapping[str, Any]) -> str:
        """Return an empty text: the simulated store keeps documents in memory."""
        return ""

    def check_settings(self, settings: Mapping[str, Any]) -> None:
        """Raise BadInput for unknown or invalid parameters of the model."""
        SimModel.from_settings(settings)

    def plan(self, node: NodeSpec, installation: Installation) -> NodePlan:
        """Return the command line that runs `loadframe.store.sim.server` with Loadframe's Python.

        No files are written.
        """
        argv = (
            str(installation.home),
            "-m",
            "loadframe.store.sim.server",
            f"--name={node.name}",
            f"--address={node.address}",
            f"--port={node.port}",
            f"--cluster={node.folder.parent}",
            f"--settings={json.dumps(dict(node.settings))}",
            *(("--founding",) if node.founders else ()),
        )
        return NodePlan(files={}, folders=(), argv=argv, environment={"LANG": "C.UTF-8"}, facts={}, shared=(FOLDER,))

    def sample(self, addresses: Sequence[str], name: str, documents: int, database: str | None = None) -> Sample:
        """Raise BadInput: the simulated store keeps no documents."""
        raise BadInput("the simulated store keeps no documents to sample", remedy="sample a file or a real store")

    def count_having(self, addresses: Sequence[str], name: str, fields: Sequence[str]) -> dict[str, int]:
        """Raise BadInput: the simulated store keeps no documents."""
        raise BadInput("the simulated store keeps no documents to count", remedy="use a real store")

    def begin_run(self, addresses: Sequence[str], seed: str) -> None:
        """Draw the service times of all nodes from `seed` from now on."""
        self.request(addresses, "PUT", "/_seed", {"seed": seed})


STORE = Sim()
