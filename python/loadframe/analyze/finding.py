"""Rules and findings: a rule has the sentences, a finding adds the figures of one case."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from string import Formatter
from typing import Any

from loadframe.base.units import (
    counted,
    duration_beside,
    format_change,
    format_count,
    format_duration,
    format_nodes,
    format_share,
    format_size,
    share_beside,
)

#: A sentence of a rule: a template such as `used {share:share} of its core`, or a function of some figures.
Sentence = str | Callable[..., str]

#: Format specifications of templates, beside Python's and `counted NOUN`.
_FORMATS: Mapping[str, Callable[[Any], str]] = {
    "change": format_change,
    "count": format_count,
    "duration": format_duration,
    "nodes": lambda sizes: format_nodes(*sizes),
    "share": format_share,
    "share1": partial(format_share, digits=1),
    "size": format_size,
}
#: Format specifications that name a limit, such as `share beside 0.8`: see `units.written_apart`.
_BESIDE: Mapping[str, Callable[[Any, float], str]] = {
    "duration": duration_beside,
    "share": share_beside,
    "share1": partial(share_beside, digits=1),
}


class _Template(Formatter):
    def format_field(self, value: Any, format_spec: str) -> str:
        """Return a value as text in a format of `_FORMATS`, `FORM beside LIMIT`, `counted NOUN`, or Python's."""
        if format_spec in _FORMATS:
            return _FORMATS[format_spec](value)
        form, _, limit = format_spec.partition(" beside ")
        if limit:
            return _BESIDE[form](value, float(limit))
        if format_spec.startswith("counted "):
            return counted(value, format_spec.removeprefix("counted "))
        return str(super().format_field(value, format_spec))


_TEMPLATE = _Template()


@dataclass(frozen=True)
class Rule:
    """A kind of finding: its code in JSON, the sentence about the observation and its effect, and the remedy.

    Call it with the figures of a case to make a finding.
    """

    code: str
    cause: Sentence
    remedy: Sentence

    def __call__(self, **figures: Any) -> "Finding":
        """Return a finding of this rule with its figures; TypeError if one is missing that a sentence needs."""
        if missing := self._needed - figures.keys():
            raise TypeError(f"rule {self.code} needs {', '.join(sorted(missing))}")
        return Finding(self, figures)

    @cached_property
    def _needed(self) -> frozenset[str]:
        """The names of the figures that the sentences of cause and remedy need."""
        return frozenset().union(*(_needed(sentence) for sentence in (self.cause, self.remedy)))


@dataclass(frozen=True)
class Finding:
    """Something to know before you rely on a result: a rule that applies, with the figures of the case."""

    rule: Rule
    figures: Mapping[str, Any]

    def __hash__(self) -> int:
        return hash((self.rule.code, self.cause))

    @property
    def code(self) -> str:
        """The code of its rule."""
        return self.rule.code

    @property
    def cause(self) -> str:
        """The observation with its figures, and its effect."""
        return _render(self.rule.cause, self.figures)

    @property
    def remedy(self) -> str:
        """The action to take."""
        return _render(self.rule.remedy, self.figures)

    @property
    def warning(self) -> str:
        """Cause and remedy as sentences, after `Beware`."""
        return f"Beware: {self.cause}. {self.remedy[:1].upper()}{self.remedy[1:]}."

    def as_dict(self) -> dict[str, str]:
        """Return code, cause and remedy for JSON, and the phase if the finding is about one."""
        phase = {"phase": self.figures["phase"]} if "phase" in self.figures else {}
        return {"code": self.code, "cause": self.cause, "remedy": self.remedy, **phase}


def _needed(sentence: Sentence) -> set[str]:
    """Return the names of the figures that a sentence needs: its fields, or its parameters without a default."""
    if isinstance(sentence, str):
        return {name for _, name, _, _ in _TEMPLATE.parse(sentence) if name}
    parameters = inspect.signature(sentence).parameters.values()
    return {parameter.name for parameter in parameters if parameter.default is parameter.empty}


def _render(sentence: Sentence, figures: Mapping[str, Any]) -> str:
    """Return a sentence filled with figures by name; a function receives only its parameters."""
    if isinstance(sentence, str):
        return _TEMPLATE.vformat(sentence, (), figures)
    names = inspect.signature(sentence).parameters
    return sentence(**{name: figure for name, figure in figures.items() if name in names})
