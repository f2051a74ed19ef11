"""What the files of all experiments have in common, as models; each kind adds keys of its own, see `kinds`."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, Strict, Tag, model_validator
from pydantic.types import Discriminator

from loadframe.analyze.levels import SIZES, Spacing, numeric_levels
from loadframe.errors import BadInput
from loadframe.experiment.expression import expression, is_expression
from loadframe.experiment.file_store import StoreEntry
from loadframe.load.generator import Spread
from loadframe.ranges import MOST_FIRST_SEED, MOST_RANKS, MOST_THREADS
from loadframe.units import parse_share
from loadframe.workload.pacing import Arrivals
from loadframe.yamlfile import (
    NOT_EMPTY,
    Duration,
    Model,
    Name,
    Rate,
    Scalar,
    did_you_mean,
    quantity,
    wrong,
)

Count = Annotated[int, Field(ge=1)]
#: Names of phases; a single one needs no list.
Phases = Annotated[
    tuple[str, ...],
    Strict(False),
    BeforeValidator(lambda value: [value] if isinstance(value, str) else value, json_schema_input_type=str | list[str]),
]
#: The levels of a factor, and factors by name.
Levels = Annotated[tuple[Scalar, ...], Strict(False), NOT_EMPTY]
Factors = dict[str, Levels]


def _expression(value: str) -> str:
    try:
        expression(value)
    except BadInput as error:
        raise wrong(error.what, error.remedy) from None
    return value


#: An expression, kept as it is written.
Written = Annotated[str, BeforeValidator(_expression)]
#: What tells the two forms of a number apart.
BY_FORM = Discriminator(lambda value: "expression" if is_expression(value) else "level")
#: A number of clients or a rate (1/s) for all runs, or an expression of it.
Clients = Annotated[Annotated[Count, Tag("level")] | Annotated[Written, Tag("expression")], BY_FORM]
PerSecond = Annotated[Annotated[Rate, Tag("level")] | Annotated[Written, Tag("expression")], BY_FORM]


#: A share of something, written `5%` or 0.05.
Share = Annotated[float, quantity(parse_share, 100), Field(gt=0)]


#: How ratios of groups are estimated: by trimmed means, or where it is left out, by means.
Estimate = Literal["robust"]


class Until(Model):
    """When repetitions may end: the half-width of the 95 % intervals relative to the mean, and the most repetitions."""

    relative_interval: Share
    most: Annotated[int, Field(ge=2, le=1000)]


class ExperimentFile(Model):
    """An experiment as it is written, whatever its kind."""

    experiment: Name
    question: str = ""
    published: Annotated[str, Field(min_length=1)] | None = None
    store: StoreEntry
    workload: Annotated[str, Field(min_length=1)]
    with_: dict[str, Scalar] = Field(default_factory=dict, alias="with")
    kind: str
    prepare: Phases | None = None
    measure: Annotated[Phases, NOT_EMPTY] | None = None
    repetitions: Annotated[int, Field(ge=1, le=1000)] = 1
    until: Until | None = None
    warmup: Duration | None = None
    duration: Annotated[Duration, Field(gt=0)] | None = None
    ready_within: Annotated[Duration, Field(gt=0)] | None = None
    arrivals: Arrivals | None = None
    seed: Annotated[int, Field(ge=0, le=MOST_FIRST_SEED)] = 1
    threads: Annotated[int, Field(ge=1, le=MOST_THREADS)] = 1
    ranks: Annotated[int, Field(ge=1, le=MOST_RANKS)] | None = None
    spread: Spread = "fixed"
    connections: Annotated[int, Field(ge=1)] | None = None
    samples: bool = False
    allow_bad: bool = False

    @model_validator(mode="after")
    def _repeated(self) -> "ExperimentFile":
        if self.until and self.until.most < self.repetitions:
            raise wrong("there are more repetitions than that to begin with", "raise most, or lower repetitions",
                        key="until")  # fmt: skip
        return self


class PacedFile(ExperimentFile):
    """An experiment as it is written whose measured phases may have clients, or a rate, that no factor says.

    `crash` is a node that is killed after the load of each run and started again.
    """

    clients: Clients | None = None
    rate: PerSecond | None = None
    crash: Annotated[str, Field(pattern=r"node-\d+")] | None = None


class DrawnFile(PacedFile):
    """An experiment as it is written whose report has curves over each factor of numbers.

    `axes` says how the axis of such a factor is spaced, where its levels are not to decide it.
    """

    factors: Annotated[Factors, NOT_EMPTY]
    axes: dict[str, Spacing] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _axes_of_numbers(self) -> "DrawnFile":
        for name, spacing in self.axes.items():
            if name not in self.factors:
                raise wrong(f"{name} is not a factor", did_you_mean(name, self.factors), key="axes")
            if name in SIZES:
                raise wrong(f"the curve over {name} is fitted and has an axis of its own", "remove it", key="axes")
            levels = numeric_levels(self.factors[name])
            if levels is None:
                raise wrong(f"the levels of {name} are not two numbers or more, so they have no axis",
                            "remove it", key="axes")  # fmt: skip
            if spacing == "log" and min(levels.numbers.values()) <= 0:
                raise wrong(f"{name} has the level 0, which a logarithmic axis cannot show", "say linear", key="axes")
        return self
