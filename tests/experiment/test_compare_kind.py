"""Experiments of kind compare: variants in interleaved blocks, and errors in files."""

import pytest

from loadframe.base.errors import BadInput
from loadframe.experiment.design.plans import design
from loadframe.experiment.power import shape_of_file
from loadframe.workload.collections import redefined

EXPERIMENT = """\
experiment: versions
store: {kind: opensearch, settings: {heap: 400m}}
workload: small.yaml
kind: compare
variants:
  old: {store.version: "2.19.6"}
  new: {store.version: "3.8.0", store.settings.heap: null}
  sparse: {store.version: "3.8.0", collections.things.settings.shards: 1}
factors: {clients: [1, 8]}
repetitions: 4
"""


def test_each_block_has_each_variant_once_and_every_second_one_is_backwards(load):
    made = design(load(EXPERIMENT)).runs
    blocks = [
        [(run.treatment["variant"], run.treatment["clients"]) for run in made if run.block == b] for b in range(1, 5)
    ]
    for block in blocks:
        assert sorted(block) == sorted((label, n) for label in ("old", "new", "sparse") for n in (1, 8))
    assert blocks[1] == blocks[0][::-1]
    assert blocks[3] == blocks[2][::-1]
    assert blocks[2] != blocks[0]


def test_variants_that_need_another_cluster_get_one_and_their_levels_of_easy_factors_share_it(load):
    groups = list(design(load(EXPERIMENT)).groups())
    assert len(groups) == 3 * 4
    assert all(len({run.treatment["variant"] for run in group}) == 1 for group in groups)


def test_a_variant_sets_version_settings_and_collections(load):
    experiment = load(EXPERIMENT)
    runs = {run.treatment["variant"]: run.treatment for run in design(experiment).runs}
    assert experiment.cluster_spec(runs["old"])["version"] == "2.19.6"
    assert experiment.cluster_spec(runs["old"])["settings"] == {"heap": "400m"}
    assert experiment.cluster_spec(runs["new"])["settings"] == {}
    assert experiment.resolve(runs["new"], "elasticsearch").collections["things"]["settings"] == {"shards": 1}
    sparse = experiment.resolve({**runs["sparse"], "collections.things.settings.shards": 5}, "elasticsearch")
    assert sparse.collections["things"]["settings"] == {"shards": 5}
    unset = experiment.resolve({"collections.things.settings.shards": None}, "elasticsearch")
    assert unset.collections["things"]["settings"] == {}


@pytest.mark.parametrize(
    ("before", "after", "what", "at"),
    [
        ("  old: {store.version: \"2.19.6\"}\n", "", None, None),
        ("{store.version: \"2", "{store.versoin: \"2", "unknown factor 'store.versoin'", "store.versoin"),
        ("store.version: \"2.19.6\"", "store.version: 2.1", "expected a word", "2.1"),
        ("things.settings.shards", "thngs.settings.shards", "unknown collection 'thngs'", "collections.thngs"),
        ("collections.things.settings.shards: 1", "collections.things: 1", "must name a key", "collections.things"),
        ("old: {store.version: \"2.19.6\"}", "old: {clients: 3}", "also set by a variant", "factors"),
        ("sparse: {store.version: \"3.8.0\", collections.things.settings.shards: 1}",
         "sparse: {store.version: \"3.8.0\", store.settings.heap: null}", "new and sparse are equal", "sparse"),
    ],
)  # fmt: skip
def test_typing_errors_are_reported_with_their_place(load, refused, before, after, what, at):
    text = EXPERIMENT.replace(before, after)
    assert text != EXPERIMENT
    if what is None:
        assert len(design(load(text)).runs) == 2 * 2 * 4
        return
    error, place = refused(text)
    assert what in error.what
    assert place.startswith(at)


def test_collection_settings_that_a_family_lacks_are_reported_when_the_store_is_known(load):
    experiment = load(EXPERIMENT.replace("things.settings.shards: 1", "things.replicas: 1"))
    runs = {run.treatment["variant"]: run.treatment for run in design(experiment).runs}
    with pytest.raises(BadInput, match="unknown key 'replicas' for a collection of elasticsearch") as caught:
        experiment.resolve(runs["sparse"], "elasticsearch")
    assert "e.yaml:8:" in caught.value.where
    with pytest.raises(BadInput, match='invalid value "many" for replicas of a collection of couchbase'):
        redefined({}, "couchbase", "replicas", "many")


def test_a_comparison_needs_two_variants(refused):
    error, _ = refused(EXPERIMENT.replace('  old: {store.version: "2.19.6"}\n', "").replace(
        "  sparse: {store.version: \"3.8.0\", collections.things.settings.shards: 1}\n", ""))  # fmt: skip
    assert "needs two variants or more" in error.what


def test_stores_of_variants_need_no_common_store(load):
    variants = EXPERIMENT.split("variants:", maxsplit=1)[0].replace(
        "store: {kind: opensearch, settings: {heap: 400m}}\n", ""
    )
    made = load(f"{variants}variants: {{a: {{store.kind: redis}}, b: {{store.kind: mongodb}}}}\nclients: 1\n")
    specs = [made.cluster_spec(run.treatment)["store"] for run in design(made).runs]
    assert sorted(set(specs)) == ["mongodb", "redis"]


@pytest.mark.parametrize(
    ("store", "at", "what"),
    [("store: {limits: {cpus: 1}}\n", "{limits", "'kind' is missing"), ("", "experiment", "'store' is missing")],
)
def test_a_run_without_a_store_is_refused(refused, store, at, what):
    text = EXPERIMENT.replace("store: {kind: opensearch, settings: {heap: 400m}}\n", store)
    error, place = refused(text.replace("  old: {", "  old: {store.kind: redis, "))
    assert what in error.what
    assert place.startswith(at)


def test_a_phase_is_open_for_the_gate_if_one_variant_leaves_it_open(load, tmp_path):
    load(EXPERIMENT)
    (tmp_path / "open.yaml").write_text(
        (tmp_path / "small.yaml").read_text().replace("clients: 2, warmup", "rate: 5/s, warmup")
    )

    def shape(new: str):
        start, end = EXPERIMENT.index("variants:"), EXPERIMENT.index("factors:")
        text = f"{EXPERIMENT[:start]}variants: {{old: {{clients: 1}}, new: {new}}}\nrepetitions: 4\n"
        assert EXPERIMENT[end:].startswith("factors: {clients")
        experiment = load(text.replace("small.yaml", "open.yaml"))
        return experiment.arrivals, shape_of_file(experiment).closed

    assert shape("{clients: 8}") == ([], (True,))
    assert shape('{store.version: "2.19.6"}') == (["poisson"], (False,))
