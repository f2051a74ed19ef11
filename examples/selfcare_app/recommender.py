"""Recommender of exercises: the k nearest neighbours of a user among stored cases, as in the study."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

#: Features of a case, each with its range.
FEATURES = {"age": 80.0, "pain": 10.0, "sleep": 10.0, "work": 10.0, "steps": 70_000.0}
#: Number of neighbours, and of stored cases.
_NEIGHBOURS = 5
_CASES = 200

Case = Mapping[str, Any]


def stored_cases(exercises: int, planned: int) -> list[dict[str, Any]]:
    """Return the cases of earlier patients: features, and exercises that become harder with less pain."""
    cases = []
    for number in range(_CASES):
        # Odd factors spread the values of each feature independently.
        pain, sleep, work = number * 7 % 11, number * 3 % 11, number * 5 % 11
        first = (10 - pain) * (exercises - planned) // 10
        cases.append(
            {
                "age": 20 + number * 13 % 61,
                "pain": pain,
                "sleep": sleep,
                "work": work,
                "steps": number * 347 % 70_000,
                "exercises": [f"exercise {(first + place) % exercises}" for place in range(planned)],
            }
        )
    return cases


def similarity(one: Case, other: Case) -> float:
    """Return 1 minus the mean difference of the features that both cases have, relative to their ranges."""
    # Answers come from users.
    common = [name for name in FEATURES if all(isinstance(case.get(name), int | float) for case in (one, other))]
    if not common:
        return 0.0
    differences = (min(abs(one[name] - other[name]) / FEATURES[name], 1.0) for name in common)
    return 1.0 - sum(differences) / len(common)


def recommend(user: Case, cases: Sequence[Case], most: int) -> list[str]:
    """Return up to `most` exercises of the nearest cases, by the sum of these cases' similarities."""
    nearest = sorted(((similarity(user, case), case) for case in cases), key=lambda pair: -pair[0])[:_NEIGHBOURS]
    votes: dict[str, float] = defaultdict(float)
    for weight, case in nearest:
        for exercise in case["exercises"]:
            votes[exercise] += weight
    return sorted(votes, key=lambda exercise: (-votes[exercise], exercise))[:most]
