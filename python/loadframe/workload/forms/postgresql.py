"""What only PostgreSQL can be asked."""

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from loadframe.workload.forms.values import Text
from loadframe.yamlfile import NOT_EMPTY, Model, wrong

ReadFrom = Literal["primary", "replica", "prefer_replica", "any"]


class Statement(Model):
    """A statement with `$1`, `$2`, ... for its values, and how many rows it has to return or to write."""

    statement: Text
    values: list[Any] = Field(default_factory=list)
    rows: Annotated[int, Field(ge=0)] | None = None


class Statements(Model):
    """One statement, or several as one transaction; prepared, or sent as text each time by the simple protocol."""

    statement: Text | None = None
    values: list[Any] = Field(default_factory=list)
    rows: Annotated[int, Field(ge=0)] | None = None
    transaction: Annotated[list[Statement], NOT_EMPTY] | None = None
    isolation: Literal["read_committed", "repeatable_read", "serializable"] | None = None
    protocol: Literal["prepared", "simple"] = "prepared"
    expect: Literal["commit", "rollback"] | None = None

    @model_validator(mode="after")
    def _one_or_several(self) -> "Statements":
        if self.transaction is None:
            if self.statement is None:
                raise wrong("it says no statement", "say statement, or transaction with a list of them")
            if self.isolation is not None:
                raise wrong("isolation is about a transaction", "remove it, or say transaction", key="isolation")
            if self.expect is not None:
                raise wrong("expect is about a transaction", "remove it, or say transaction", key="expect")
        else:
            for key in ("statement", "values", "rows"):
                if getattr(self, key):
                    raise wrong(f"{key} stands inside of transaction", "move it there", key=key)
        return self
