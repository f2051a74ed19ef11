"""YAML files: reading with positions, validation by models, and errors with line numbers.

The formats are models in other packages (`loadframe.workload`, `loadframe.experiment`), built from the field types
here. Only a subset of YAML is supported; see `compose`.
"""

from loadframe.yamlfile.compose import Document, Place, document_of, read, scalar
from loadframe.yamlfile.model import (
    NOT_EMPTY,
    QUANTITY,
    Bandwidth,
    Duration,
    Model,
    Name,
    Rate,
    Scalar,
    Size,
    did_you_mean,
    load,
    quantity,
    short_json,
    validate,
    wrong,
)

__all__ = [
    "NOT_EMPTY",
    "QUANTITY",
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
    "document_of",
    "load",
    "quantity",
    "read",
    "scalar",
    "short_json",
    "validate",
    "wrong",
]
