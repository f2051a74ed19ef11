"""Rules for weak conclusions of a settings experiment."""

from collections.abc import Sequence

from loadframe.analyze.finding import Rule
from loadframe.base.units import counted

_REPEAT_EXCLUDED = "find out why runs were excluded, and repeat them"


def _unrepeated(judged: bool, repeated: bool, of_survivors: bool) -> str:
    """Return the cause: the run-to-run variance is unknown.

    `judged`: whether effects have a p. `repeated`: whether a combination has two valid runs. `of_survivors`: whether
    the store failed at all such combinations.
    """
    how = "effects are judged against each other (Lenth)" if judged else "no effect has an interval"
    if of_survivors:
        return (
            "the store failed at each combination with two valid runs, and the runs that survive are too much alike to"
            f" show the run-to-run variance: {how}"
        )
    if repeated:
        return (
            "estimating effects and block differences uses up the valid runs, and none remains to estimate the"
            f" run-to-run variance: {how}"
        )
    return f"no combination has two valid runs: {how}"


def _aliased(scheme: str, effects: Sequence[tuple[str, str]]) -> str:
    """Return the cause: effects may come from interactions.

    `effects` pair the name of each effect with the names of its interactions.
    """
    listed = "; ".join(f"the effect of {name} may come from {others}" for name, others in effects)
    return f"the scheme {scheme} cannot separate interactions: {listed}"


def _interactions_unknown(scheme: str, alone: bool) -> str:
    """Return the cause: the scheme does not show interactions.

    `alone`: whether it changes one setting at a time.
    """
    if alone:
        return f"the scheme {scheme} changes one setting at a time: interactions of settings were not measured"
    return f"the scheme {scheme} cannot separate interactions of two settings from each other"


def _unknown_effects(settings: Sequence[str]) -> str:
    """Return the cause: the runs do not determine effects of these settings."""
    return (
        f"the valid runs do not determine the effect of {', '.join(settings)}: a level is missing, or differs only"
        " together with other settings or blocks"
    )


def _failed_combination(combination: str, failed: int, total: int, listed: str, hidden: Sequence[str]) -> str:
    """Return the cause: the store failed in `failed` of `total` runs at a combination; `listed` names them.

    `hidden` are the settings with unknown effects, because they may interact where all runs failed.
    """
    rest = "its figures are unknown" if failed == total else "its figures come from the other runs"
    if hidden and failed == total:
        rest += f", so effects of {', '.join(hidden)} are unknown, because these settings may interact there"
    return f"the store failed in {failed} of {counted(total, 'run')} at {combination} ({listed}): {rest}"


UNREPEATED = Rule(
    "unrepeated",
    _unrepeated,
    lambda repeated, of_survivors: (
        "find out why the store failed, and repeat the runs"
        if of_survivors
        else _REPEAT_EXCLUDED
        if repeated
        else "take two repetitions or more"
    ),
)
NOTHING_VARIED = Rule(
    "nothing_varied",
    "no effect can be estimated: each setting that differs between valid runs differs together with others",
    _REPEAT_EXCLUDED,
)
ALIASED = Rule(
    "aliased",
    _aliased,
    "run a full or finer factorial of the few settings with large effects, or the same design with all levels exchanged"
    " (its fold-over)",
)
INTERACTIONS_UNKNOWN = Rule(
    "interactions_unknown",
    _interactions_unknown,
    "follow with a full or finer factorial of the few settings with large effects",
)
INCOMPLETE = Rule(
    "incomplete",
    "{missing} of {total} combinations lack a valid run with a known {measure}, which unbalances the design",
    _REPEAT_EXCLUDED,
)
UNKNOWN_EFFECTS = Rule("unknown_effects", _unknown_effects, _REPEAT_EXCLUDED)
FAILED_COMBINATION = Rule(
    "failed_combination",
    _failed_combination,
    "find out why the store failed before you choose this combination or a similar one",
)
NOT_CONFIRMED = Rule(
    "not_confirmed",
    "{winner} was chosen because it looked best, so its lead is overestimated",
    "measure it again together with the default, with confirm: in the experiment file",
)
