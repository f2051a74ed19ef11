"""Plots of runs and experiments that show in notebooks and save themselves.

BadInput for a folder without a valid experiment.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from html import escape
from pathlib import Path

from loadframe.base.errors import BadInput
from loadframe.library.arguments import checked, listed
from loadframe.library.reports import save_file
from loadframe.record import Run
from loadframe.report.plot import Figure
from loadframe.report.plot.draw import draw
from loadframe.yamlfile import did_you_mean


class Plot:
    """A plot, as SVG, with its caption.

    >>> plot = loadframe.open("results/tail").plot.over_time()
    >>> plot.save("results/tail.svg").name
    'tail.svg'
    """

    def __init__(self, figure: Figure) -> None:
        """Create the plot of a figure of a report."""
        self._figure = figure

    @property
    def name(self) -> str:
        """The name of the plot."""
        return self._figure.name

    @property
    def caption(self) -> str:
        """The text that explains the plot."""
        return self._figure.caption

    @cached_property
    def svg(self) -> str:
        """The plot as an SVG document of a fixed size."""
        size = f'width="{self._figure.width}" height="{self._figure.height}" '
        return draw(self._figure).replace("<svg ", f"<svg {size}", 1)

    @checked
    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the plot as .svg, .pdf or .png and return its path; BadInput for other suffixes, or if that fails.

        Replaces an existing file. PDF and PNG need the extra `figures`.
        """
        from loadframe.report.export import FONT, PLOTS, converted

        target = Path(path)
        kind = target.suffix.removeprefix(".")
        if kind not in PLOTS:
            raise BadInput(
                f"plots are saved as .svg, .pdf or .png, not {target.suffix or 'without a suffix'}",
                where=str(target),
                remedy="name a file with one of these suffixes",
            )
        return save_file(converted(draw(self._figure, font=FONT), kind), target)

    def __repr__(self) -> str:
        return f"<Plot {self.name}>"

    def _repr_html_(self) -> str:
        """Return HTML for a notebook: the SVG and the caption."""
        return f'<div style="max-width: {self._figure.width}px">{self.svg}<p>{escape(self.caption)}</p></div>'


class _Plots(Mapping[str, Plot]):
    """Plots by name, which show together in notebooks."""

    def __contains__(self, name: object) -> bool:
        """Return whether a plot has this name."""
        return name in list(self)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return f"<Plots: {', '.join(self) or 'none'}>"

    def _repr_html_(self) -> str:
        """Return HTML for a notebook: all plots with their captions."""
        return "".join(plot._repr_html_() for plot in self.values())


class RunPlots(_Plots):
    """The plots of one run, by name or by method.

    >>> plots = loadframe.open("results/tail").plot
    >>> list(plots)
    ['over_time', 'percentiles']
    >>> plots["over_time"]
    <Plot over-time>
    >>> plots.percentiles(operations=["read", "scan"])
    <Plot percentiles>
    """

    def __init__(self, run: Run) -> None:
        """Plot this run."""
        self._run = run

    def __iter__(self) -> Iterator[str]:
        """Yield the names, which are also the names of the methods."""
        return iter(("over_time", "percentiles"))

    @checked
    def __getitem__(self, name: str) -> Plot:
        """Return a plot; BadInput for an unknown name."""
        if name not in self:
            raise _unknown(name, self, self._run.path)
        plot: Plot = getattr(self, name)()
        return plot

    def over_time(self) -> Plot:
        """Throughput, response times and activities of the store over the whole run."""
        from loadframe.analyze.dips import dips_of
        from loadframe.report.plots.run import run_over_time

        return Plot(run_over_time(self._run, "over-time", dips_of(self._run)))

    @checked
    def percentiles(self, operations: str | Sequence[str] | None = None) -> Plot:
        """Response time by percentile for each operation of the measured phases: the shape of the tail.

        `operations` selects operations; BadInput for an unknown one. A curve ends where fewer than ten requests are
        slower.
        """
        from loadframe.report.plots.run import response_by_percentile

        chosen = None if operations is None else listed(operations)
        summary = self._run.summary
        known = [operation for phase in summary.measured or summary.phases for operation in phase.single]
        for name in chosen or ():
            if name not in known:
                raise BadInput(f"unknown operation {name!r}", remedy=did_you_mean(name, known))
        return Plot(response_by_percentile(self._run, "percentiles", chosen))


def _unknown(name: str, plots: _Plots, path: Path) -> BadInput:
    """Return the error for an unknown plot; its remedy is the nearest known name."""
    return BadInput(f"unknown plot {name!r}", where=str(path), remedy=did_you_mean(name, list(plots)))


