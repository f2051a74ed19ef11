"""Calls that measure and judge; each has a command of the same name."""

import os
import secrets
import signal
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any, Literal, Unpack

from loadframe.analyze.compare import USUAL
from loadframe.analyze.gate import Thresholds
from loadframe.analyze.scalability import fit as fit_models
from loadframe.analyze.scalability.observations import parse_table
from loadframe.base.errors import BadInput
from loadframe.base.units import MOST_SEED, MOST_THREADS
from loadframe.base.untrusted import read_input
from loadframe.experiment.runner.folder import opened_folder
from loadframe.experiment.runner.loop import run_experiment
from loadframe.library import answers as shown
from loadframe.library.arguments import Count, Nodes, Positive, Range, checked, listed
from loadframe.library.bench import Bench, parse_schedule
from loadframe.library.checking import answers, rendered_requests, small_workload
from loadframe.library.cluster import Cluster, existing_cluster, spec_from
from loadframe.library.comparing import compare_groups, gate_groups, parse_bound, shares_by_measure
from loadframe.library.experiment import Experiment
from loadframe.library.options import (
    Access,
    OfRun,
    OtherTool,
    attachment,
    default_path,
    levels,
    refuse_contradictions,
    refuse_unused_data_options,
    require_free,
    require_level,
    require_measures,
    share,
)
from loadframe.library.plan import job_deadline, planned_runs
from loadframe.library.progress import Callback, listener_of
from loadframe.library.reports import Converted, converted, require_usable
from loadframe.library.run import Run
from loadframe.library.workload import Value, Workload, loaded_workload
from loadframe.load import Generator
from loadframe.store import find

#: Maximum size of a table of measurements, bytes.
_MOST = 16 << 20
#: A recorded run or experiment: an object, a folder, or a quoted pattern of folders.
Recorded = str | os.PathLike[str] | Run | Experiment


@checked
def bench(
    workload: str | os.PathLike[str] | Workload,
    *,
    output: str | os.PathLike[str] | None = None,
    store: str = "opensearch",
    version: str | None = None,
    nodes: Nodes | None = None,
    cpus: Positive | None = None,
    memory: str | int | None = None,
    cores: str | None = None,
    home: str | None = None,
    host: str | None = None,
    encryption: str | None = None,
    settings: Mapping[str, Any] | None = None,
    hosts: str | Sequence[str] | None = None,
    cluster: str | Cluster | None = None,
    replace: bool = False,
    reuse: bool = False,
    parameters: Mapping[str, Value] | None = None,
    only: str | Sequence[str] = (),
    clients: Count | None = None,
    rate: str | float | None = None,
    arrivals: Literal["constant", "poisson"] | None = None,
    warmup: str | float | None = None,
    duration: str | float | None = None,
    precision: str | float | None = None,
    at: str | Sequence[str] = (),
    seed: Annotated[int, Range(0, MOST_SEED)] | None = None,
    threads: Annotated[int, Range(1, MOST_THREADS)] = 1,
    samples: bool = False,
    spin: bool = False,
    kernel_timestamps: bool = False,
    allow_bad: bool = False,
    progress: Callback | None = None,
    **access: Unpack[Access],
) -> Run:
    """Run one workload on one cluster and return the recorded run.

    Arguments are the options of `loadframe bench`; `settings` is `--store-set`, `parameters` is `--set`, `at` is a list
    such as `["30s=kill:node-1"]`. Times are s or texts such as "10s"; `precision` requires `duration="auto"`. Without
    `hosts` (addresses) and `cluster` (a name or a running `Cluster`), a cluster is started for the run. `output` must
    not exist (default: results/NAME-TIME). An interrupt raises KeyboardInterrupt and keeps the recorded part.

    >>> run = loadframe.bench(workload, store="sim", output="results/bench")
    >>> run.status
    'done'
    """
    given = {
            "hosts": hosts, "cluster": cluster, "replace": replace, "reuse": reuse, "clients": clients, "rate": rate,
            "arrivals": arrivals, "at": listed(at) or None, "version": version, "nodes": nodes, "cpus": cpus,
            "memory": memory, "cores": cores, "home": home, "host": host, "encryption": encryption,
            "settings": settings or None,
        }  # fmt: skip
    refuse_contradictions(given)
    refuse_unused_data_options(given)
    override = levels(clients, rate, arrivals, warmup, duration, precision=precision)
    loaded = loaded_workload(workload, parameters or {})
    if only:
        loaded = loaded.choose(listed(only), where="only")
    listener = listener_of(progress)
    attached = attachment(store, hosts, access, listener.remark)
    path = Path(output) if output is not None else default_path(loaded.name)
    require_free(path, "output")
    place = (
        attached
        or existing_cluster(cluster)
        or spec_from(
            store,
            version=version,
            nodes=1 if nodes is None else nodes,
            cpus=cpus,
            memory=memory,
            cores=cores,
            settings=settings,
            encryption=encryption or "none",
            home=home,
            host=host or "local",
        )
    )
    made = Bench(
        workload=loaded,
        path=path,
        cluster=place,
        generator=Generator(threads, samples=samples, spin=spin, kernel_timestamps=kernel_timestamps),
        seed=secrets.randbits(32) if seed is None else seed,
        override=override,
        actions=parse_schedule(listed(at)),
        name=cluster if isinstance(cluster, str) else None,
        replace=replace,
        reuse=reuse,
        allow_bad=allow_bad,
        driver=None if cluster else find(store).driver,
    )
    if not made.carry_out(listener):
        raise KeyboardInterrupt
    return Run(path)


