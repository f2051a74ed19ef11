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
    "Prices are those of the experiment file. A month has 730.5 hours. The cost of a million requests assumes the"
    " measured throughput all the time; its interval follows from that of the throughput."
)


def _columns(prices: Prices) -> tuple[str, ...]:
    return ("treatment", "nodes", f"{prices.currency} per month", f"{prices.currency} per million requests")


def _rows(costs: Sequence[Cost]) -> list[tuple[str, str, str, str]]:
    return [
        (
            treatment_text(entry.treatment) or "the cluster",
            format_count(entry.nodes),
            f"{entry.month:,.2f}",
            measured_text(entry.million),
        )
        for entry in costs
    ]


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


def cheapest_text(prices: Prices, answer: Cheapest, *, by_one_search: bool) -> str:
    """Return the sentence on the cheapest treatment for a demand; one search gives a bracket instead of an interval."""
    demand = f"{format_count(answer.demand)} requests/s"
    if answer.cost is None:
        words = f"No measured cluster is certain to sustain {demand}."
    else:
        words = f"Cheapest for {demand}: {_name(answer.cost)} at {answer.cost.month:,.2f} {prices.currency} per month."
    if by_one_search:
        return f"{words} This is an indication: one search gives no interval."
    if answer.open:
        names = "; ".join(f"{_name(entry)} at {entry.month:,.2f}" for entry in answer.open)
        words += f" Cheaper, but undecided by the intervals: {names}. Repeat the experiment to decide."
    return words


def _name(entry: Cost) -> str:
    return treatment_text(entry.treatment) or f"{format_count(entry.nodes)} nodes"
