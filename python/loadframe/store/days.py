"""The collections of days that the load makes where it keeps days apart; all of them together are called `ads-*`."""

import re
from collections.abc import Iterable

_ALL = "-*"


def collections(name: str, known: Iterable[str], *, dotted: bool = True) -> list[str]:
    """Return what a name stands for: itself, or for `ads-*` those of the `known` collections that are days of `ads`.

    Days are called `ads-2017.03.01`, and `ads_2017_03_01` if not `dotted`.
    """
    if not name.endswith(_ALL):
        return [name]
    day = r"-\d{4}\.\d\d\.\d\d" if dotted else r"_\d{4}_\d\d_\d\d"
    of_days = re.compile(re.escape(name.removesuffix(_ALL)) + day)
    return [other for other in known if of_days.fullmatch(other)]
