"""The kinds of store: found by being there, named in errors by the nearest one."""

import pytest

from loadframe.base.errors import BadInput
from loadframe.store import Store, find, stores


def test_every_store_names_its_kind_family_and_driver():
    for kind, store in stores().items():
        assert isinstance(store, Store)
        assert store.kind == kind
        assert store.family
        assert store.driver


def test_a_store_is_found_by_its_kind():
    assert find("opensearch").family == "elasticsearch"
    assert find("opensearch").driver == "search"


def test_an_unknown_store_is_answered_with_the_nearest_one():
    with pytest.raises(BadInput, match=r"unknown store 'opensaerch'\n  did you mean opensearch\?"):
        find("opensaerch")


def test_a_store_unlike_any_is_answered_with_all_of_them():
    with pytest.raises(BadInput, match=r"the stores are .*opensearch"):
        find("zzz")


@pytest.mark.parametrize(
    ("kind", "settings", "text"),
    [
        ("redis", {}, "appendonly yes, appendfsync everysec"),
        ("redis", {"appendfsync": "always"}, "appendonly yes, appendfsync always"),
        ("redis", {"appendonly": False}, "appendonly no"),
        ("postgresql", {}, "fsync on, synchronous_commit on"),
        ("postgresql", {"Synchronous_Commit": False, "fsync": "on"}, "fsync on, synchronous_commit off"),
        ("mongodb", {}, "write_concern majority in the journal"),
        ("cassandra", {}, "commitlog_sync periodic"),
        ("cassandra", {"commitlog_sync": "batch"}, "commitlog_sync batch"),
        ("opensearch", {}, "index.translog.durability request"),
        ("elasticsearch", {}, "index.translog.durability request"),
        ("couchbase", {}, "durability none"),
        ("sim", {}, ""),
        ("http", {}, ""),
    ],
)
def test_stores_declare_the_durability_of_their_settings(kind, settings, text):
    declared = stores()[kind].durability(settings)
    assert declared.partition(", unless")[0] == text


@pytest.mark.parametrize("kind", stores())
def test_each_embedded_version_lists_every_file_with_its_checksum_and_size(kind):
    for version in stores()[kind].versions:
        distribution = stores()[kind].distribution(version)
        assert distribution.files or distribution.wheel
        assert distribution.version == version
        for jar in distribution.files:
            assert len(jar.sha256) == 64, jar.coordinates
            assert int(jar.sha256, 16) > 0
            assert jar.size > 0
            assert len(jar.coordinates.split(":")) in (3, 4), "a classifier may follow the version"


@pytest.mark.parametrize("kind", stores())
def test_no_two_files_of_a_distribution_have_the_same_place(kind):
    for version in stores()[kind].versions:
        paths = [jar.path for jar in stores()[kind].distribution(version).jars]
        assert len(paths) == len(set(paths))
