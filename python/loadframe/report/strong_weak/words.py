"""A strong and a weak curve side by side in sentences: what each gave, its law, and what the two together mean."""

from collections.abc import Sequence

from loadframe.analyze.finding import Finding
from loadframe.analyze.sweep import PhaseCurves
from loadframe.analyze.sweep.strong_weak import CurvePair, Law, StrongAndWeak
from loadframe.report.fit.words import NAMES
from loadframe.report.numbers import estimate_text, measured_text, percent_text
from loadframe.report.scale.answer import heading
from loadframe.report.standing import exclusions, trust
from loadframe.units import format_nodes

#: What the data do, by scaling.
DATA = {"strong": "the same data", "weak": "data that grow with the nodes"}
COLUMNS = ("nodes", "strong, measured", "strong, by law", "weak, measured", "weak, by law")
NOTE = (
    "Speed-up: throughput by that on the fewest nodes, with 95 % intervals. Both curves count requests; where a request"
    " does more work on more data, the weak curve has that as lost speed-up."
)


def title(pair: CurvePair) -> str:
    """Return which phase and levels the pair is of."""
    return heading(pair.curves["strong"])


def lead(pair: CurvePair) -> str:
    """Say what the two curves together mean, by their speed-ups on the most nodes that both have."""
    if pair.refusal:
        return f"No answer: {pair.refusal}."
    if pair.largest is None or pair.ratio is None:
        return "No answer: the curves share no number of nodes but the fewest."
    (row,) = (row for row in pair.rows if row.nodes == pair.largest)
    both = [f"{measured_text(estimate)} with {DATA[scaling]}" for scaling, estimate in row.measured.items() if estimate]
    figures = f"at {format_nodes(pair.largest)} speed-up was {' and '.join(both)}"
    times = f"{measured_text(pair.ratio)} times as high"
    if pair.ratio.low > 1:
        return f"More nodes pay off more where the data grow with them: {figures}, {times}."
    if pair.ratio.high < 1:
        return f"More nodes pay off less where the data grow with them: {figures}, {times}."
    if not pair.ratio.is_finite:
        return f"Runs were not repeated, so it is unknown whether the curves differ: {figures}, {times}."
    return f"These runs do not show that the curves differ: {figures}, {times}."


def laws(pair: CurvePair) -> list[str]:
    """Say the serial share by each law, of which run it is a share, and whether the law agrees with the data."""
    if pair.refusal:
        return []
    words = []
    for scaling, law in pair.laws.items():
        if law is None:
            curve = pair.curves[scaling].over_nodes
            words.append(f"The {scaling} curve has no law: {curve and curve.refusal}.")
        elif law.name == "gustafson":
            words.append(f"Weak, by Gustafson's law: a serial share s of {percent_text(law.share)} of the N-node run.")
        else:
            share = "contention" if law.name == "usl" else "a serial share"
            of_most = ""
            if pair.largest:
                at = format_nodes(pair.largest)
                of_most = f"; on {at} {percent_text(law.share_of(pair.largest))} of the run {_causes(law)}"
            of_one = f"{share} σ of {percent_text(law.share)} of the one-node run"
            words.append(f"Strong, by {_law(law)}: {of_one}{of_most}.")
        if law and not law.possible:
            words.append(f"{_law(law)[0].upper()}{_law(law)[1:]} misses these data by more than the noise.")
    if all(pair.laws.values()):
        words.append(
            "σ and s are not the same quantity: the same curve has a greater s than σ, since s is a share of a run that"
            " more nodes have made shorter. Only shares of the run on one number of nodes can be compared."
        )
    return words


def _law(law: Law) -> str:
    return {"amdahl": "Amdahl's law", "gustafson": "Gustafson's law"}.get(law.name, f"the {NAMES[law.name]}")


def _causes(law: Law) -> str:
    return "are lost" if law.name == "usl" else "are serial"


def cells(pair: CurvePair) -> list[list[str]]:
    """Return a row of cells for each number of nodes, as `COLUMNS` names them."""
    return [
        [
            str(row.nodes),
            *(
                "–" if estimate is None else text(estimate)
                for scaling in row.measured
                for estimate, text in ((row.measured[scaling], measured_text), (row.by_law[scaling], estimate_text))
            ),
        ]
        for row in pair.rows
    ]


def trusts(strong_and_weak: StrongAndWeak) -> list[str]:
    """Say of each experiment how many runs its figures rest on, and name the others with their reasons."""
    words = []
    for scaling, sweep in strong_and_weak.sweeps.items():
        words.append(f"{scaling.capitalize()} ({sweep.folder.description['experiment']}): {trust(sweep.folder)}")
        words += [f"{', '.join(group.runs)}: {group.cause}. {group.remedy}." for group in exclusions(sweep.folder)]
    return words


def doubts(curves: PhaseCurves) -> Sequence[Finding]:
    """Return the warnings on the experiment and on its fit over nodes."""
    nodes = curves.over_nodes
    return (*curves.warnings, *(nodes.fit.warnings if nodes and nodes.fit else ()))
