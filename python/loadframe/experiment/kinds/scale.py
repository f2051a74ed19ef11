"""Scale experiments: throughput and response times against sizes, with constant or growing data.

The number of clients may be a factor, or `auto`: doubled on each cluster until it is saturated.
"""

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Tag, model_validator
from pydantic.types import Discriminator

from loadframe.analyze.rates import RATES, RateName
from loadframe.experiment.design import Design, PlannedRun
from loadframe.experiment.design.plans import factorial, run_id
from loadframe.experiment.experiment import Experiment
from loadframe.experiment.file.factors import WITH, Level, is_expression
from loadframe.experiment.file.model import Count, CurvesFile, Estimate, ExperimentFile, Levels, Written
from loadframe.experiment.kinds.base import Kind, spacing
from loadframe.record.schema import SUMMARY_FILE
from loadframe.workload.pacing import Arrivals
from loadframe.yamlfile import did_you_mean, wrong

if TYPE_CHECKING:
    from loadframe.analyze.scale.saturation import ClientsTried

#: Value of `clients` that doubles the number until the cluster is saturated.
AUTO = "auto"
_Auto = Literal["auto"]


def _form(value: Any) -> str:
    """Return the tag of the model for a value of `clients`: expression, auto or level."""
    if is_expression(value):
        return "expression"
    return "auto" if isinstance(value, str) else "level"


class ScaleFile(CurvesFile):
    """File of a scale experiment.

    `objective` selects requests or documents for the curves. With `scaling: strong` the data is constant; with `weak`,
    the parameter named by `grows` is multiplied by the number of nodes. `estimate` is the gate's estimator of ratios.
    """

    objective: RateName = "throughput"
    scaling: Literal["strong", "weak"] = "strong"
    grows: str | None = None
    estimate: Estimate | None = None
    clients: (
        Annotated[
            Annotated[Count, Tag("level")] | Annotated[Written, Tag("expression")] | Annotated[_Auto, Tag("auto")],
            Discriminator(_form),
        ]
        | None
    ) = None

    @property
    def finds_clients(self) -> bool:
        """Whether the number of clients is found on each cluster (`clients: auto`)."""
        return self.clients == AUTO

    @model_validator(mode="after")
    def _clients(self) -> "ScaleFile":
        """Refuse `clients: auto` with clients or a rate as a factor, and with `until`."""
        if self.finds_clients and ("clients" in self.factors or "rate" in self.factors):
            raise wrong(
                "clients: auto cannot be combined with clients or rate as a factor", "remove one", key="clients"
            )
        if self.finds_clients and self.until:
            raise wrong("clients: auto needs a fixed number of repetitions",
                        "remove until, and set repetitions", key="until")  # fmt: skip
        return self

    @model_validator(mode="after")
    def _scaling(self) -> "ScaleFile":
        """Refuse `grows` without weak scaling, and weak scaling without `grows` or without nodes as a factor."""
        if self.scaling == "strong" and self.grows is not None:
            raise wrong("grows requires weak scaling", "set scaling: weak, or remove grows", key="grows")
        if self.scaling == "weak" and self.grows is None:
            raise wrong("weak scaling requires grows", "set grows to a parameter of the workload", key="scaling")
        if self.scaling == "weak" and "nodes" not in self.factors:
            raise wrong("weak scaling requires nodes as a factor", "add nodes to factors", key="scaling")
        return self


class Scale(Kind):
    """Runs every combination of the factors' levels, in randomised blocks."""

    model = ScaleFile
    uneven = True
    grown = True

    def factors(self, file: ExperimentFile) -> Mapping[str, Levels]:
        """Return the factors and their levels as written in the file."""
        return _scale_file(file).factors

    def check(self, experiment: Experiment) -> None:
        """Raise BadInput if every factor has one level, except with `clients: auto`, or if `grows` cannot grow."""
        if not _scale_file(experiment.file).finds_clients and all(
            len(factor.levels) == 1 for factor in experiment.factors
        ):
            what = "every factor has only one level"
            remedy = "give a factor more levels, such as nodes: [1, 2, 4]"
            raise experiment.document.error(("factors",), what, remedy, key=True)
        _check_growth(experiment)

    def arrivals(self, experiment: Experiment) -> Iterable[Arrivals]:
        """Return the arrival processes of open loads; with `clients: auto` the load is closed loop."""
        if _scale_file(experiment.file).finds_clients:
            return spacing(experiment, clients=True)
        return super().arrivals(experiment)

    def design(self, experiment: Experiment) -> Design:
        """Return every combination; with `clients: auto`, each with the initial number of clients.

        BadInput for too many runs.
        """
        planned = factorial(experiment, experiment.factors)
        if not _scale_file(experiment.file).finds_clients:
            return planned
        from loadframe.analyze.scale.saturation import next_clients

        first = next_clients(())
        assert first
        return Design(planned.seed, tuple(_with_clients(run, first) for run in planned.runs))

    def largest_design(self, experiment: Experiment) -> Design:
        """Return the largest design; with `clients: auto`, with all numbers of clients that each cluster may get."""
        if not _scale_file(experiment.file).finds_clients:
            return super().largest_design(experiment)
        from loadframe.analyze.scale.saturation import every_clients

        planned = factorial(experiment, experiment.factors)
        return Design(
            planned.seed, tuple(_with_clients(run, clients) for run in planned.runs for clients in every_clients())
        )

    def next_runs(self, experiment: Experiment, runs_path: Path) -> Sequence[PlannedRun]:
        """Return, with `clients: auto`, a run with the next number of clients for each unsaturated cluster.

        Then, for saturated clusters, runs with numbers that only other blocks tried: in the end all blocks have the
        same numbers. Otherwise one lucky run could decide the best number. Without `auto`, the next block of `until`.
        """
        if not _scale_file(experiment.file).finds_clients:
            return super().next_runs(experiment, runs_path)
        planned = factorial(experiment, experiment.factors).runs
        ramps = [_next(experiment, run, runs_path) for run in planned]
        loaded = [run for run, following in zip(planned, ramps, strict=True) if following is None]
        return (*filter(None, ramps), *_missing(loaded, planned, runs_path))

    def parameters(self, experiment: Experiment, treatment: Mapping[str, Level]) -> Mapping[str, Level]:
        """Return the growing parameter of weak scaling, times the number of nodes; empty for strong scaling."""
        grows = _scale_file(experiment.file).grows
        if grows is None:
            return {}
        return {grows: int(str(experiment.workload.parameters[grows])) * experiment.nodes(treatment)}


