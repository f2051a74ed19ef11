"""Daily collections: the collections `ads-2017.03.01` and so on, which `ads-*` names together."""

import re
from collections.abc import Iterable

_ALL = "-*"


def collections(name: str, known: Iterable[str], *, dotted: bool = True) -> list[str]:
    """Return the known daily collections of `ads` for the name `ads-*`, or the name itself.

    A daily collection is called `ads-2017.03.01`, or `ads_2017_03_01` if not `dotted`.
    """
    if not name.endswith(_ALL):
        return [name]
    day = r"-\d{4}\.\d\d\.\d\d" if dotted else r"_\d{4}_\d\d_\d\d"
    daily = re.compile(re.escape(name.removesuffix(_ALL)) + day)
    return [other for other in known if daily.fullmatch(other)]
