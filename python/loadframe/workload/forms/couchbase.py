"""Requests that only Couchbase supports."""

from typing import Any, Literal

from pydantic import Field

from loadframe.workload.forms.values import Text
from loadframe.yamlfile import Model

Durability = Literal["none", "majority", "majority_and_persist_active", "persist_to_majority"]


class Query(Model):
    """An SQL++ statement, with parameters for `$1`, `$2`, ... (list) or `$name` (mapping)."""

    statement: Text
    parameters: list[Any] | dict[str, Any] = Field(default_factory=list)
