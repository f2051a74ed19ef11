"""The runs of an experiment that compares variants: a group for each, at the treatments that they share."""

from dataclasses import replace
from pathlib import Path

from loadframe.analyze.comparison.comparison import LEAST, Comparison, compare
from loadframe.analyze.comparison.groups import Group, is_robust
from loadframe.analyze.experiment import EXPERIMENT_FILE, RecordedExperiment, read_experiment

#: The entry of a treatment that names its variant.
_VARIANT = "variant"


def read_variants(argument: str) -> tuple[Group, ...]:
    """Return the variants of the folder of an experiment that compares some; none of anything else."""
    path = Path(argument)
    folder = read_experiment(path) if (path / EXPERIMENT_FILE).is_file() else None
    return split_by_variant(folder) if folder and "variants" in folder.description else ()


def split_by_variant(folder: RecordedExperiment) -> tuple[Group, ...]:
    """Return a group for each variant; what the variants set themselves is not part of the treatment."""
    description = folder.description
    at = [name for name in description["factors"] if all(name not in sets for sets in description["variants"].values())]
    return tuple(
        Group(
            label,
            tuple(
                replace(run, treatment={name: run.treatment[name] for name in at})
                for run in folder.counted
                if run.treatment.get(_VARIANT) == label
            ),
            robust=is_robust(folder),
        )
        for label in description["variants"]
    )


def compare_variants(folder: RecordedExperiment) -> Comparison:
    """Compare each variant with the first."""
    description = folder.description
    return compare(
        split_by_variant(folder),
        least=float(description.get("least") or LEAST),
        intended=True,
    )
