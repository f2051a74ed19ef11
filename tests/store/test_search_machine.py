"""Machine requirements of Elasticsearch-family servers that listen on non-loopback addresses."""

import resource
from pathlib import Path

import pytest

from loadframe.base.errors import BadInput
from loadframe.store import NodeSpec
from loadframe.store.search.node_settings import FILES, MAPS, Machine, adapted, require

GENEROUS = Machine(files=FILES, maps=MAPS)
MAPPED = "node.store.allow_mmap"


def node(address: str, **settings) -> NodeSpec:
    return NodeSpec("loadframe-x", "node-0", address, 9200, 9300, Path("/clusters/x/node-0"), (), (), settings=settings)


def test_nothing_is_asked_of_a_node_on_loopback():
    ours = node("127.0.0.2")
    assert adapted("opensearch", ours, Machine(files=1024, maps=65_530)) == (ours, {})


def test_suitable_machines_leave_settings_unchanged():
    ours = node("198.19.0.2")
    assert adapted("opensearch", ours, GENEROUS) == (ours, {})
    assert adapted("opensearch", ours, Machine(files=resource.RLIM_INFINITY, maps=MAPS)) == (ours, {})


def test_too_few_open_files_are_refused_before_anything_starts():
    with pytest.raises(BadInput, match=r"elasticsearch needs 65,535 open files .* is 20,000"):
        adapted("elasticsearch", node("198.19.0.2"), Machine(files=20_000, maps=MAPS))


def test_machines_whose_nodes_bind_loopback_need_no_limit_before_the_copy():
    few = Machine(files=20_000, maps=MAPS)
    require("opensearch", few, "127.0.9.1")
    with pytest.raises(BadInput, match=r"opensearch needs 65,535 open files .* is 20,000"):
        require("opensearch", few, "10.1.0.4")


def test_with_too_few_memory_maps_files_are_read_and_the_record_says_why():
    changed, reasons = adapted("opensearch", node("198.19.0.2", heap="1g"), Machine(files=FILES, maps=65_530))
    assert changed.settings == {"heap": "1g", MAPPED: False}
    assert reasons == {
        MAPPED: "false: the kernel allows 65,530 memory maps (vm.max_map_count), and opensearch needs 262,144"
    }


def test_settings_of_the_user_stay():
    ours = node("198.19.0.2", **{MAPPED: True})
    assert adapted("opensearch", ours, Machine(files=FILES, maps=65_530)) == (ours, {})


def test_limits_of_this_machine_are_read():
    here = Machine.here()
    assert here.files == resource.RLIM_INFINITY or here.files >= resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    assert here.maps > 0
