"""The model of a workload file whose parameters are filled in (by `parameters`)."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import ConfigDict, Field, Strict

from loadframe.workload.collections import Collection
from loadframe.workload.corpora import Corpus
from loadframe.workload.encryption import ClientEncryption
from loadframe.workload.forms import Family, Operation
from loadframe.workload.phases import Phase, Target
from loadframe.workload.sources import Source
from loadframe.workload.variables import Variable
from loadframe.yamlfile import NOT_EMPTY, Model, Name, Scalar


class Product(Model):
    """A parameter default: the product of numbers."""

    product: Annotated[list[int | float], NOT_EMPTY]


class Case(Model):
    """A parameter default that depends on another parameter: `{by: "${layout}", one: 1, user: 8}`."""

    model_config = ConfigDict(extra="allow")

    by: Scalar


class Requirement(Model):
    """A precondition, checked before anything starts: `value` is at most `at_most`.

    It applies to one store `family` or to all, and only if the parameters have the values in `where`. `because` is the
    explanation in the error message.
    """

    value: int | float
    at_most: int | float
    family: Family | None = None
    where: dict[str, Scalar] = Field(default_factory=dict)
    because: str

    def broken(self, family: str, parameters: Mapping[str, Any]) -> bool:
        """Return whether the requirement applies and is violated."""
        applies = self.family in (None, family) and all(parameters.get(key) == on for key, on in self.where.items())
        return applies and self.value > self.at_most


class WorkloadFile(Model):
    """A workload: data (collections, corpora, sources), operations, and load (phases)."""

    workload: Name
    description: str = ""
    parameters: dict[str, Scalar | Product | Case] = Field(default_factory=dict)
    require: Annotated[tuple[Requirement, ...], Strict(False)] = ()
    collections: dict[Name, Collection] = Field(default_factory=dict)
    corpora: dict[Name, Corpus] = Field(default_factory=dict)
    client_encryption: ClientEncryption | None = None
    sources: dict[Name, Source] = Field(default_factory=dict)
    variables: dict[str, Variable] = Field(default_factory=dict)
    targets: dict[Name, Target] = Field(default_factory=dict)
    operations: Annotated[dict[Name, Operation], NOT_EMPTY]
    phases: Annotated[tuple[Phase, ...], Strict(False), NOT_EMPTY]
