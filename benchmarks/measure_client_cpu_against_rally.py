"""CPU time per document and per search, compared with Rally on the same Elasticsearch node."""

from benchmarks.client_cpu import compare
from benchmarks.rally import RALLY

from loadframe.cluster import ClusterSpec


def main() -> None:
    """Measure both clients and print the ratios."""
    compare(RALLY, ClusterSpec(store="elasticsearch", settings={"heap": "1g"}))
