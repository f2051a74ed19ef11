"""Report on a gate: terminal output, JUnit XML and Markdown."""

import html
import re
from xml.etree import ElementTree as ET

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from loadframe.analyze.gate import Check, Gate
from loadframe.base.terminal import PrintableConsole
from loadframe.base.units import counted
from loadframe.base.untrusted import printable
from loadframe.report.compare_words import quantity
from loadframe.report.fit import print_findings
from loadframe.report.labels import treatment_text

STANDINGS = {"passed": "passed", "regression": "regression", "undecided": "inconclusive"}
_SIGNS = {"passed": "✅", "regression": "❌", "undecided": "❔"}
#: Characters with a meaning anywhere in a line of Markdown, and characters that turn an address into a link.
_MARKUP = re.compile(r"[\\`*_{}\[\]|~#!@]|:(?=//)|(?<=www)\.")


def headline(gate: Gate) -> str:
    """Return the outcome as a sentence: regression, passed, or the cause of an inconclusive gate."""
    counts = {standing: sum(check.standing == standing for check in gate.checks) for standing in STANDINGS}
    checks = counted(len(gate.checks), "check")
    if gate.standing == "regression":
        return f"{gate.label} is a regression: {counts['regression']} of {checks} failed."
    if gate.standing == "passed":
        return f"{gate.label} passed: {checks}, no regression."
    if not gate.checks:
        return f"No conclusion about {gate.label}: no valid run to check."
    undecided = counts["undecided"]
    if not undecided:
        return f"No conclusion about {gate.label}: measurements are missing."
    verb = "is" if undecided == 1 else "are"
    return f"No conclusion about {gate.label}: {undecided} of {checks} {verb} inconclusive."


def junit(gate: Gate) -> str:
    """Return the checks as JUnit XML with one test suite: a regression is a failure, an inconclusive check an error.

    If the gate is inconclusive although no check is, an error `everything was measured` is added. Warnings go to
    `system-err`.
    """
    suite = ET.Element(
        "testsuite",
        name="loadframe gate",
        tests=str(len(gate.checks) + _is_inconclusive_alone(gate)),
        failures=str(sum(check.standing == "regression" for check in gate.checks)),
        errors=str(sum(check.standing == "undecided" for check in gate.checks) + _is_inconclusive_alone(gate)),
    )
    for check in gate.checks:
        why = ": ".join(filter(None, (_means_text(check), check.why)))
        case = ET.SubElement(suite, "testcase", classname=f"loadframe.{check.measure.phase}", name=_name(check))
        if check.standing == "regression":
            ET.SubElement(case, "failure", message=why, type="regression")
        elif check.standing == "undecided":
            ET.SubElement(case, "error", message=why, type="undecided")
        else:
            ET.SubElement(case, "system-out").text = why
    if _is_inconclusive_alone(gate):
        case = ET.SubElement(suite, "testcase", classname="loadframe", name="everything was measured")
        ET.SubElement(case, "error", message=headline(gate), type="undecided")
    if gate.findings:
        lines = [f"{warning.cause}. {warning.remedy}." for warning in gate.findings]
        ET.SubElement(suite, "system-err").text = "\n".join(lines)
    suites = ET.Element("testsuites")
    suites.append(suite)
    return xml_text(suites)


def xml_text(root: ET.Element) -> str:
    """Return an XML document with its declaration, indented, without the control characters that XML does not allow.

    Changes `root` in place.
    """
    for element in root.iter():
        # In the whole document, the end of an escape sequence could be markup.
        element.text = element.text and printable(element.text)
        for name, value in element.items():
            element.set(name, printable(value))
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def markdown(gate: Gate) -> str:
    """Return the outcome as Markdown: a sentence, a table, the warnings."""
    lines = [f"## {_SIGNS[gate.standing]} {escaped(headline(gate))}", ""]
    if gate.checks:
        lines += ["| | check | before | now | worse by, or bound |", "|---|---|--:|--:|---|"]
        for check in gate.checks:
            before, now = _means(check)
            cells = (f"{_SIGNS[check.standing]} {STANDINGS[check.standing]}", _name(check), before, now, check.why)
            lines.append(f"| {' | '.join(map(escaped, cells))} |")
    if gate.findings:
        lines += ["", "**Warnings**", ""]
        lines += [f"- {escaped(warning.cause)}. *{escaped(warning.remedy)}.*" for warning in gate.findings]
    return "\n".join(lines) + "\n"


def escaped(text: str) -> str:
    """Escape text for one line of Markdown: no HTML, markup, link or mention. White space is collapsed."""
    return _MARKUP.sub(r"\\\g<0>", html.escape(" ".join(printable(text).split()), quote=False))


def _is_inconclusive_alone(gate: Gate) -> bool:
    """Return whether the gate is inconclusive although none of its checks is: a check or measurement is missing."""
    return gate.standing == "undecided" and not any(check.standing == "undecided" for check in gate.checks)


def _name(check: Check) -> str:
    """Return the name of a check for a list, with its treatment in parentheses if it has one."""
    at = treatment_text(check.treatment)
    return f"{check.name}{f' ({at})' if at else ''}"


def _means(check: Check) -> tuple[str, str]:
    """Return the texts of both groups' means with units, before and now. Return two empty texts without a contrast.

    They lack the adjustment for blocks and sessions that the change has.
    """
    if check.contrast is None:
        return "", ""
    before, now = (quantity(mean.value, check.measure) for mean in check.contrast.means)
    return before, now


def _means_text(check: Check) -> str:
    """Return both groups' means as `before → now`; empty without a contrast."""
    return " → ".join(filter(None, _means(check)))


_GAP = 2
_TONES = {"passed": "green", "regression": "bold red", "undecided": "yellow"}


def print_gate(gate: Gate, console: Console | None = None) -> None:
    """Print a gate's outcome, checks and warnings, on standard output unless another console is given."""
    console = console or PrintableConsole()
    console.print(Text(headline(gate), style=_TONES[gate.standing]))
    if gate.checks:
        console.print()
        _print_checks(gate, console)
    print_findings(console, gate.findings)


def _print_checks(gate: Gate, console: Console) -> None:
    """Print a line for each check, with its decisive figures below it if they do not fit beside it."""
    rows = []
    for check in gate.checks:
        at = treatment_text(check.treatment)
        standing = Text(STANDINGS[check.standing], style=_TONES[check.standing])
        means = Text(_means_text(check))
        rows.append((standing, Text(f"{check.words}{f', {at}' if at else ''}"), means, Text(check.why)))
    widths = [max(cell.cell_len for cell in column) for column in zip(*rows, strict=True)]
    if sum(widths) + _GAP * (len(widths) - 1) <= console.width:
        table = Table.grid(padding=(0, _GAP, 0, 0))
        for row in rows:
            table.add_row(*row)
        console.print(table)
        return
    for standing, name, means, why in rows:
        standing.align("left", widths[0] + _GAP)
        console.print(Text.assemble(standing, name))
        figures = Text(": ").join(filter(None, (means, why)))
        console.print(Padding(figures, (0, 0, 0, widths[0] + _GAP), expand=False))
