"""A small workload, and the expected position of an error in a text."""

from loadframe.base.errors import BadInput

MINIMAL = """\
workload: small
operations:
  look: {search: {collection: things, body: {query: {match_all: {}}}}}
collections: {things: {}}
phases:
  - {name: look, operation: look, clients: 2, duration: 5s}
"""


def pointed_at(text: str, error: BadInput) -> str:
    """Return the line of `text` from the place on."""
    line, column = (int(part) for part in str(error.where).split(":")[-2:])
    return text.splitlines()[line - 1][column - 1 :]
