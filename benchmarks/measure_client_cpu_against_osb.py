"""CPU time per document and per search, compared with OpenSearch Benchmark on the same OpenSearch node."""

from benchmarks.client_cpu import compare
from benchmarks.rally import OPENSEARCH_BENCHMARK

from loadframe.cluster import ClusterSpec


def main() -> None:
    """Measure both clients and print the ratios."""
    compare(OPENSEARCH_BENCHMARK, ClusterSpec(settings={"heap": "1g"}))
