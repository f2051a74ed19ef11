"""The workloads of the library that have a form for the store: filled, and each step answered as it is asserted."""

import pytest

from every_step import failed_steps
from loadframe.workload import load_workload

pytestmark = pytest.mark.store

#: Workloads with forms for more than one family, and what makes each small enough for a test.
SMALL = {"wikipedia": {"documents": 100, "batch": 20}, "ycsb": {"records": 100}}
#: A cluster of Redis keeps no order of ids over its nodes.
REFUSED = {("redis", "ycsb"): {"scan"}}


@pytest.mark.parametrize("name", sorted(SMALL))
def test_every_step_of_a_workload_is_answered_well(store, tmp_path, name):
    if (store.kind, name) == ("postgresql", "wikipedia"):
        pytest.skip("not applicable to postgresql: wikipedia has no form for it")
    cluster = store.cluster
    workload = load_workload(name, SMALL[name]).for_family(cluster.store.family, store.subject.nodes)
    failed = failed_steps(cluster, workload, tmp_path)
    assert {answer["operation"] for answer in failed} == REFUSED.get((store.kind, name), set()), failed
    for collection in workload.collections:
        cluster.drop_collection(collection)
