"""Requests that only Cassandra supports."""

from typing import Any, Literal

from pydantic import Field

from loadframe.workload.forms.values import Text
from loadframe.yamlfile import Model

Consistency = Literal[
    "any", "one", "two", "three", "quorum", "all", "local_quorum", "each_quorum", "local_one", "serial", "local_serial"
]


class Cql(Model):
    """A CQL statement, with a `?` for each of its values."""

    statement: Text
    values: list[Any] = Field(default_factory=list)
    consistency: Consistency | None = None