@checked
def run(
    experiment: str | os.PathLike[str] | Experiment,
    *,
    output: str | os.PathLike[str] | None = None,
    samples: bool = False,
    retry_failed: bool = False,
    strict: bool = False,
    progress: Callback | None = None,
) -> Experiment:
    """Run an experiment, or resume it in its folder, and return the recorded experiment.

    `output` is the folder (default: results/NAME). `samples` also records each request. NothingUsable if no run is
    valid; with `strict`, if one is invalid for a reason other than the store. Failed runs are rows of `runs`;
    `retry_failed` repeats those of an earlier call. `progress` receives reports of progress. LoadframeError if a Slurm
    job ends before the last run; call it again in another job.

    >>> planned = loadframe.Experiment(
    ...     experiment="clients", kind="scale", store={"kind": "sim"}, workload=workload, factors={"clients": [1, 2]}
    ... )
    >>> recorded = loadframe.run(planned, output="results/clients")
    >>> recorded.runs.to_polars()["status"].to_list()
    ['done', 'done']
    """
    defined = experiment if isinstance(experiment, Experiment) else Experiment.load(experiment)
    planned = planned_runs(defined.planned(), output, samples=samples)
    with opened_folder(planned.experiment, planned.design, planned.path, retry_failed=retry_failed) as folder:
        listener = listener_of(progress)
        deadline = job_deadline(listener.remark)
        # The handler of SIGINT raises KeyboardInterrupt, in the main thread; the one of SIGTERM may end the process.
        is_main = threading.current_thread() is threading.main_thread()
        with deadline.watched(signal.SIGINT) if is_main else nullcontext():
            run_experiment(planned.experiment, planned.design, folder, listener, deadline)
    require_usable(planned.path, strict=strict)
    return Experiment._opened(planned.path)


@checked
def check(
    workload: str | os.PathLike[str] | Workload,
    *,
    store: str = "opensearch",
    hosts: str | Sequence[str] | None = None,
    offline: bool = False,
    parameters: Mapping[str, Value] | None = None,
    progress: Callback | None = None,
    **access: Unpack[Access],
) -> "shown.Checks":
    """Send each operation of a workload once; return request, answer and judgement of each.

    Starts a node and loads a few documents first, unless `hosts` names an existing cluster. With `offline`, nothing is
    sent, and answers are None. A failed operation raises no error. `parameters` set parameters of the workload.

    >>> checked = loadframe.check(workload, store="sim")
    >>> checked.passed, [answer.operation for answer in checked]
    (True, ['search'])
    """
    if offline and hosts:
        raise BadInput("offline and hosts contradict each other: offline sends nothing", remedy="give one of them")
    given, listener = parameters or {}, listener_of(progress)
    loaded = loaded_workload(workload, given)
    if not hosts:
        loaded = small_workload(loaded, given)
    attached = attachment(store, hosts, access, listener.remark)
    if offline:
        return shown.Checks(rendered_requests(loaded, store, listener).requests)
    return shown.Checks(answers(loaded, store, attached, listener)[0])


@checked
def fit(
    data: str | os.PathLike[str] | Mapping[int, float] | Mapping[float, float] | Iterable[tuple[float, float]],
    *,
    residuals: Literal["relative", "absolute"] = "relative",
    scaling: Literal["strong", "weak"] = "strong",
) -> "shown.Fit":
    """Fit scalability models to throughputs by size: a CSV file, a mapping, or pairs.

    The first column of a file is the size, the second the throughput, and a third, `block`, is possible.
    Repeated sizes are repetitions. `residuals`: noise grows with throughput (`relative`) or does not (`absolute`). With
    `scaling="weak"`, the work grew with the size, and Gustafson's law is fitted, too. BadInput if the data do not
    permit a fit.

    >>> fit = loadframe.fit({1: 955, 2: 1878, 4: 3548, 8: 6531, 16: 9897, 32: 12730})
    >>> fit.best in fit.models
    True
    """
    if isinstance(data, str | os.PathLike):
        table = parse_table(read_input(Path(data), _MOST), str(data))
        pairs, over, blocks, file = table.pairs, table.over, table.blocks, str(data)
    else:
        given = data.items() if isinstance(data, Mapping) else data
        pairs, over, blocks, file = tuple((float(n), float(rate)) for n, rate in given), "n", None, ""
    try:
        return shown.Fit(fit_models(pairs, residuals=residuals, over=over, scaling=scaling, blocks=blocks))
    except BadInput as error:
        raise BadInput(error.what, where=", ".join(filter(None, [file, error.where])), remedy=error.remedy) from error


