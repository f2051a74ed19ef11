"""Operations: models of requests to a store, with one form per store family where they differ.

Dumped forms are the input of the engine's drivers, which build the requests. Bodies, paths and ids may contain
`${variable}` placeholders, which are filled per request.
"""

from loadframe.workload.forms.form import (
    NATIVE,
    NEUTRAL,
    Family,
    Form,
    Forms,
    Operation,
    every_form,
    families,
    form_for,
)
from loadframe.workload.forms.values import Positive, Text

__all__ = [
    "NATIVE",
    "NEUTRAL",
    "Family",
    "Form",
    "Forms",
    "Operation",
    "Positive",
    "Text",
    "every_form",
    "families",
    "form_for",
]
