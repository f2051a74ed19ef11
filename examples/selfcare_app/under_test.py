"""Definition of the application for loadframe: `--store examples/selfcare_app`, or `store: {kind: PATH}` in a file."""

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
    # One store, or two such as `mongodb+opensearch`: activities and achievements on the first, the rest on the second,
    # unless `placement` overrides it.
    behind=("mongodb", "opensearch", "elasticsearch"),
    settings={
        # Collections on another store: `activity=opensearch,plan=mongodb`.
        "placement": "",
        # Visibility of writes to later reads on search engines: `affected` or `all` collections are
        # refreshed, the `request` waits for the next refresh, or the answer waits 1,005 ms (`pause`), or nothing.
        "refresh": "affected",
        # Shards and replicas of each collection on search engines. The study's default is 5 and 1, "fewer" 2 or 1.
        # A node holds one copy of a shard, so further replicas stay unassigned; `opensearch.nodes` sets the nodes.
        "shards": 1,
        "replicas": 0,
        # Shard of a document on search engines: by its id (`none`) or by its `user`, so that one shard answers a user.
        "routing": "none",
        # Whether /init/reset_static merges the static collection into one segment on search engines.
        "merge": False,
        # Whether to create an index on the user in MongoDB.
        "user_index": True,
        # Validity of a token, s.
        "token_seconds": 86400,
        # Whether each instance logs a line per request in the folder DATA of its node.
        "record": True,
    },
)
