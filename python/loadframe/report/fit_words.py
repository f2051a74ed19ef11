"""One honest sentence on a scalability fit: what it says, with intervals, and no more."""

from loadframe.analyze.scalability import ModelFit, ScalabilityFit
from loadframe.report.numbers import estimate_text, percent_text, round_to
from loadframe.units import format_count

#: What the models are called where people read.
NAMES = {"linear": "linear", "amdahl": "Amdahl", "usl": "USL", "knee": "hard knee"}


def sentence(fit: ScalabilityFit, unit: str = "") -> str:
    """Say what the best model means for the measured sizes; `unit` follows throughputs, such as `requests/s`."""
    measured = f"from {format_count(min(n for n, _ in fit.observations))} to {format_count(fit.largest)} {fit.over}"
    best, tail = fit.best_model, f" {unit}" if unit else ""
    if not tells(fit):
        return f"These data do not tell how throughput grows {measured}."
    if fit.peak:
        return (
            f"Throughput peaks at {estimate_text(fit.peak.n)} {fit.over},"
            f" with {estimate_text(fit.peak.throughput)}{tail} (USL: {_causes(best)})."
        )
    if fit.best == "linear":
        each = estimate_text(best.parameters["lambda"])
        return f"Throughput grows linearly {measured}: {each}{tail} each; no limit was reached."
    if fit.best == "amdahl":
        return (
            f"Throughput bends {measured} as by Amdahl's law ({_causes(best)}){_ceiling(best, tail)}; no peak was seen."
        )
    if fit.best == "knee":
        lam, ceiling = best.parameters["lambda"], best.parameters["ceiling"]
        knee = round_to(ceiling.value / lam.value, ceiling.value / lam.value / 10)
        return (
            f"Throughput grows linearly, {estimate_text(lam)}{tail} each, up to about {knee} {fit.over}, where it meets"
            f" a hard ceiling of {estimate_text(ceiling)}{tail}; there is no peak."
        )
    return f"Throughput bends {measured} ({_causes(best)}); these data do not vouch for a peak."


def tells(fit: ScalabilityFit) -> bool:
    """Whether the data say how throughput grows: the throughput of one is known to better than a half."""
    lam = fit.best_model.parameters["lambda"]
    return lam.high - lam.low <= lam.value


def _causes(model: ModelFit) -> str:
    words = [f"contention {percent_text(model.parameters['sigma'])}"]
    if "kappa" in model.parameters:
        words.append(f"coherency {percent_text(model.parameters['kappa'])}")
    return ", ".join(words)


def _ceiling(model: ModelFit, tail: str) -> str:
    lam, sigma = model.parameters["lambda"], model.parameters["sigma"]
    if sigma.low <= 0:
        return ""
    ceiling = lam.value / sigma.value
    return f" towards a ceiling of about {round_to(ceiling, ceiling / 20)}{tail}"
