"""Which collections a name stands for, where each day has one."""

import pytest

from loadframe.store import base

KNOWN = [
    "ads",
    "ads-*",
    "ads-2017.03.01",
    "ads-2017.03.02",
    "ads-2017.3.1",
    "more-ads-2017.03.01",
    "ads-x",
    "ads_2017_03_01",
]


@pytest.mark.parametrize(
    ("name", "dotted", "collections"),
    [
        ("ads", True, ["ads"]),
        ("not there", True, ["not there"]),
        ("ads-*", True, ["ads-2017.03.01", "ads-2017.03.02"]),
        ("ads-*", False, ["ads_2017_03_01"]),
        ("none-*", True, []),
        (".ds-*", True, []),
    ],
)
def test_a_name_stands_for_itself_or_for_days(name, dotted, collections):
    assert base.daily_collections(name, KNOWN, dotted=dotted) == collections
