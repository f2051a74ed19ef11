"""Asks the nodes of a cluster one after the other until one answers."""

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
    """Return the answer of the first address that gives one; where none does, the last address's exception goes on.

    `unanswered` are the exceptions that mean that a node did not answer. A request that changes something is not
    `repeatable`: a node that has it may carry it out, answered or not. It goes to the next address only after one of
    the exceptions `unsent`, which mean that it never got out.
    """
    for address in addresses[:-1]:
        try:
            return ask(address)
        except unanswered as error:
            if not (repeatable or isinstance(error, unsent)):
                raise
    return ask(addresses[-1])
