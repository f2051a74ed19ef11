"""The page of a single run: what is on it, for the template to show."""

from collections.abc import Sequence

from loadframe.analyze.dips import dips_of
from loadframe.analyze.processes import processes_of
from loadframe.record import Run
from loadframe.record.schema.summary import PhaseSummary
from loadframe.report.bands import run_bands
from loadframe.report.cpu import run_cpu
from loadframe.report.labels import (
    closed_text,
    cluster_text,
    ended_early_texts,
    first_failure_texts,
    load_text,
    reconnects_texts,
    retries_texts,
    seconds_text,
    set_aside_texts,
    setup_texts,
    sources_texts,
    with_failures,
)
from loadframe.report.page import render
from loadframe.report.run.delayed import delayed_texts
from loadframe.report.run.dips import dips_table, dips_text
from loadframe.report.run.figures import bounds_of, standing_of
from loadframe.report.run.five_seconds import samples_table
from loadframe.report.run.plots import run_over_time
from loadframe.report.run.sources import sources_over_time, sources_table
from loadframe.report.setup import manifest_facts, run_facts
from loadframe.report.stored import stored_text
from loadframe.report.tables import failures_table, generator_table, growth_table, operations_table, ranks_table
from loadframe.units import format_count


def run_page(run: Run, bands: Sequence[float] = ()) -> str:
    """Return the page of a single run; `bands` are the bounds of bands of response time, s."""
    manifest, summary = run.manifest, run.summary
    workload = manifest.workload.name or run.path.name
    phases = summary.phases
    dips = dips_of(run)
    return render(
        "run.html.j2",
        title=f"{workload}: loadframe report",
        question=f"What does {cluster_text(manifest.store)} do under {workload}?",
        status=summary.status,
        failure=summary.failure,
        headline=_headline(phases),
        verdict=summary.verdict,
        standing=standing_of(run),
        bounds=bounds_of(run),
        operations=operations_table(run) if phases else None,
        remarks=[
            words
            for phase in phases
            for words in (
                *ended_early_texts(phase),
                *first_failure_texts(phase),
                *set_aside_texts(phase),
                *sources_texts(phase),
                *reconnects_texts(phase),
                *retries_texts(phase),
                *setup_texts(phase),
                *delayed_texts(run, phase),
            )
        ]
        + list(map(stored_text, summary.stored)),
        bands=run_bands(run, bands) if bands else None,
        failures=failures_table(phases),
        growth=growth_table(phases),
        closed=closed_text(phases),
        sources=sources_table(phases),
        sources_over_time=sources_over_time(run, "events-over-time"),
        over_time=run_over_time(run, "run-over-time", dips) if run.series.num_rows else None,
        samples=samples_table(run) if run.series.num_rows else None,
        dips=[(dips_text(at), dips_table(at)) for at in dips],
        cpu=run_cpu(processes_of(run)),
        generator=generator_table(summary.generator) if summary.generator else None,
        ranks=ranks_table(phases),
        facts=[run_facts(manifest), *manifest_facts(manifest)],
    )


def _headline(phases: Sequence[PhaseSummary]) -> list[str]:
    """Return a sentence for each measured phase, or for those that prepare where there is no other."""
    measured = [phase for phase in phases if not phase.prepares] or list(phases)
    if len(measured) > 4:
        return [f"{len(measured)} phases were measured; the table below has their figures."]
    lines = []
    for phase in measured:
        for name, operation in phase.operations.items():
            response, every = operation.response, with_failures(operation)
            failed = f"; with the failures, 99 % took up to {seconds_text(every.p99)}" if every else ""
            lines.append(
                f"{name}, {load_text(phase)}: {format_count(operation.throughput)} requests/s; half of them answered"
                f" within {seconds_text(response.p50)}, 99 % within {seconds_text(response.p99)}{failed}."
            )
    return lines
