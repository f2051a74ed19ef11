"""A hint at answers that wait for delayed acknowledgements."""

from loadframe.analyze.delayed import delayed_of
from loadframe.record import Run
from loadframe.record.schema.summary import PhaseSummary
from loadframe.units import format_duration


def delayed_texts(run: Run, phase: PhaseSummary) -> list[str]:
    """Return a sentence if answers of a phase seem to wait for delayed acknowledgements; nothing otherwise."""
    return [
        f"in {at.phase} nearly all answers of {', '.join(at.operations)} take about {format_duration(at.median)}"
        f" ({_idle(at.cpu)}): delayed acknowledgements look like this. Set TCP_NODELAY in the service, or let it write"
        " each answer at once."
        for at in filter(None, [delayed_of(run, phase)])
    ]


def _idle(cpu: float | None) -> str:
    if cpu is None:
        return "the CPU of the service was not watched; check that it is idle"
    return f"of which {format_duration(cpu)} are CPU time"
