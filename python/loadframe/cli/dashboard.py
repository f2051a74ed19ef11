"""`loadframe dashboard`: print the Grafana dashboard for the metrics of commands."""

from importlib.resources import files

from loadframe.cli.app import app

_EXAMPLES = """\b
Examples:
  loadframe dashboard > loadframe.json
"""


@app.command(epilog=_EXAMPLES)
def dashboard() -> None:
    """Print a Grafana dashboard for the metrics of --metrics and --otlp, as JSON to import."""
    print((files("loadframe.live") / "parts" / "dashboard.json").read_text(encoding="utf-8"), end="")
