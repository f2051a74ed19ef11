"""The support matrix in the documentation agrees with the stores and their tests."""

import pytest

from loadframe.store import find, stores
from support_matrix import CAPABILITIES, ON_HOSTS, PAGE, TESTS, names_of_tests, subject_of, with_tables

KINDS = sorted(stores())


def test_the_page_has_the_current_tables():
    page = PAGE.read_text()
    assert page == with_tables(page), "run `python tests/support_matrix.py --write`"


def test_each_contract_test_belongs_to_one_capability():
    exist = frozenset[str]().union(*(names_of_tests(file) for file in (TESTS / "contract").glob("test_contract_*.py")))
    named = [test for row in CAPABILITIES for test in row.contract]
    assert sorted(named) == sorted(exist), "add new contract tests to CAPABILITIES of tests/support_matrix.py"


@pytest.mark.parametrize(
    ("kind", "file"),
    sorted(
        {pair for row in CAPABILITIES for pair in (*row.real.items(), *row.mock.items())}
        | {pair for evidence in ON_HOSTS.values() for pair in evidence.items()}
    ),
)
def test_other_evidence_is_a_file_with_tests_that_name_the_store(kind, file):
    assert names_of_tests(TESTS / file), f"{file} has no tests"
    assert kind in (TESTS / file).read_text().lower() or kind == "opensearch"


@pytest.mark.parametrize("kind", KINDS)
def test_a_store_without_an_available_server_is_declared(kind):
    store, subject = find(kind), subject_of(kind)
    obtainable = bool(store.versions) or kind in ("redis", "sim")
    assert obtainable != bool(subject.absent or subject.unavailable)
