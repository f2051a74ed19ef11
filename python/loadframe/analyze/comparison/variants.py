"""The runs of an experiment that compares variants: a group for each, at the treatments that they share."""

from dataclasses import replace

from loadframe.analyze.comparison.comparison import LEAST, Comparison, compare
from loadframe.analyze.comparison.groups import Group
from loadframe.analyze.experiment import RecordedExperiment

#: The entry of a treatment that names its variant.
_VARIANT = "variant"


def compare_variants(folder: RecordedExperiment) -> Comparison:
    """Compare each variant with the first; what the variants set themselves is no part of the treatment."""
    description = folder.description
    at = [name for name in description["factors"] if all(name not in sets for sets in description["variants"].values())]
    groups = [
        Group(
            label,
            tuple(
                replace(run, treatment={name: run.treatment[name] for name in at})
                for run in folder.runs
                if run.treatment.get(_VARIANT) == label
            ),
        )
        for label in description["variants"]
    ]
    return compare(
        groups, least=float(description.get("least") or LEAST), seed=int(description.get("seed") or 0), intended=True
    )
