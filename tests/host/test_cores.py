"""Which cores nodes get: dealt out, kept from the generator, and refused where there are too few."""

import pytest

from loadframe.base.errors import BadInput
from loadframe.host import placement
from loadframe.host.limits import Limits

EACH = Limits(cores_each=1)


@pytest.fixture
def machine(monkeypatch):
    """Make this machine appear to have that many logical processors, `threads` of them on each physical core."""

    def become(processors: int, threads: int = 1) -> None:
        physical = processors // threads
        monkeypatch.setattr("os.sched_getaffinity", lambda _pid: set(range(processors)))
        # As on most machines, the second thread of core n is n plus the number of cores.
        monkeypatch.setattr(placement, "siblings", lambda core: tuple(range(core % physical, processors, physical)))

    return become


def dealt(limits: Limits, nodes: int) -> list[tuple[int, ...]]:
    given: list[tuple[int, ...]] = []
    for _ in range(nodes):
        given.append(placement.deal(limits, nodes, [core for one in given for core in one]))
    return given


def test_each_node_gets_a_core_and_the_generator_keeps_the_first(machine):
    machine(4)
    assert dealt(EACH, 3) == [(1,), (2,), (3,)]
    assert placement.candidate_cores(EACH, 3) == (1, 2, 3)
    assert not placement.generator_shares(EACH, 3)


def test_nodes_that_need_every_core_take_the_generators_too(machine):
    machine(2)
    assert dealt(EACH, 1) == [(1,)]
    assert dealt(EACH, 2) == [(0,), (1,)]
    assert placement.generator_shares(EACH, 2)
    placement.require(EACH, 2)


def test_more_nodes_than_cores_are_refused(machine):
    machine(2)
    assert placement.shortage(EACH, 2) is None
    with pytest.raises(BadInput, match="3 nodes with 1 core each need 3 cores; this machine has 2"):
        placement.require(EACH, 3)
    with pytest.raises(BadInput, match="2 nodes with 2 cores each need 4 cores; this machine has 1"):
        placement.require(Limits(cores=(1,), cores_each=2), 2)


def test_named_cores_are_dealt_and_no_others(machine):
    machine(8)
    limits = Limits(cores=(4, 5, 6, 7), cores_each=2)
    assert dealt(limits, 2) == [(4, 5), (6, 7)]
    with pytest.raises(BadInput, match="0 are free"):
        placement.deal(limits, 2, (4, 5, 6, 7))


def test_nodes_do_not_share_a_physical_core_while_there_are_enough(machine):
    machine(8, threads=2)
    assert placement.candidate_cores(EACH, 3) == (1, 2, 3, 5, 6, 7)
    assert dealt(EACH, 3) == [(1,), (2,), (3,)]
    assert dealt(Limits(cores_each=2), 3) == [(1, 5), (2, 6), (3, 7)]
    assert dealt(EACH, 7) == [(core,) for core in range(1, 8)]


def test_a_node_that_comes_back_keeps_its_cores_unless_another_has_them(machine):
    machine(4)
    assert placement.deal(EACH, 2, taken=(1,), before=(3,)) == (3,)
    assert placement.deal(EACH, 2, taken=(3,), before=(3,)) == (1,)


def test_companions_get_the_remaining_cores(machine):
    machine(4)
    assert placement.of_companions(EACH, 2, {1, 2}) == (3,)
    assert placement.of_companions(EACH, 3, {1, 2, 3}) == (1, 2, 3)


def test_a_set_that_all_share_leaves_the_generator_one(machine):
    machine(2)
    placement.require(Limits(cores=(1,)), 5)
    with pytest.raises(BadInput, match="leaves none for the load generator"):
        placement.require(Limits(cores=(0, 1)), 1)
    assert not placement.generator_shares(Limits(), 5)
