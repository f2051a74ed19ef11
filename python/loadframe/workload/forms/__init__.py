"""Operations: one request to a store, in the forms that the families of stores have for it.

Models only: what an operation may say. Bytes are made of it by the engine's drivers, whose interface the dumped forms
are. Bodies, paths and ids may hold `${variable}` holes, which are filled per request.
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
