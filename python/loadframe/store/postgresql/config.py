"""Files and command line of a PostgreSQL node, and the settings that Loadframe controls."""

import re
import shlex
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from loadframe.base.errors import BadInput
from loadframe.store.access import AUTHORITY, CERTIFICATE, KEY
from loadframe.store.base import Installation, NodePlan, NodeSpec
from loadframe.store.postgresql.client import USER

#: Server parameters that Loadframe controls.
OURS = (
    *("port", "listen_addresses", "unix_socket_directories", "data_directory", "config_file", "hba_file", "ident_file"),
    *("external_pid_file", "cluster_name", "hot_standby", "primary_conninfo", "primary_slot_name"),
    *("logging_collector", "log_destination", "archive_mode", "restore_command"),
)
#: Server parameters that Loadframe controls in encrypted clusters.
TLS = ("ssl", "ssl_ca_file", "ssl_cert_file", "ssl_key_file")
#: Loadframe's setting of the servers that serve reads, unless an operation names them.
READ_FROM = "read_from"
#: Loadframe's setting for hash partitions on all nodes, in place of replicas.
PARTITIONED = "partitioned"
_PLACES = ("primary", "replica", "prefer_replica", "any")
#: File with the primary's connection string, which a replica waits for.
SOURCE = "config/source"
#: File with the superuser's password, for creating and copying data, and for replication.
PASSWORD = "config/password"
#: The data folder in the node's folder.
DATA = "data/main"

#: Share of a node's memory limit for the page cache; PostgreSQL's documentation advises it for dedicated servers.
_CACHE_SHARE = 0.25
#: The server's default page cache, bytes.
_CACHE = 2**27
#: Enough for a load from one machine. Unused connections cost almost nothing.
_CONNECTIONS = 500
#: Authentication of clients and replicas.
_METHOD = "scram-sha-256"
#: Limit of replicas and base backups.
_SENDERS = 64

_NAME = re.compile(r"[A-Za-z_][\w$]*(?:\.[A-Za-z_][\w$]*)?")


def check(settings: Mapping[str, Any]) -> None:
    """Raise BadInput for a setting that Loadframe controls, an invalid name or value, or wal_level minimal."""
    if (where := settings.get(READ_FROM, _PLACES[0])) not in _PLACES:
        raise BadInput(f"the setting {READ_FROM} must be one of {', '.join(_PLACES)}", where=str(where))
    if not isinstance(settings.get(PARTITIONED, False), bool):
        raise BadInput(f"the setting {PARTITIONED} must be true or false", where=str(settings[PARTITIONED]))
    for key, value in settings.items():
        if not _NAME.fullmatch(key):
            raise BadInput(f"invalid parameter name {key!r}", remedy="see pg_settings of the server")
        if key.lower() in OURS:
            raise BadInput(f"the setting {key} is controlled by Loadframe", remedy="leave it out")
        if not isinstance(value, str | int | float) or "\n" in str(value):
            raise BadInput(f"the setting {key} must be a text, a number, true or false", where=str(value))
    if str(settings.get("wal_level", "replica")) == "minimal":
        raise BadInput("wal_level minimal does not allow replicas", remedy="use replica or logical")


