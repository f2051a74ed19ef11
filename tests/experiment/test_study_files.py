"""The experiment files of published studies run unchanged, and the small ones take minutes."""

from pathlib import Path

import pytest
import yaml

from loadframe.cluster import ClusterSpec
from loadframe.cluster.named import SavedCluster, folder_of, save
from loadframe.experiment.design.estimate import estimate
from loadframe.experiment.design.plans import design
from loadframe.experiment.file.reader import load_experiment

FILES = sorted((Path(__file__).parents[2] / "experiments").glob("*/*.yaml"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_study_is_a_sound_experiment(path, state):
    if name := yaml.safe_load(path.read_text()).get("store", {}).get("cluster"):
        # The cluster that the comment at the top of the file creates.
        store = "opensearch" if path.stem.startswith("small-") else "elasticsearch"
        folder_of(name).mkdir(parents=True)
        save(SavedCluster(ClusterSpec(store, name=name), {}, (), formed=True))
    experiment = load_experiment(path)
    planned = design(experiment)
    assert planned.runs
    if path.stem.startswith("small-"):
        assert estimate(planned, experiment) < 45 * 60


@pytest.mark.parametrize("name", ["queries", "stress", "small-stress"])
def test_a_run_whose_measured_phases_take_in_events_does_not_begin_with_those_of_the_run_before(name):
    experiment = load_experiment(FILES[0].parents[1] / "adbids" / f"{name}.yaml")
    assert all(factor.hard for factor in experiment.factors), "each treatment has its own cluster"
