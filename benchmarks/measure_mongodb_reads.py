"""Cost of the MongoDB driver with a real server."""

from benchmarks import reads

from loadframe.cluster import Cluster, ClusterSpec


def main() -> None:
    """Measure reads and updates."""
    with Cluster.start(ClusterSpec(store="mongodb")) as cluster:
        cluster.create_collection("records", {})
        reads.measure({"driver": "mongodb", "hosts": cluster.addresses, **cluster.target()}, "records")
