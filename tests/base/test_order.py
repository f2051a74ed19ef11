"""Order of names that hold numbers."""

from loadframe.base.units import by_number


def test_numbers_in_names_count_as_numbers():
    names = ["router-10", "node-10", "2", "node-2", "router-9", "10", "node", "a1b10", "a1b9"]
    expected = ["2", "10", "a1b9", "a1b10", "node", "node-2", "node-10", "router-9", "router-10"]
    assert sorted(names, key=by_number) == expected
