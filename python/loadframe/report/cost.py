"""Tables and sentences of the cost of treatments."""

from collections.abc import Sequence

from loadframe.analyze.cost import Cheapest, Cost, Prices
from loadframe.base.units import format_count
from loadframe.report.labels import treatment_text
from loadframe.report.numbers import measured_text
from loadframe.report.tables import Cell, Table, split
from loadframe.report.terminal_table import TerminalTable

TITLE = "Cost"
_NOTE = (
    "Prices from the experiment file. A month has 730.5 hours. The cost of a million requests assumes the measured"
    " throughput all the time. In brackets: 95 % intervals. One search gives the costs at two tried rates instead."
)


def _columns(prices: Prices) -> tuple[str, ...]:
    return ("treatment", "nodes", f"{prices.currency} per month", f"{prices.currency} per million requests")


def _rows(costs: Sequence[Cost]) -> list[tuple[str, str, str, str]]:
    return [
        (
            treatment_text(entry.treatment) or "the cluster",
            format_count(entry.nodes),
            f"{entry.month:,.2f}",
            _million_text(entry),
        )
        for entry in costs
    ]


def _million_text(entry: Cost) -> str:
    """Write `0.70 [0.59, 0.83]`; for one search, the costs at the rates that failed and passed: `0.59 to 0.70`."""
    if not entry.by_one_search:
        return measured_text(entry.million)
    passed = f"{entry.million.high:.3g}"
    return f"{entry.million.low:.3g} to {passed}" if entry.million.low else f"at most {passed}"


def cost_table(prices: Prices, costs: Sequence[Cost]) -> Table:
    """Return a row for each treatment."""
    rows = [[Cell(name), Cell(nodes), Cell(month), split(million)] for name, nodes, month, million in _rows(costs)]
    return Table(_columns(prices), rows, names=1, note=_NOTE)


def cost_on_terminal(prices: Prices, costs: Sequence[Cost]) -> TerminalTable:
    """Return `cost_table` for the terminal."""
    table = TerminalTable(_columns(prices), names=1, title=f"{TITLE}:")
    for row in _rows(costs):
        table.add(*(cell.replace(" [", "\n[", 1) for cell in row))
    return table


def cheapest_text(prices: Prices, answer: Cheapest) -> str:
    """Return the sentence on the cheapest treatment for a demand."""
    demand = f"{format_count(answer.demand)} requests/s"
    if answer.cost:
        words = f"Cheapest for {demand}: {_name(answer.cost)} at {answer.cost.month:,.2f} {prices.currency} per month."
    elif answer.open:
        words = f"Whether a measured cluster sustains {demand} is inconclusive."
    else:
        words = f"No measured cluster sustains {demand}."
    if answer.open:
        names = "; ".join(f"{_name(entry)} at {entry.month:,.2f}" for entry in answer.open)
        words += f" Undecided: {names}. Repeat the experiment to decide."
    if any(entry.by_one_search for entry in (answer.cost, *answer.open) if entry):
        words += " One search gives only an indication."
    return words


def _name(entry: Cost) -> str:
    return treatment_text(entry.treatment) or f"{format_count(entry.nodes)} nodes"
