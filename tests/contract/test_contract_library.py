"""The library workloads ycsb and wikipedia on every store: filling, and the assertions of each step.

Both have forms for several families. Other such workloads (adbids, selfcare) have their own tests.
"""

from pathlib import Path
from typing import Any

import pytest
from held import Held

from every_step import failed_steps
from loadframe.workload import load_workload

pytestmark = pytest.mark.store


def failed_operations(store: Held, name: str, parameters: dict[str, Any], folder: Path) -> set[str]:
    """Return the operations of a workload with answers that fail their assertions."""
    workload = load_workload(name, parameters).for_family(store.cluster.store.family, store.subject.nodes)
    failed = failed_steps(store.cluster, workload, folder)
    for collection in workload.collections:
        store.drop(collection)
    return {answer["operation"] for answer in failed}


def test_every_step_of_wikipedia_is_answered_well(store, tmp_path):
    assert failed_operations(store, "wikipedia", {"documents": 100, "batch": 20}, tmp_path) == set()


def test_every_step_of_ycsb_is_answered_well(store, tmp_path):
    refused = {"scan"} if "test_a_scan_begins_at_the_given_id" in store.subject.excused else set()
    assert failed_operations(store, "ycsb", {"records": 100}, tmp_path) == refused
