"""Comparison of two or more variants of store, version, settings or load, in interleaved blocks (ABBA)."""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Annotated

from pydantic import Field, model_validator

from loadframe.experiment.design import Design
from loadframe.experiment.design.plans import in_blocks
from loadframe.experiment.experiment import Experiment
from loadframe.experiment.file.factors import Level
from loadframe.experiment.file.model import Estimate, ExperimentFile, Factors, Levels, PacedFile, Share
from loadframe.experiment.kinds.base import Kind
from loadframe.workload.pacing import Arrivals
from loadframe.yamlfile import Name, Place, Scalar, wrong

#: Key of the variant name in treatments.
VARIANT = "variant"


class CompareFile(PacedFile):
    """File of a comparison: variants by name, each setting some factors; the first is the baseline.

    The variants are compared separately at each combination of `factors`. `least` is the smallest difference of
    interest, `estimate` the estimator of ratios.
    """

    variants: dict[Name, dict[str, Scalar]]
    factors: Factors = Field(default_factory=dict)
    least: Share = 0.05
    estimate: Estimate | None = None
    repetitions: Annotated[int, Field(ge=1, le=1000)] = 6

    @model_validator(mode="after")
    def _two_or_more(self) -> "CompareFile":
        """Refuse fewer than two variants, and factors that a variant also sets."""
        if len(self.variants) < 2:
            raise wrong("a comparison needs two variants or more", "add a variant", key="variants")
        for name in self.factors:
            if any(name in levels for levels in self.variants.values()):
                raise wrong(f"{name} is a factor and is also set by a variant", "remove one of them", key="factors")
        return self


class Compare(Kind):
    """Runs every variant in each block, in a random order that the next block reverses."""

    model = CompareFile

    def factors(self, file: ExperimentFile) -> Mapping[str, Levels]:
        """Return the factors that variants set, with distinct levels in the order of variants, then common factors."""
        written = _compare_file(file)
        levels_of: dict[str, list[Level]] = {}
        for levels in written.variants.values():
            for name, level in levels.items():
                if not any(_same(level, other) for other in levels_of.setdefault(name, [])):
                    levels_of[name].append(level)
        return {**{name: tuple(levels) for name, levels in levels_of.items()}, **written.factors}

    def place(self, file: ExperimentFile, name: str, index: int | None) -> Place:
        """Return the position of a common factor, or of the first variant that sets the factor or its level `index`."""
        written = _compare_file(file)
        if name in written.factors:
            return super().place(file, name, index)
        wanted = self.factors(file)[name][index or 0]
        label = next(
            label
            for label, levels in written.variants.items()
            if name in levels and (index is None or _same(levels[name], wanted))
        )
        return ("variants", label, name)

    def check(self, experiment: Experiment) -> None:
        """Raise BadInput, with the position, if two variants set the same levels."""
        variants = list(_compare_file(experiment.file).variants.items())
        for (label, levels), (other, others) in itertools.combinations(variants, 2):
            if repr(sorted(levels.items())) == repr(sorted(others.items())):
                what = f"the variants {label} and {other} are equal"
                raise experiment.document.error(("variants", other), what, "change a factor in one of them", key=True)

    def arrivals(self, experiment: Experiment) -> Iterator[Arrivals]:
        """Yield the arrival processes of the open streams under each variant's load, with repeats."""
        written = _compare_file(experiment.file)
        for levels in written.variants.values():
            factors = tuple(it for it in experiment.factors if it.name in written.factors or it.name in levels)
            yield from super().arrivals(replace(experiment, factors=factors))

    def design(self, experiment: Experiment) -> Design:
        """Return the variants at every combination of the factors; every second block reverses the order (ABBA).

        BadInput for too many runs.
        """
        written = _compare_file(experiment.file)
        # Converts levels as written to parsed levels: sizes in bytes, rates in 1/s.
        read = {factor.name: factor.levels for factor in experiment.factors}
        listed = self.factors(written)
        treatments = []
        for levels in itertools.product(*(read[name] for name in written.factors)):
            at = dict(zip(written.factors, levels, strict=True))
            for label, chosen in written.variants.items():
                index = {
                    name: next(i for i, other in enumerate(listed[name]) if _same(level, other))
                    for name, level in chosen.items()
                }
                sets = {name: read[name][number] for name, number in index.items()}
                treatments.append({VARIANT: label, **sets, **at})
        return in_blocks(experiment, treatments, experiment.factors, mirrored=True)


def _compare_file(file: ExperimentFile) -> CompareFile:
    """Return the file as the model of this kind; AssertionError for another kind."""
    assert isinstance(file, CompareFile)
    return file


def _same(one: Level, other: Level) -> bool:
    """Return whether two levels are equal; unlike in Python, `true` differs from 1."""
    return one == other and isinstance(one, bool) == isinstance(other, bool)


KIND = Compare()