@checked
def compare(
    *groups: Recorded,
    baseline: str | None = None,
    measures: str | Sequence[str] = USUAL,
    least: str | float = 0.05,
    level: float = 0.05,
    session_spread: str | float = 0.05,
) -> "shown.Comparison":
    """Compare groups of runs with the baseline: ratios with intervals, adjusted for several comparisons.

    A group is a run, an experiment, a folder of runs, or a pattern. A single experiment is split by its variants or
    treatments. `baseline` is the name of a group, such as "nodes 1". Default: the first group, variant or level of each
    factor. `least` is the smallest difference that matters, as a share; `level` is the significance level.
    `session_spread` is the variation between sessions (a share) to assume if the runs are too few to estimate it.

    >>> comparison = loadframe.compare("results/old", "results/new", measures=["throughput"])
    >>> comparison.contrasts.to_polars()["outcome"].to_list()
    ['alike']
    """
    if not groups:
        raise BadInput("no group of runs is given", remedy="name two or more, or one experiment")
    kinds = require_measures(listed(measures), "measures")
    require_level(level, "level")
    compared = compare_groups(
        [_argument(group) for group in groups],
        kinds,
        baseline=baseline,
        least=share(least, "least"),
        level=level,
        session_spread=share(session_spread, "session_spread"),
    )
    return shown.Comparison(compared)


@checked
def gate(
    new: Recorded,
    *,
    baseline: Recorded | None = None,
    history: Recorded | None = None,
    bounds: str | Sequence[str] = (),
    measures: str | Sequence[str] = ("throughput", "p50", "p99", "errors"),
    least: Mapping[str, str | float] | str | float | None = None,
    catch: Mapping[str, str | float] | str | float | None = None,
    watch: str | Sequence[str] = (),
    across_treatments: bool = False,
    session_spread: str | float = 0.05,
) -> "shown.Gate":
    """Judge new runs against earlier runs or bounds such as `["p99<=50ms"]`; see `loadframe gate`.

    `baseline` has runs of one earlier version, `history` of many; give one of them. `least` (the smallest worsening
    that matters) and `catch` (the worsening to detect) are shares, for all measures or by measure. `watch` names
    operations chosen in advance; `across_treatments` permits different treatments. A regression raises no error;
    `require()` of the result raises it.

    >>> loadframe.gate("results/new", baseline="results/old", measures=["throughput"]).standing
    'passed'
    """
    if baseline is not None and history is not None:
        raise BadInput("baseline and history contradict each other: both name the earlier runs", remedy="give one")
    earlier = baseline if baseline is not None else history
    kinds = require_measures(listed(measures), "measures")
    thresholds = Thresholds(
        least=_thresholds(least, kinds, "least"),
        catch=_thresholds(catch, kinds, "catch"),
        bounds=[parse_bound(text, "bounds") for text in listed(bounds)],
    )
    judged, groups = gate_groups(
        _argument(new),
        None if earlier is None else _argument(earlier),
        thresholds,
        kinds,
        history=history is not None,
        session_spread=share(session_spread, "session_spread"),
        across=across_treatments,
        watch=listed(watch),
        written=lambda name: "bounds" if name == "bound" else name,
    )
    return shown.Gate(judged, groups)


@checked
def convert(recorded: Recorded, to: OfRun | OtherTool) -> Converted:
    """Return a run in the format of another tool, or as `query-results`, `queries` or `statistics`.

    `otava`, `jsonl`, `junit` and `markdown` also take an experiment or a folder of runs. See `report --format`.

    >>> print(loadframe.convert("results/tail", "markdown").text.splitlines()[0][:27])
    | run | phase | operation |
    """
    return converted(Path(_argument(recorded)), to)


@checked
def capacity(experiment: str | os.PathLike[str] | Experiment) -> "shown.Capacity":
    """Return the sustained loads that a recorded capacity experiment found. BadInput for another kind of experiment.

    >>> found = loadframe.capacity("results/capacity")
    >>> len(found.capacities)
    1
    """
    path = experiment.path if isinstance(experiment, Experiment) else Path(experiment)
    return shown.Capacity(path)


def _argument(recorded: Recorded) -> str:
    """Return the folder of a run or an experiment, or a given path or pattern, as text."""
    return str(recorded.path) if isinstance(recorded, Run | Experiment) else os.fspath(recorded)


def _thresholds(
    given: Mapping[str, str | float] | str | float | None, kinds: Sequence[str], option: str
) -> dict[str, float]:
    """Return shares by measure, from a mapping or from one share for all `kinds`; empty for None.

    `option` is the name for messages. BadInput for a measure that is not among `kinds`.
    """
    if given is None:
        return {}
    named = given if isinstance(given, Mapping) else dict.fromkeys(kinds, given)
    return shares_by_measure(named, kinds, option)
