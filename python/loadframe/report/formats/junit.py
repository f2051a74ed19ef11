"""JUnit XML of verdicts: a suite for each run, and a case for each figure that the verdict judges.

`loadframe gate --junit` writes the checks of a gate. Failed requests are results: they are properties of a suite.
"""

from collections.abc import Sequence
from xml.etree import ElementTree as ET

from loadframe.analyze.experiment import RecordedRun, bounding_reasons, validity
from loadframe.analyze.failures import recorded_reasons
from loadframe.record import Run
from loadframe.report.gate import xml_text


def suites(runs: Sequence[Run]) -> str:
    """Return the verdicts of runs as JUnit XML, with a suite for each run.

    A run that is not done is an error. An invalid run, a reason of a valid run and an unknown figure are failures, but
    a reason that only bounds figures is not. A rule that was not checked is skipped.
    """
    root = ET.Element("testsuites", name="loadframe")
    for run in runs:
        root.append(_suite(run))
    return xml_text(root)


def _suite(run: Run) -> ET.Element:
    """Return the suite of a run: its counts of requests as properties, and cases for its status and its verdict.

    Its time, s, is the sum of warm-up and measured window of all phases.
    """
    summary, name = run.summary, run.path.name
    suite = ET.Element("testsuite", name=name)
    if started := run.manifest.started:
        suite.set("timestamp", started)
    properties = ET.SubElement(suite, "properties")
    for phase in summary.measured:
        for operation, figures in phase.operations.items():
            title = f"{phase.name}.{operation}"
            for key, value in (("requests", figures.due), ("failed", figures.due - figures.successes)):
                ET.SubElement(properties, "property", name=f"{title}.{key}", value=str(value))
    duration = sum(phase.warmup + phase.duration for phase in summary.phases)
    suite.set("time", f"{duration:.3f}")
    case = _case(suite, f"loadframe.{name}", "the run is done")
    if summary.status != "done":
        ET.SubElement(case, "error", message=summary.failure or summary.status, type=summary.status)
    if summary.verdict is not None:
        _judge(suite, run)
    for key, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(key, str(len(suite.findall(f"testcase/{tag}"))))
    suite.set("tests", str(len(suite.findall("testcase"))))
    return suite


def _judge(suite: ET.Element, run: Run) -> None:
    """Add cases to `suite`: validity of the run, reasons of a valid run, figures, and rules that were not checked.

    AssertionError for a run without a verdict.
    """
    verdict, name = run.summary.verdict, run.path.name
    assert verdict is not None
    reasons = recorded_reasons(run)
    causes = {reason.code: f"{reason.cause}. {reason.remedy}" for reason in reasons}
    case = _case(suite, f"loadframe.{name}", "the run is valid")
    if not validity(run):
        message = "\n".join(f"{reason.code}: {causes[reason.code]}" for reason in reasons)
        ET.SubElement(case, "failure", message=message or run.summary.status, type="invalid")
    else:
        bounding = bounding_reasons(run)
        for code, cause in causes.items():
            reason_case = _case(suite, f"loadframe.{name}", code)
            if code in bounding:
                ET.SubElement(reason_case, "system-out").text = f"{code}: {cause}"
            else:
                ET.SubElement(reason_case, "failure", message=f"{code}: {cause}", type="reason")
    for figure in RecordedRun(name, None, {}, run).qualities:
        title = " ".join(filter(None, (figure.operation, figure.figure)))
        case = _case(suite, f"loadframe.{name}.{figure.phase}", title)
        about = "; ".join(causes.get(code, code) for code in figure.reasons)
        if figure.state == "unknown":
            ET.SubElement(case, "failure", message=about or "the figure is unknown", type="unknown")
        elif figure.state == "bounded":
            ET.SubElement(case, "system-out").text = f"bounded: {about}"
    for rule in verdict.not_judged:
        ET.SubElement(_case(suite, f"loadframe.{name}", rule), "skipped", message="not judged")


def _case(suite: ET.Element, group: str, name: str) -> ET.Element:
    """Add a case with the class name `group` to a suite and return it."""
    return ET.SubElement(suite, "testcase", classname=group, name=name)
