"""Reports on runs and experiments, on the terminal and as one HTML file. The figures come from `analyze`."""

from typing import Literal

#: Formats of exported plots, and of tables.
PlotFormat = Literal["pdf", "svg", "png"]
TableFormat = Literal["csv", "latex"]
