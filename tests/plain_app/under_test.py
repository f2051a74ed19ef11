"""An application of the standard library alone, with no store behind it."""

from pathlib import Path

from loadframe.store.application import Application

STORE = Application(
    kind="plain_app",
    folder=Path(__file__).parent,
    command=("{python}", "service.py", "{address}", "{port}"),
    behind=(),
    requirements=None,
    files=("service.py",),
    health="/ready",
    settings={"greeting": "hello"},
)
