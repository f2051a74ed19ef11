"""One honest sentence on a scalability fit: what it says, with intervals, and no more."""

from loadframe.analyze.scalability import ModelFit, ScalabilityFit
from loadframe.report.numbers import estimate_text, percent_text, round_to
from loadframe.units import format_change, format_count

#: What the models are called where people read.
NAMES = {"linear": "linear", "gustafson": "Gustafson", "amdahl": "Amdahl", "usl": "USL", "knee": "hard knee"}


def sentence(fit: ScalabilityFit, unit: str = "") -> str:
    """Say what the data show, and in weak scaling what the scaled speed-up is by Gustafson's law."""
    return " ".join([_sentence(fit, unit), *scaled_sentences(fit)])


def scaled_sentences(fit: ScalabilityFit) -> list[str]:
    """Say what Gustafson's law makes of weak scaling; empty in strong scaling."""
    scaled = fit.scaled_speedup(fit.largest)
    if scaled is None or not tells(fit):
        return []
    share = fit.models["gustafson"].parameters["serial"]
    law = f"a serial share of {percent_text(share)}, a scaled speed-up of {estimate_text(scaled)}"
    at = f"at {format_count(fit.largest)} {fit.over}"
    if "gustafson" in fit.possible:
        return [f"By Gustafson's law: {law} {at}."]
    return [f"Gustafson's law ({law} {at}) misses these data by more than the noise."]


def _sentence(fit: ScalabilityFit, unit: str) -> str:
    """Say what the best model means for the measured sizes; `unit` follows throughputs, such as `requests/s`."""
    measured = f"from {format_count(min(n for n, _ in fit.observations))} to {format_count(fit.largest)} {fit.over}"
    best, tail = fit.best_model, f" {unit}" if unit else ""
    if not tells(fit):
        return f"These data do not show how throughput grows {measured}."
    if fit.peak:
        past = fit.peak.n.value <= fit.largest
        peaks = "peaks" if past else "is headed for a peak"
        beyond = "" if past else f", beyond the {format_count(fit.largest)} that were measured"
        return (
            f"Throughput {peaks} at {estimate_text(fit.peak.n)} {fit.over}{beyond},"
            f" with {estimate_text(fit.peak.throughput)}{tail} (USL: {_causes(best)})."
        )
    return f"Throughput {_course(fit, measured, tail)} {_of_a_peak(fit)}."


def _course(fit: ScalabilityFit, measured: str, tail: str) -> str:
    """Say how throughput grows by the best model."""
    best = fit.best_model
    per_unit = f"{estimate_text(best.parameters['lambda'])}{tail}"
    if best.name == "linear":
        return f"grows linearly {measured}: {per_unit} each; no limit was reached, and"
    if best.name == "gustafson":
        return f"grows in a straight line {measured}, from {per_unit} at one;"
    if best.name == "amdahl":
        return f"bends {measured} as by Amdahl's law ({_causes(best)}){_ceiling(best, tail)};"
    if best.name == "knee":
        lam, ceiling = best.parameters["lambda"], best.parameters["ceiling"]
        knee = round_to(ceiling.value / lam.value, ceiling.value / lam.value / 10)
        return (
            f"grows linearly, {per_unit} each, up to about {knee} {fit.over}, where it meets a hard ceiling of"
            f" {estimate_text(ceiling)}{tail};"
        )
    return f"bends {measured} ({_causes(best)});"


def _of_a_peak(fit: ScalabilityFit) -> str:
    """Say why no peak is shown: there is none, or the data do not decide it."""
    if fit.standing == "none":
        return f"there is no peak up to {format_count(fit.largest)} {fit.over}"
    if fit.standing == "beyond":
        return "a peak lies beyond what was measured, too far away to be placed"
    if "usl" not in fit.possible:
        return f"whether throughput falls beyond it is open{_fall(fit)}"
    place = fit.candidate.n
    kappa = fit.models["usl"].parameters["kappa"]
    if set(fit.possible) == {"usl"} and kappa.low > 0 and place.is_finite:
        rivals = "a curve that approaches a limit without falling fits as well within the noise"
        return f"whether there is a peak is open: the USL puts one at {estimate_text(place)} {fit.over}, {rivals}"
    if place.value <= fit.largest:
        rivals = "other models, which fit as well within the noise, have none"
        return f"whether there is a peak is open: the USL puts one at {estimate_text(place)} {fit.over}, {rivals}"
    least = f" from {format_count(place.low)} {fit.over} on" if place.low > 1 else ""
    return f"a peak{least} is neither shown nor excluded"


def _fall(fit: ScalabilityFit) -> str:
    if fit.ceiling is None:
        return ""
    change, ends = fit.ceiling.change, f"from {format_count(fit.ceiling.first)} to {format_count(fit.ceiling.last)}"
    interval = f"[{format_change(change.low)}, {format_change(change.high)}]"
    return f": it changes by {format_change(change.value)} {interval} {ends} {fit.over}"


def tells(fit: ScalabilityFit) -> bool:
    """Whether the data say how throughput grows."""
    return fit.best_model.settled


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
