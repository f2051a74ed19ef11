"""Draws fares, as OpenSearch Benchmark's workloads do."""

import random

from osbenchmark.workload.params import ParamSource  # noqa: F401


async def delete_snapshot(opensearch, params):
    await opensearch.snapshot.delete(repository=params["repository"], snapshot=params["snapshot"])


def fares():
    low = random.randrange(50)
    return {"gte": low, "lte": low + random.randrange(1, 50)}


def random_fare(workload, params, **kwargs):
    return {"index": "rides", "body": {"size": 0, "query": {"range": {"fare": fares()}}}, "cache": True}


def register(registry):
    registry.register_param_source("random-fare-source", random_fare)
    registry.register_standard_value_source("cheap", "fare", fares)
    registry.register_query_randomization_info("cheap", "range", [["gte", "gt"], ["lte", "lt"]], ["format"])
    registry.register_runner("delete-snapshot", delete_snapshot, async_runner=True)
