"""Tables of rules: a new row and its detector appear in verdicts, figures, analyses and reports."""

import numpy as np
import pytest

from loadframe.analyze import exclusion, gate, history, telemetry
from loadframe.analyze.compare import warnings as compare_rules
from loadframe.analyze.elastic import warnings as elastic_rules
from loadframe.analyze.experiment import read_experiment
from loadframe.analyze.finding import Rule
from loadframe.analyze.scalability import warnings as scalability_rules
from loadframe.analyze.scale import curves, saturation
from loadframe.analyze.scale import warnings as scale_rules
from loadframe.analyze.settings import warnings as settings_rules
from loadframe.analyze.verdict.judge import DETECTORS, JudgedPhase, detector, judge
from loadframe.analyze.verdict.rules import RULES, ValidityRule, effect_of, fault_of
from loadframe.record.schema.summary import GeneratorFigures
from loadframe.report.run_status import exclusions
from made_up_runs import operation, phase
from simulated import Truth, write_experiment

WARNINGS = (
    compare_rules, elastic_rules, scalability_rules, scale_rules, settings_rules, saturation, curves, exclusion, gate,
    history, telemetry,
)  # fmt: skip
IDLE = GeneratorFigures(threads=1, cpu_share=0.1, cpu_share_peak=0.1, waited_share=0.0)


@pytest.fixture
def full_moon():
    rule = ValidityRule("full_moon", "in phase {phase} the moon was {share:share} full", "wait", fault="cluster")

    @detector
    def look(judged):
        yield rule(phase=judged.summary.name, share=0.98)

    yield rule
    del RULES[rule.code]
    DETECTORS.remove(look)


def test_a_rule_from_outside_appears_in_verdict_figures_analysis_and_report(full_moon, tmp_path):
    judged = judge([JudgedPhase(phase("range_100", {"range": operation(100.0)}), IDLE, np.full(30, 100.0))], ())
    cause = "in phase range_100 the moon was 98 % full"
    (reason,) = judged.recorded().reasons
    assert (reason.code, reason.cause, reason.remedy, reason.phase) == ("full_moon", cause, "wait", "range_100")
    assert {(figure.state, figure.reasons) for figure in judged.figures} == {("unknown", ("full_moon",))}
    assert (fault_of("full_moon"), effect_of("full_moon")) == ("cluster", "unknown")

    # Another truth than in other tests, whose recorded runs lack the rule.
    path = write_experiment(tmp_path / "e", Truth(seconds=2, lam=98.0), nodes=(1,), clients=(1, 2), repetitions=1)
    folder = read_experiment(path)
    runs = ("b1-nodes1-clients1", "b1-nodes1-clients2")
    assert [(run.id, run.fault) for run in folder.left_out] == [(run, "cluster") for run in runs]
    assert [(group.runs, group.cause) for group in exclusions(folder)] == [(runs, cause)]


def test_a_code_has_one_rule():
    with pytest.raises(ValueError, match="two validity rules errors"):
        ValidityRule("errors", "", "")
    rules = {id(rule): rule for module in WARNINGS for rule in vars(module).values() if isinstance(rule, Rule)}
    codes = [*RULES, *(rule.code for rule in rules.values())]
    assert len(codes) == len(set(codes)) > 80


def test_a_finding_needs_the_figures_of_its_sentences():
    rule = Rule("odd", "{count:counted run} took {time:duration}", lambda limit=3: f"take {limit}")
    assert rule(count=1, time=0.5).cause == "1 run took 500 ms"
    assert rule(count=2, time=0.5, limit=4).as_dict() == {
        "code": "odd", "cause": "2 runs took 500 ms", "remedy": "take 4",
    }  # fmt: skip
    with pytest.raises(TypeError, match="rule odd needs count"):
        rule(time=0.5)
