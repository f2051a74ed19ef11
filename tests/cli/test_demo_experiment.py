"""The demo's experiment: its questions on machines of several sizes, and its refusals."""

import pytest

from loadframe.base.errors import BadInput
from loadframe.experiment.design.estimate import estimate
from loadframe.experiment.design.plans import design
from loadframe.experiment.file.reader import load_experiment
from loadframe.library.experiment import demo_text

NO_GROUPS = "cgroup v2: Permission denied (/sys/fs/cgroup/probe)"


@pytest.fixture
def experiment(tmp_path):
    def experiment(cores, obstacle=None):
        path = tmp_path / "demo.yaml"
        path.write_text(demo_text(cores, obstacle))
        return load_experiment(path)

    return experiment


def test_the_demo_takes_less_than_five_minutes_on_two_cores(experiment):
    loaded = experiment([0, 1])
    assert estimate(design(loaded), loaded) < 270
    assert loaded.repetitions >= 2


@pytest.mark.parametrize(("cores", "nodes"), [([0, 1], (1,)), ([0, 1, 2, 3], (1, 2, 3)), ([4, 6], (6,)), ([0], None)])
def test_limited_nodes_keep_off_the_generators_core_where_there_is_another(experiment, cores, nodes):
    loaded = experiment(cores)
    cores_of_nodes = loaded.file.store.limits.cores
    assert (cores_of_nodes and cores_of_nodes.numbers) == nodes
    levels = {factor.name: factor.levels for factor in loaded.factors}
    assert levels["nodes"] == (1, 2, 4)
    # All of them leave a part of one core to everything else.
    assert loaded.file.store.limits.cpus * 4 < 0.6


@pytest.mark.parametrize(("cores", "nodes"), [(3, (1, 2)), (4, (1, 2)), (5, (1, 2, 4)), (16, (1, 2, 4))])
def test_without_control_groups_each_node_has_a_core_and_so_has_the_generator(experiment, cores, nodes):
    loaded = experiment(range(cores), NO_GROUPS)
    limits = loaded.file.store.limits
    assert (limits.cpus, limits.memory, limits.cores.per_node) == (None, None, 1)
    levels = {factor.name: factor.levels for factor in loaded.factors}
    assert levels["nodes"] == nodes


@pytest.mark.parametrize("cores", [1, 2])
def test_too_few_cores_without_control_groups_are_reported_before_anything_starts(cores):
    with pytest.raises(BadInput) as caught:
        demo_text(range(cores), NO_GROUPS)
    assert f"{cores} core" in caught.value.what
    assert "Permission denied" in str(caught.value)
    assert "as root" in str(caught.value.remedy)
