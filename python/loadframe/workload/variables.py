"""Variables: values that differ from request to request, drawn by the engine from the seed and the request's number."""

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, Strict, model_validator

from loadframe.yamlfile import NOT_EMPTY, Model, shown, wrong


def _number(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise wrong(f"expected a number, not {shown(value)}")
    return value


def _pair(value: Any) -> Any:
    if not isinstance(value, list) or len(value) != 2:
        raise wrong(f"expected two numbers, [low, high], not {shown(value)}")
    return value


def _choice(value: Any) -> Any:
    return {"values": value} if isinstance(value, list) else value


#: A whole number stays one: whether both bounds are decides what is drawn.
Number = Annotated[int | float, BeforeValidator(_number)]
Weight = Annotated[float, Field(gt=0)]


class Choice(Model):
    """One of some values, with equal or given weights."""

    values: Annotated[list[Any], NOT_EMPTY]
    weights: list[Weight] | None = None

    @model_validator(mode="after")
    def _one_weight_each(self) -> "Choice":
        if self.weights is not None and len(self.weights) != len(self.values):
            raise wrong(f"{len(self.values)} values have {len(self.weights)} weights", key="weights")
        return self


class Sequential(Model):
    """Counts requests: the first one's value, and one more for each further."""

    from_: int = Field(0, alias="from")


class Variable(Model):
    """One way to draw a value: `uniform: [low, high]`, `constant`, `choice`, `sequential`.

    Between whole numbers `uniform` draws whole numbers, both bounds included.
    """

    uniform: Annotated[tuple[Number, Number], Strict(False), BeforeValidator(_pair)] | None = None
    constant: Any = None
    choice: Annotated[Choice, BeforeValidator(_choice, json_schema_input_type=Choice | list[Any])] | None = None
    sequential: Sequential | None = None

    @model_validator(mode="after")
    def _one_way(self) -> "Variable":
        ways = sorted(self.model_fields_set)
        if len(ways) != 1:
            raise wrong(
                f"expected one way to draw a value, not {len(ways)}", f"say one of {', '.join(type(self).model_fields)}"
            )
        if self.uniform is not None and self.uniform[0] > self.uniform[1]:
            raise wrong("the lower bound is above the upper one", "write [low, high]", key="uniform")
        return self

    def dump(self) -> dict[str, Any]:
        """Return the variable as the engine takes it."""
        if self.choice is not None and self.choice.weights is None:
            return {"choice": self.choice.values}
        if self.sequential is not None:
            return {"sequential": {"from": self.sequential.from_}}
        return self.model_dump(mode="json", exclude_unset=True)
