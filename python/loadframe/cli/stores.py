"""`loadframe stores`: list stores and their versions."""

from typing import Any

from rich.table import Table

from loadframe.base.errors import BadInput
from loadframe.base.units import format_size
from loadframe.cli.app import app
from loadframe.cli.output import Json, out, print_json
from loadframe.cluster import artefacts
from loadframe.store import Store
from loadframe.store import stores as known

_EXAMPLES = """\b
Examples:
  loadframe stores
  loadframe stores --json | jq -r '.[].kind'
"""


@app.command(epilog=_EXAMPLES)
def stores(as_json: Json = False) -> None:
    """List the stores: their versions, and which of them are on this machine.

    Loadframe downloads an embedded store from package registries on first use, and some other versions from their
    vendor. You can also measure a running store of any listed family with --hosts.
    """
    listed = [_described(kind) for kind in known()]
    if as_json:
        print_json(listed)
        return
    table = Table("store", "family", "version", "embedded", "on this machine", box=None, pad_edge=False)
    for store in listed:
        if store["installed"]:
            row = (store["installed"]["version"], "no", "yes, the default")
            table.add_row(store["kind"], store["family"], *row)
        for version in store["versions"]:
            table.add_row(
                store["kind"],
                store["family"],
                version["version"],
                f"yes, {format_size(version['size'])}",
                "yes" if version["cached"] else "not yet",
            )
        if store["offered"]:
            table.add_row(store["kind"], store["family"], store["offered"], "no", "from its vendor")
        if not store["versions"] and not store["installed"]:
            table.add_row(store["kind"], store["family"], *_otherwise(known()[store["kind"]]))
    out.print(table)


def _otherwise(store: Store) -> tuple[str, str, str]:
    """Return the columns version, embedded and on this machine for a store without versions that is not installed."""
    try:
        store.installation(None)
    except BadInput:
        return "", "no", "no: --home or --hosts"
    return "", "no", "by --hosts"


def _described(kind: str) -> dict[str, Any]:
    """Return a store as documented for --json. Sizes in bytes."""
    store = known()[kind]
    versions = []
    for version in store.versions:
        distribution = store.distribution(version)
        versions.append(
            {
                "version": version,
                "size": distribution.size,
                "cached": artefacts.installed(distribution),
                "folder": str(artefacts.home(distribution)),
            }
        )
    installed = store.found_here()
    known_as = {"kind": store.kind, "family": store.family, "driver": store.driver}
    here = {"version": installed.version, "folder": str(installed.home)} if installed else None
    return {**known_as, "installed": here, "versions": versions, "offered": store.offered}
