"""Valid and refused cluster specifications."""

import json
import os

import pytest

from loadframe.base.errors import BadInput, LoadframeError
from loadframe.cluster import Cluster, ClusterSpec, DiskLimits, Encryption, Limits


def test_a_spec_survives_being_written_down():
    spec = ClusterSpec(
        nodes=3,
        limits=Limits(0.5, 2**30, (0, 2), 1, DiskLimits(write=2**20, read_operations=100.0)),
        settings={"a.b": True},
        name="x",
        port=9200,
        racks=("a",),
        encryption=Encryption.BOTH,
    )
    assert ClusterSpec.from_record(json.loads(json.dumps(spec.to_record()))) == spec


def test_a_spec_of_before_there_was_encryption_is_read_as_it_was():
    record = ClusterSpec(name="x").to_record()
    del record["encryption"], record["disk"]
    assert ClusterSpec.from_record(record) == ClusterSpec(name="x")


def test_cores_that_are_not_there_are_refused():
    with pytest.raises(BadInput, match="core 4095 is not usable"):
        Cluster.start(ClusterSpec(store="sim", limits=Limits(cores=(4095,))))


def test_nodes_that_have_all_cores_leave_the_generator_none():
    with pytest.raises(BadInput, match="leaves none for the load generator"):
        Cluster.start(ClusterSpec(store="sim", limits=Limits(cores=tuple(sorted(os.sched_getaffinity(0))))))


@pytest.mark.parametrize("racks", [("a", "a"), ("a", "b", "c"), ("node-1",), ("",), ("a b",)])
def test_racks_that_no_node_could_be_on_or_named_by_are_refused(racks):
    with pytest.raises(BadInput, match="rack"):
        ClusterSpec(nodes=2, racks=racks)


def test_a_cluster_without_nodes_is_refused():
    with pytest.raises(BadInput, match="the number of nodes must be 1 to 1000; got 0"):
        ClusterSpec(nodes=0)


@pytest.mark.parametrize("name", ["", "../x", "Trial", "a b", "-x", "x" * 42])
def test_invalid_folder_names_are_refused(name):
    with pytest.raises(BadInput, match="is not a valid cluster name"):
        ClusterSpec(name=name)


@pytest.mark.parametrize("address", ["localhost", "localhost:", ":9200", "http://x:y"])
def test_an_address_without_host_or_port_is_refused(address):
    with pytest.raises(BadInput, match="invalid address"):
        Cluster.attach([address])


def test_a_cluster_that_does_not_answer_cannot_be_attached_to():
    with pytest.raises(LoadframeError, match="the cluster does not answer"):
        Cluster.attach(["127.0.0.1:9"])


def test_a_cluster_that_does_not_exist_is_answered_with_how_to_make_one(state):
    with pytest.raises(BadInput, match=r"cluster 'trial' does not exist\n  no cluster exists yet; start one with"):
        Cluster.load("trial")


@pytest.mark.parametrize("record", ["{", '{"spec": "trial"}'])
def test_a_damaged_record_is_named(state, record):
    (state / "clusters" / "trial").mkdir(parents=True)
    (state / "clusters" / "trial" / "cluster.json").write_text(record)
    with pytest.raises(BadInput, match=r"cluster\.json: the record of cluster trial is damaged"):
        Cluster.load("trial")