def parameters(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that are server parameters: all but `read_from` and `partitioned`."""
    return {name: value for name, value in settings.items() if name not in (READ_FROM, PARTITIONED)}


def program(installation: Installation, name: str) -> Path:
    """Return the path of a program in an installation, its `bin`, or the wheel's folder; BadInput without it."""
    home = installation.home
    for folder in (home, home / "bin", home / "pgserver" / "pginstall" / "bin"):
        if (folder / name).is_file():
            return folder / name
    raise BadInput(
        f"{name} is missing in this installation",
        where=str(home),
        remedy="give the folder of a PostgreSQL server with its tools, such as /usr/lib/postgresql/15, with --home",
    )


def slot(name: str) -> str:
    """Return a node's name as PostgreSQL permits it: in lower case, with _ for all but letters (a-z), digits and _.

    Replication slots, connections of replicas and foreign servers have this name.
    """
    return re.sub(r"[^a-z0-9_]", "_", name.lower())


def plan(node: NodeSpec, installation: Installation) -> NodePlan:
    """Return the plan of a server that binds one address and writes only into its folder; BadInput without a program.

    The first founder is the primary, and the others copy its data. In partitioned clusters, the others have their own
    data, which only the coordinator may change.
    """
    fixed: dict[str, Any] = {
        "listen_addresses": node.address,
        "port": node.port,
        "unix_socket_directories": "",
        "data_directory": str(node.folder / DATA),
        "hba_file": str(node.folder / "config" / "pg_hba.conf"),
        "ident_file": str(node.folder / "config" / "pg_ident.conf"),
    }
    lines: dict[str, Any] = {
        "shared_buffers": f"{cache(node) // 2**20}MB",
        "max_connections": _CONNECTIONS,
        "max_wal_senders": _SENDERS,
        "max_replication_slots": _SENDERS,
        "wal_level": "replica",
        # How often a replica reconnects to a restarted primary; the default is 5 s.
        "wal_retrieve_retry_interval": "500ms",
        # Shards join their own partitions, if both tables are partitioned by the joined column.
        **({"enable_partitionwise_join": True} if node.settings.get(PARTITIONED) else {}),
        **parameters(node.settings),
        **fixed,
        "cluster_name": node.name,
        "hot_standby": True,
        **_encrypted(node),
    }
    clients, nodes = node.encryption.clients, node.encryption.nodes
    return NodePlan(
        files={
            "config/postgresql.conf": "".join(f"{name} = {quoted(value)}\n" for name, value in lines.items()),
            "config/pg_hba.conf": f"{_by(clients)} all all all {_METHOD}\n{_by(nodes)} replication all all {_METHOD}\n",
            "config/pg_ident.conf": "",
            "config/start.sh": _script(node, installation, fixed),
            PASSWORD: node.password,
            SOURCE: "",
            **(node.certificates.files() if node.certificates else {}),
        },
        folders=("data",),
        argv=("/bin/sh", str(node.folder / "config" / "start.sh")),
        environment={"LANG": "C.UTF-8", "PATH": "/usr/local/bin:/usr/bin:/bin", **_as_client(node)},
        facts={"shared_buffers": cache(node)},
        # With SIGTERM the server would wait for its last client.
        stop_signal=signal.SIGINT,
    )


def require_tls(installation: Installation) -> None:
    """Raise BadInput if the server was built without TLS."""
    server = program(installation, "postgres")
    if b"libssl" not in server.read_bytes():
        raise BadInput(
            "this server of PostgreSQL was built without TLS",
            where=str(server),
            remedy="give an installation with TLS with --home, such as /usr/lib/postgresql/15",
        )


def _encrypted(node: NodeSpec) -> dict[str, Any]:
    """Return the parameters for TLS; empty without certificates."""
    if node.certificates is None:
        return {}
    files = {"ssl_ca_file": AUTHORITY, "ssl_cert_file": CERTIFICATE, "ssl_key_file": KEY}
    return {"ssl": True, **{name: str(node.folder / file) for name, file in files.items()}}


def _by(tls: bool) -> str:
    """Return the connection type of pg_hba.conf: `hostssl`, with TLS only, or `host`, with or without TLS."""
    return "hostssl" if tls else "host"


def _as_client(node: NodeSpec) -> dict[str, str]:
    """Return the environment with which a replica connects to the primary: with verified TLS, or without TLS.

    Empty without certificates, where the replica uses TLS if the primary offers it.
    """
    if not node.encryption.nodes:
        # By default libpq uses TLS if the server offers it.
        return {"PGSSLMODE": "disable"} if node.certificates else {}
    return {"PGSSLMODE": "verify-full", "PGSSLROOTCERT": str(node.folder / AUTHORITY)}


def cache(node: NodeSpec) -> int:
    """Return a node's default of `shared_buffers` in bytes: a quarter of the memory limit, or 128 MiB."""
    return int(node.memory * _CACHE_SHARE) if node.memory else _CACHE


def source(name: str, address: str, user: str = USER) -> str:
    """Return the connection string of the replica `name` to the primary at `address` (host:port).

    It has no password.
    """
    host, _, port = address.rpartition(":")
    return f"host={host.strip('[]')} port={port} user={user} application_name={slot(name)}"


def _script(node: NodeSpec, installation: Installation, fixed: Mapping[str, Any]) -> str:
    """Return the start script: it creates or copies the data if there is none, then executes the server.

    The `fixed` parameters are on the command line, where ALTER SYSTEM cannot override them.
    """
    postgres, initdb, backup = (
        shlex.quote(str(program(installation, name))) for name in ("postgres", "initdb", "pg_basebackup")
    )
    data, source_file = shlex.quote(str(node.folder / DATA)), shlex.quote(str(node.folder / SOURCE))
    secret = shlex.quote(str(node.folder / PASSWORD))
    config = shlex.quote(str(node.folder / "config" / "postgresql.conf"))
    options = " ".join(shlex.quote(f"--{name}={value}") for name, value in fixed.items())
    first = bool(node.founders) and node.founders[0] == node.name
    founds = "yes" if first or (node.founders and node.settings.get(PARTITIONED)) else ""
    read_only = "" if first else 'echo "default_transaction_read_only = on" >> "$data.new/postgresql.auto.conf"'
    return f"""\
set -eu
data={data}
# Not in primary_conninfo, which SQL statements can show.
PGPASSWORD=$(cat {secret})
export PGPASSWORD
if [ ! -s "$data/PG_VERSION" ] && [ -n "{founds}" ]; then
    rm -rf "$data.new"
    # initdb looks up its user's name. A user without an account borrows a name in a user namespace.
    named=
    id -un >/dev/null 2>&1 || named="unshare --user --map-user=nobody"
    $named {initdb} -D "$data.new" -U {USER} -A {_METHOD} --pwfile={secret} --no-locale -E UTF8 --no-sync
    {read_only}
    mv "$data.new" "$data"
elif [ ! -s "$data/PG_VERSION" ] || [ -e "$data/standby.signal" ]; then
    # The process that adds this node writes the primary's connection string.
    while [ ! -s {source_file} ]; do sleep 0.05; done
    source=$(cat {source_file})
    if [ ! -s "$data/PG_VERSION" ]; then
        rm -rf "$data.new"
        {backup} -D "$data.new" -d "$source" -S {slot(node.name)} -X stream -c fast --no-sync
        touch "$data.new/standby.signal"
        mv "$data.new" "$data"
    fi
    sed -i '/^primary_/d' "$data/postgresql.auto.conf"
    printf "primary_conninfo = '%s'\\nprimary_slot_name = '%s'\\n" "$source" {slot(node.name)} \\
        >> "$data/postgresql.auto.conf"
fi
exec {postgres} --config-file={config} {options}
"""


def quoted(value: object) -> str:
    """Return a value quoted for postgresql.conf; a bool becomes true or false. All parameters accept quotes."""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


def literal(value: object) -> str:
    """Return a value as a string constant of SQL, with escapes; a bool becomes true or false."""
    return f"E{quoted(value)}"
