"""YAML files that people write: read into plain data with positions, checked by a model, wrong with a line number.

It is not a general YAML reader, and it knows no file format: the formats are models of their owners (see
`loadframe.workload`, `loadframe.experiment`), made of the field types here.
"""

from loadframe.yamlfile.compose import Document, Place, read, scalar
from loadframe.yamlfile.fields import (
    NOT_EMPTY,
    Bandwidth,
    Duration,
    Model,
    Name,
    Rate,
    Scalar,
    Size,
    did_you_mean,
    quantity,
    shown,
    wrong,
)
from loadframe.yamlfile.validate import load, validate

__all__ = [
    "NOT_EMPTY",
    "Bandwidth",
    "Document",
    "Duration",
    "Model",
    "Name",
    "Place",
    "Rate",
    "Scalar",
    "Size",
    "did_you_mean",
    "load",
    "quantity",
    "read",
    "scalar",
    "shown",
    "validate",
    "wrong",
]
