"""The workload file as a whole, with its parameters already filled in; see `parameters` for those."""

from typing import Annotated

from pydantic import Field, Strict

from loadframe.workload.collections import Collection
from loadframe.workload.corpora import Corpus
from loadframe.workload.forms import Operation
from loadframe.workload.phases import Phase
from loadframe.workload.variables import Variable
from loadframe.yamlfile import NOT_EMPTY, Model, Name, Scalar


class Product(Model):
    """Numbers multiplied."""

    product: Annotated[list[int | float], NOT_EMPTY]


class WorkloadFile(Model):
    """A workload: what there is, what can be asked of it, and the load."""

    workload: Name
    description: str = ""
    parameters: dict[str, Scalar | Product] = Field(default_factory=dict)
    collections: dict[Name, Collection] = Field(default_factory=dict)
    corpora: dict[Name, Corpus] = Field(default_factory=dict)
    variables: dict[str, Variable] = Field(default_factory=dict)
    operations: Annotated[dict[Name, Operation], NOT_EMPTY]
    phases: Annotated[tuple[Phase, ...], Strict(False), NOT_EMPTY]
