"""Charts of an operation's answers in the live view of a run. Models only."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from loadframe.yamlfile import NOT_EMPTY, Model, shown, wrong


def _place(value: str) -> str:
    if value and not value.startswith("/"):
        raise wrong(f"{shown(value)} is not a JSON pointer", "start it with /, such as /aggregations/ads/buckets")
    return value


#: A JSON pointer into an answer or into a row; in `rows`, `*` matches each element of a list.
Place = Annotated[str, AfterValidator(_place)]
Text = Annotated[str, Field(min_length=1, max_length=200)]


class Chart(Model):
    """A chart of an answer.

    `bars` are rows sorted by value, greatest first. `columns` are rows in the order of the answer, as in a histogram.
    `figures` are single values. `rows` points to the list of rows; `label`, `value` and the additional numbers in
    `beside` point into a row. Rows with the same label are summed.
    """

    kind: Literal["bars", "columns", "figures"]
    title: Text | None = None
    rows: Place | None = None
    label: Place | None = None
    value: Place | None = None
    unit: Text | None = None
    beside: dict[Text, Place] = Field(default_factory=dict)
    figures: Annotated[dict[Text, Place], NOT_EMPTY] | None = None

    @model_validator(mode="after")
    def _check_keys(self) -> "Chart":
        if self.kind == "figures":
            for key in ("rows", "label", "value"):
                if getattr(self, key) is not None:
                    raise wrong(f"kind: figures does not support {key}", f"remove {key}, or use kind: bars", key=key)
            if self.beside:
                raise wrong("kind: figures does not support beside", "move it into figures", key="beside")
            if self.figures is None:
                raise wrong("kind: figures requires figures", "add figures: {NAME: /pointer}")
            return self
        for key in ("rows", "label", "value"):
            if getattr(self, key) is None:
                raise wrong(f"kind: {self.kind} requires {key}", f"add {key}: /pointer")
        return self

    def dump(self) -> dict[str, Any]:
        """Return the keys that the file sets, ready for JSON."""
        return self.model_dump(exclude_unset=True)