def _next(experiment: Experiment, planned: PlannedRun, runs_path: Path) -> PlannedRun | None:
    """Return the run with the next number of clients for a planned treatment; None if its cluster is saturated."""
    from loadframe.analyze.scale.saturation import next_clients

    steps: list[ClientsTried] = []
    while clients := next_clients(steps):
        run = _with_clients(planned, clients)
        if not (runs_path / run.id).exists():
            return run
        steps.append(_step(runs_path / run.id, clients, experiment.measured[0], _scale_file(experiment.file).objective))
    return None


def _missing(loaded: Sequence[PlannedRun], planned: Sequence[PlannedRun], runs_path: Path) -> Iterator[PlannedRun]:
    """Yield runs for the saturated treatments `loaded`, with numbers of clients that only other blocks have recorded.

    `planned` has the treatments of all blocks, without clients.
    """
    from loadframe.analyze.scale.saturation import every_clients

    for run in loaded:
        alike = [other for other in planned if other.treatment == run.treatment]
        for clients in every_clients():
            wanted = _with_clients(run, clients)
            tried = any((runs_path / _with_clients(other, clients).id).exists() for other in alike)
            if tried and not (runs_path / wanted.id).exists():
                yield wanted


def _step(path: Path, clients: int, phase: str, objective: RateName) -> "ClientsTried":
    """Return the result of a run with `clients` clients from its folder `path`, for the rate `objective` of `phase`.

    Cached until the run is written again.
    """
    # A failed run may be repeated under the same name.
    written = (path / SUMMARY_FILE).stat()
    return _read_step(path, clients, phase, objective, (written.st_ino, written.st_mtime_ns))


@functools.lru_cache(maxsize=10_000)
def _read_step(path: Path, clients: int, phase: str, objective: RateName, _written: tuple[int, int]) -> "ClientsTried":
    """Read the result for `_step`. `_written` (inode and time of the summary) is only part of the cache's key."""
    from loadframe.analyze.experiment import RecordedRun
    from loadframe.analyze.scale.saturation import clients_tried
    from loadframe.record import Run

    return clients_tried(RecordedRun(path.name, None, {"clients": clients}, Run(path)), phase, RATES[objective])


def _with_clients(planned: PlannedRun, clients: int) -> PlannedRun:
    """Return a planned run with another number of clients, the identifier for it, and the seed of another trial.

    Numbers of clients are tried in ascending order on one cluster. With one seed, each run would repeat the requests of
    the run before, which caches answer.
    """
    from loadframe.analyze.scale.saturation import every_clients

    treatment: dict[str, Level] = {**planned.treatment, "clients": clients}
    name = run_id(planned.block, treatment)
    return PlannedRun(name, planned.block, treatment, planned.state, trial=every_clients().index(clients) + 1)


def _scale_file(file: ExperimentFile) -> ScaleFile:
    """Return the file as the model of this kind; AssertionError for another kind."""
    assert isinstance(file, ScaleFile)
    return file


def _check_growth(experiment: Experiment) -> None:
    """Raise BadInput if `grows` is unknown, not a whole number, a factor or an expression. Nothing without `grows`."""
    document, grows = experiment.document, _scale_file(experiment.file).grows
    if grows is None:
        return
    parameters = experiment.workload.parameters
    if grows not in parameters:
        what = f"unknown parameter {grows!r} of the workload"
        raise document.error(("grows",), what, did_you_mean(grows, parameters))
    value = parameters[grows]
    if isinstance(value, bool) or not isinstance(value, int):
        raise document.error(
            ("grows",), f"{grows} is not a whole number", "choose a whole-number parameter, such as documents"
        )
    if WITH + grows in [factor.name for factor in experiment.factors]:
        raise document.error(("grows",), f"{grows} is both in grows and a factor", "remove one of them")
    if is_expression(experiment.file.with_.get(grows)):
        what = f"{grows} is both in grows and an expression"
        raise document.error(("with", grows), what, "remove one of them")


KIND = Scale()
