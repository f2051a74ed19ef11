"""The application as loadframe starts it: `--store examples/selfcare_app`, or `store: {kind: PATH}` in a file."""

from pathlib import Path

from loadframe.store.application import Application

STORE = Application(
    kind="selfcare_app",
    folder=Path(__file__).parent,
    version="1.0",
    command=(
        "{python}",
        "-m",
        "uvicorn",
        "service:app",
        "--host",
        "{address}",
        "--port",
        "{port}",
        "--log-level",
        "warning",
        "--no-access-log",
        "--loop",
        "uvloop",
        "--http",
        "httptools",
    ),
    # Two of them, as `mongodb+opensearch`: activities and achievements on the first, everything else on the second,
    # unless `placement` says otherwise.
    behind=("mongodb", "opensearch", "elasticsearch"),
    settings={
        # Collections that are elsewhere: `activity=opensearch,plan=mongodb`.
        "placement": "",
        # How a write is made visible to the reads that follow, on search engines: `affected` or `all` collections are
        # refreshed, the `request` waits for the next refresh, or the answer waits 1,005 ms (`pause`), or nothing.
        "refresh": "affected",
        # Whether there is an index on the user, which MongoDB leaves to its owner.
        "user_index": True,
        # s that a token is good for.
        "token_seconds": 86400,
        # Whether each instance writes a line for each request, into the folder DATA of its node.
        "record": True,
    },
)
