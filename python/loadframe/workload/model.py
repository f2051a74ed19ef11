"""The workload file as a whole, with its parameters already filled in; see `parameters` for those."""

from typing import Annotated, Any

from pydantic import Field, Strict

from loadframe.workload.corpora import Corpus
from loadframe.workload.forms import Operation
from loadframe.workload.phases import Phase
from loadframe.workload.variables import Variable
from loadframe.yamlfile import NOT_EMPTY, Model, Name, Scalar


class SearchIndex(Model):
    """An index of the elasticsearch family, as the store's create-index call has it."""

    settings: dict[str, Any] = Field(default_factory=dict)
    mappings: dict[str, Any] = Field(default_factory=dict)
    aliases: dict[str, Any] = Field(default_factory=dict)


class Collection(Model):
    """A collection, defined for each family; where a family has no definition, the store's defaults apply."""

    elasticsearch: SearchIndex | None = None

    def definition(self, family: str) -> dict[str, Any]:
        """Return what to create the collection with; empty for the store's defaults."""
        index: Model | None = getattr(self, family, None)
        return {} if index is None else index.model_dump(exclude_unset=True)


class WorkloadFile(Model):
    """A workload: what there is, what can be asked of it, and the load."""

    workload: Name
    description: str = ""
    parameters: dict[str, Scalar] = Field(default_factory=dict)
    collections: dict[Name, Collection] = Field(default_factory=dict)
    corpora: dict[Name, Corpus] = Field(default_factory=dict)
    variables: dict[str, Variable] = Field(default_factory=dict)
    operations: Annotated[dict[Name, Operation], NOT_EMPTY]
    phases: Annotated[tuple[Phase, ...], Strict(False), NOT_EMPTY]
