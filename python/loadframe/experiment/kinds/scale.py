"""Scale experiments: throughput and response times against sizes, with data that stay or that grow with the nodes."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import model_validator

from loadframe.experiment.experiment import Experiment
from loadframe.experiment.file_factors import WITH, Level
from loadframe.experiment.file_model import ExperimentFile, Factors, Levels
from loadframe.experiment.kinds.base import Kind
from loadframe.yamlfile import NOT_EMPTY, did_you_mean, wrong


class ScaleFile(ExperimentFile):
    """A scale experiment as it is written.

    `scaling` says whether the data stay as they are while nodes are added (strong), or grow with them (weak): then the
    parameter that `grows` names is multiplied by the number of nodes.
    """

    factors: Annotated[Factors, NOT_EMPTY]
    scaling: Literal["strong", "weak"] = "strong"
    grows: str | None = None

    @model_validator(mode="after")
    def _scaling(self) -> "ScaleFile":
        if self.scaling == "strong" and self.grows is not None:
            raise wrong("in strong scaling nothing grows", "say scaling: weak, or remove this", key="grows")
        if self.scaling == "weak" and self.grows is None:
            raise wrong("in weak scaling the data grow", "say grows: with the workload's parameter", key="scaling")
        if self.scaling == "weak" and "nodes" not in self.factors:
            raise wrong("in weak scaling the data grow with the nodes", "make nodes a factor", key="scaling")
        return self


class Scale(Kind):
    """Every combination of the factors' levels, in randomised blocks."""

    model = ScaleFile

    def factors(self, file: ExperimentFile) -> Mapping[str, Levels]:
        """Return the factors as they are written."""
        return _own(file).factors

    def check(self, experiment: Experiment) -> None:
        """Refuse an experiment that cannot answer its question."""
        if all(len(factor.levels) == 1 for factor in experiment.factors):
            what = "every factor has one level, so there is nothing to compare"
            remedy = "give a factor more levels, such as nodes: [1, 2, 4]"
            raise experiment.document.error(("factors",), what, remedy, key=True)
        _check_growth(experiment)

    def parameters(self, experiment: Experiment, treatment: Mapping[str, Level]) -> Mapping[str, Level]:
        """Return, in weak scaling, the parameter that grows."""
        grows = _own(experiment.file).grows
        if grows is None:
            return {}
        return {grows: int(str(experiment.workload.parameters[grows])) * experiment.nodes(treatment)}


def _own(file: ExperimentFile) -> ScaleFile:
    assert isinstance(file, ScaleFile)
    return file


def _check_growth(experiment: Experiment) -> None:
    """Refuse a parameter that cannot grow with the nodes."""
    document, grows = experiment.document, _own(experiment.file).grows
    if grows is None:
        return
    parameters = experiment.workload.parameters
    if grows not in parameters:
        what = f"the workload has no parameter {grows!r}"
        raise document.error(("grows",), what, did_you_mean(grows, parameters))
    value = parameters[grows]
    if isinstance(value, bool) or not isinstance(value, int):
        raise document.error(("grows",), f"{grows} is no whole number and cannot grow", "name one, such as documents")
    if WITH + grows in [factor.name for factor in experiment.factors]:
        raise document.error(("grows",), f"{grows} grows with the nodes and is a factor, too", "remove one of them")


KIND = Scale()
