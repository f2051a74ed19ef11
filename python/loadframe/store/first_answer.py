"""Requests to the nodes of a cluster in turn, until one answers."""

from collections.abc import Callable, Sequence
from typing import TypeVar

Answer = TypeVar("Answer")


def first_answer(
    addresses: Sequence[str],
    ask: Callable[[str], Answer],
    unanswered: type[Exception] | tuple[type[Exception], ...],
    unsent: type[Exception] | tuple[type[Exception], ...] = (),
    *,
    repeatable: bool = True,
) -> Answer:
    """Return the result of `ask` for the first address that answers; if none does, raise the last exception.

    `unanswered` are the exceptions for a node that did not answer, `unsent` those for a request that was not sent. A
    request that changes something is not `repeatable`, because the node may still carry it out. It goes to the next
    address only after an `unsent` exception.
    """
    for address in addresses[:-1]:
        try:
            return ask(address)
        except unanswered as error:
            if not (repeatable or isinstance(error, unsent)):
                raise
    return ask(addresses[-1])