class ExperimentPlots(_Plots):
    """The plots of an experiment by name, as in its report. The names depend on its kind.

    scale: `throughput over nodes`, `throughput over clients`, `response over clients`. capacity: `capacity`, `trials`.
    elastic: `run`. compare: `throughput`, `effects`, `runs`. settings: `effects`, `interaction`, `trials`. With several
    curves or treatments the names have a number, such as `trials 2`.

    >>> plots = loadframe.open("results/nodes").plot
    >>> list(plots)
    ['throughput over nodes', 'throughput over clients', 'response over clients']
    >>> plots["throughput over clients"].svg.startswith("<svg")
    True
    """

    def __init__(self, path: Path, kind: str) -> None:
        """Plot the experiment of this kind in a folder."""
        self._path = path
        self._kind = kind

    @cached_property
    def _figures(self) -> dict[str, Figure]:
        """The figures of the report by name, without empty ones; a repeated name has a number, such as `trials 2`."""
        figures: dict[str, Figure] = {}
        for name, figure in _FIGURES[self._kind](self._path):
            if figure:
                number = sum(key == name or key.startswith(f"{name} ") for key in figures)
                figures[f"{name} {number + 1}" if number else name] = figure
        return figures

    @checked
    def __getitem__(self, name: str) -> Plot:
        """Return a plot; BadInput for an unknown name."""
        if name not in self._figures:
            raise _unknown(name, self, self._path)
        return Plot(self._figures[name])

    def __iter__(self) -> Iterator[str]:
        """Yield the names."""
        return iter(self._figures)


_Named = Iterator[tuple[str, Figure | None]]


def _scale(path: Path) -> _Named:
    """Yield (name, plot) for the three plots of each curve of a scale experiment.

    A plot is None if it would be empty.
    """
    from loadframe.analyze.scale.sweep import read_sweep
    from loadframe.report.plots import scale

    for curves in read_sweep(path).curves:
        yield "throughput over nodes", scale.throughput_over_nodes(curves, "throughput-over-nodes")
        yield "throughput over clients", scale.throughput_over_clients(curves, "throughput-over-clients")
        yield "response over clients", scale.response_over_clients(curves, "response-over-clients")


def _capacity(path: Path) -> _Named:
    """Yield (name, plot) for the capacity by cluster size, if only that varies, and for the trials of each capacity.

    A plot is None if it would be empty.
    """
    from loadframe.analyze.capacity import curve, read_capacities
    from loadframe.report.plots.capacity import capacity_plot, trials_plot

    capacities = read_capacities(path)
    only_nodes = all(set(capacity.treatment) <= {"nodes"} for capacity in capacities.capacities)
    if only_nodes and len({capacity.nodes for capacity in capacities.capacities if capacity.rate}) > 1:
        fitted, _ = curve(capacities.capacities, int(capacities.folder.description.get("seed") or 0))
        yield "capacity", capacity_plot(capacities.capacities, fitted, "capacity")
    for capacity in capacities.capacities:
        yield "trials", trials_plot(capacity, capacities, "trials")


def _elastic(path: Path) -> _Named:
    """Yield (`run`, plot) for each group of an elastic experiment; an empty plot is None."""
    from loadframe.analyze.elastic import read_elasticity
    from loadframe.report.plots.elastic import run_plot

    for group in read_elasticity(path).groups:
        yield "run", run_plot(group, "run")


def _compare(path: Path) -> _Named:
    """Yield (name, plot) for `throughput`, `effects` and `runs` of a comparison; an empty plot is None."""
    from loadframe.analyze.compare import compare_variants
    from loadframe.analyze.experiment import read_experiment
    from loadframe.report.kinds.compare import effects_plot, strip_plot, throughput_plot

    comparison = compare_variants(read_experiment(path))
    yield "throughput", throughput_plot(comparison, "throughput")
    yield "effects", effects_plot(comparison, "effects")
    yield "runs", strip_plot(comparison, "runs")


def _settings(path: Path) -> _Named:
    """Yield (name, plot) for effects and interactions of a settings experiment.

    Where a search has no responses, its `trials` are plotted instead of the effects.
    """
    from loadframe.analyze.settings.analysis import read_settings
    from loadframe.report.kinds.settings import course, effects_plots, interactions

    settings = read_settings(path)
    levels = settings.folder.description["factors"]
    for result in settings.results:
        for index in range(len(result.responses)):
            for figure in effects_plots(result, index, levels, "effects"):
                yield "effects", figure
        for figure in interactions(result, "interaction", levels):
            yield "interaction", figure
        if result.course and not result.responses:
            yield "trials", course(result, "trials")


_FIGURES: dict[str, Callable[[Path], _Named]] = {
    "scale": _scale,
    "capacity": _capacity,
    "elastic": _elastic,
    "compare": _compare,
    "settings": _settings,
}
