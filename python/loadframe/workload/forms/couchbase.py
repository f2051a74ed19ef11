"""What only Couchbase can be asked."""

from typing import Any, Literal

from pydantic import Field

from loadframe.workload.forms.values import Text
from loadframe.yamlfile import Model

Durability = Literal["none", "majority", "majority_and_persist_active", "persist_to_majority"]


class Query(Model):
    """A statement of SQL++, with the values of its `$1`, `$2`, ... or of its `$name`s."""

    statement: Text
    parameters: list[Any] | dict[str, Any] = Field(default_factory=list)
