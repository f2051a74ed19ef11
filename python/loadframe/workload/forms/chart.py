"""How the answer to an operation is drawn for those who watch a run. Models only."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from loadframe.yamlfile import NOT_EMPTY, Model, shown, wrong


def _place(value: str) -> str:
    if value and not value.startswith("/"):
        raise wrong(
            f"{shown(value)} is not a place in an answer", "write a JSON pointer, such as /aggregations/ads/buckets"
        )
    return value


#: A JSON pointer into an answer, or into a row of it; in one to rows `*` stands for each element of a list.
Place = Annotated[str, AfterValidator(_place)]
Text = Annotated[str, Field(min_length=1, max_length=200)]


class Chart(Model):
    """What of an answer is drawn.

    `bars` are rows with the greatest values first, `columns` rows in the order of the answer, such as those of a
    histogram. `rows` leads to the list of them, `label` and `value` to what each has, and `beside` to further numbers
    that stand with it. Rows with the same label are added up. `figures` are single values of the answer.
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
    def _whole(self) -> "Chart":
        if self.kind == "figures":
            for key in ("rows", "label", "value"):
                if getattr(self, key) is not None:
                    raise wrong(f"figures have no {key}", "remove it, or say kind: bars", key=key)
            if self.beside:
                raise wrong("figures have nothing beside them", "say it under figures", key="beside")
            if self.figures is None:
                raise wrong("it is not said which figures", "say figures: {NAME: /pointer}")
            return self
        for key in ("rows", "label", "value"):
            if getattr(self, key) is None:
                what = (
                    "it is not said where the rows are"
                    if key == "rows"
                    else f"it is not said where the {key} of a row is"
                )
                raise wrong(what, f"say {key}: /pointer")
        return self

    def dump(self) -> dict[str, Any]:
        """Return what the file says, ready for JSON."""
        return self.model_dump(exclude_unset=True)
