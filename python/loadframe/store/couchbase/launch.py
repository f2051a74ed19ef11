"""Starting Couchbase nodes from the user's installation, without changing the installation.

The vendor's start script contains the path of its data folder, so that an installation normally runs one node. Each
node here gets copies of the script and of the two configuration files that it names, with separate data folder, ports
and name. Nodes use the installation's programs and libraries.
"""

import json
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from loadframe.base import nofollow
from loadframe.base.errors import BadInput
from loadframe.base.units import parse_duration, parse_size
from loadframe.store import distribution
from loadframe.store.base import FoundInstallation, Installation, Member, NodePlan, NodeSpec, nearest_first

#: File in a node's folder with the quotas that result from its memory limit.
QUOTAS = "config/quotas.json"
_MIB = 2**20
#: The server's minimum quota of a service, bytes.
_MIN_QUOTA = 256 * _MIB
#: The lowest memory limit that leaves enough for the processes, bytes.
_MIN_MEMORY = 1024 * _MIB
#: Share of a node's memory limit for documents; processes and indexes have the rest.
_SHARE = 0.5
_PARAMETERS = {"ram_quota": "memoryQuota", "index_quota": "indexMemoryQuota"}
_FAIL_OVER = "auto_failover"
#: The server's range of the delay before failing over a node, s.
_FAIL_OVER_AFTER = (5, 3600)


def check(settings: Mapping[str, Any]) -> None:
    """Raise BadInput for an unknown setting, a memory quota below 256 MiB, or an invalid `auto_failover`."""
    for key, value in settings.items():
        if key in _PARAMETERS:
            if parse_size(value) < _MIN_QUOTA:
                raise BadInput("a quota must be at least 256 MiB per node", where=f"{key}: {value}")
        elif key == _FAIL_OVER:
            _fail_over(value)
        else:
            raise BadInput(
                f"unknown setting {key} of couchbase",
                remedy=f"use one of {nearest_first(key, (*_PARAMETERS, _FAIL_OVER))}",
            )


def quotas(node: NodeSpec) -> str:
    """Return JSON with `ram_quota`, half of the node's memory limit, and `index_quota`, 256 MiB, both in bytes.

    An empty object without a limit. BadInput for a limit below 1 GiB.
    """
    if node.memory is None:
        return json.dumps({})
    if node.memory < _MIN_MEMORY:
        raise BadInput("a couchbase node needs at least 1 GiB of memory", where=f"{node.name}: memory")
    return json.dumps({"ram_quota": int(node.memory * _SHARE), "index_quota": _MIN_QUOTA})


def apply(post: Callable[..., object], member: Member | None, settings: Mapping[str, Any]) -> None:
    """Send the memory quotas and `auto_failover` in `settings` to a cluster; others are not changed.

    Quotas that `settings` lack are those stored in the folder of `member`, if any. `post(path, **values)` sends a form
    to the cluster.
    """
    merged: dict[str, Any] = _stored_quotas(member) | dict(settings)
    quota_form = {name: parse_size(merged[key]) // _MIB for key, name in _PARAMETERS.items() if key in merged}
    if quota_form:
        post("/pools/default", **quota_form)
    if _FAIL_OVER in merged:
        after = _fail_over(merged[_FAIL_OVER])
        post("/settings/autoFailover", **({"enabled": "true", "timeout": after} if after else {"enabled": "false"}))


def _stored_quotas(member: Member | None) -> dict[str, Any]:
    """Return the JSON that `quotas` made, from a member's folder; empty without a member, folder or file."""
    text = member.call(nofollow.read_text, member.folder, QUOTAS) if member and member.folder else None
    return dict(json.loads(text or "{}"))


def _fail_over(value: Any) -> int | None:
    """Return the delay before a silent node is failed over, s, or None for never; BadInput outside 5 s to 3600 s.

    `value` is False, `false`, or a duration.
    """
    if value in (False, "false"):
        return None
    after = round(parse_duration(value))
    first, last = _FAIL_OVER_AFTER
    if not first <= after <= last:
        raise BadInput(f"auto_failover must be false, or {first} s to {last} s", where=f"{_FAIL_OVER}: {value}")
    return after


_PROGRAM = "couchbase-server"
#: The oldest major version with a known configuration.
_OLDEST = 7
#: Folders of data and configuration in an installation.
_DATA = "var/lib/couchbase"
_CONFIGURATION = "etc/couchbase"
_COPIED = ("static_config", "ssl_dist_opts")
#: The line of the script that contains the installation's folder.
_PREFIX = re.compile(r'^PIDFILE="(/.*)/var/lib/couchbase/couchbase-server\.pid"$', re.MULTILINE)
#: Further ports of a node with these services, besides administration and documents.
_PORTS = (
    "ssl_rest_port",
    "memcached_ssl_port",
    "memcached_dedicated_port",
    "memcached_dedicated_ssl_port",
    "memcached_prometheus",
    "capi_port",
    "ssl_capi_port",
    "projector_port",
    "query_port",
    "ssl_query_port",
    "indexer_admin_port",
    "indexer_scan_port",
    "indexer_http_port",
    "indexer_https_port",
    "indexer_stinit_port",
    "indexer_stcatchup_port",
    "indexer_stmaint_port",
    "xdcr_rest_port",
    "prometheus_http_port",
)
#: One more port, from which the node's number results.
EXTRA_PORTS = len(_PORTS) + 1
#: Nodes are named n_NUMBER, and connect to each other at ports 21100 to 21350 plus that number.
_FIRST = 20000


def find(home: Path | None) -> FoundInstallation:
    """Return the installation in `home` or on the PATH; BadInput if it is incomplete, moved or too old."""
    program = distribution.require_program(home, _PROGRAM).resolve()
    folder = program.parent.parent
    version = distribution.program_version(program, r"Couchbase Server (\d+(?:\.\d+)+)", "--version")
    if int(version.split(".")[0]) < _OLDEST:
        raise BadInput(
            f"Loadframe cannot start couchbase {version}, only {_OLDEST} and newer",
            where=str(folder),
            remedy="start it yourself and name it with --hosts",
        )
    made_for = Path(_prefix(program.read_text(), folder)).resolve()
    if made_for != folder or not (folder / _CONFIGURATION / "static_config").is_file():
        raise BadInput(
            "this installation was made for another folder, which does not contain its files",
            where=str(folder),
            remedy="install it there, or set it up here with the vendor's installer for non-root users",
        )
    return FoundInstallation(version, folder)


def plan(node: NodeSpec, installation: Installation) -> NodePlan:
    """Return the plan of a node, which runs a copy of the vendor's start script with other folders, name and ports.

    A restarted node (without `extra_ports`) keeps the name and ports in its folder. BadInput for an unknown script, or
    a memory limit below 1 GiB.
    """
    home, data = installation.home, node.folder / "data"
    script = (home / "bin" / _PROGRAM).read_text()
    prefix = _prefix(script, home)
    config = node.folder / "config"
    name = f"n_{node.extra_ports[-1] - _FIRST}" if node.extra_ports else _name(config)

    def relocated(text: str) -> str:
        """Replace the installation's data folder, copied configuration files and babysitter's name by the node's."""
        text = text.replace(f"{prefix}/{_DATA}", str(data))
        for file in _COPIED:
            text = text.replace(f"{prefix}/{_CONFIGURATION}/{file}", str(config / file))
        return text.replace("babysitter_of_ns_1@", f"babysitter_of_{name}@")

    files = {f"config/{_PROGRAM}": relocated(script), QUOTAS: quotas(node)}
    for file in _COPIED:
        if (source := home / _CONFIGURATION / file).exists():
            files[f"config/{file}"] = relocated(source.read_text())
    if node.extra_ports:
        files["config/ports"] = _ports(node, name)
    ports = files.get("config/ports") or nofollow.read_text(node.folder, "config/ports") or ""
    files["config/static_config"] = f"{files['config/static_config'].rstrip()}\n{ports}"
    files["config/couch.ini"] = (
        f"[httpd]\nport = {_port(ports, 'capi_port')}\n"
        f"[couchdb]\ndatabase_dir = {data / 'data'}\nview_index_dir = {data / 'data'}\n"
    )
    return NodePlan(
        files=files,
        folders=("data", "data/config", "data/data", "data/logs", "data/tmp"),
        argv=(shutil.which("bash") or "/bin/bash", str(config / _PROGRAM), "--", "-noinput"),
        environment={
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "HOME": str(node.folder),
            "LANG": "C.UTF-8",
            "COUCHDB_ADDITIONAL_CONFIG_FILE": str(config / "couch.ini"),
        },
        facts={},
    )


def _prefix(script: str, home: Path) -> str:
    """Return the folder for which the vendor's start script was made; BadInput for an unknown script.

    `script` is its text, `home` the installation, for the message.
    """
    if match := _PREFIX.search(script):
        return match[1]
    raise BadInput(
        "unknown start script, which differs from all supported versions",
        where=str(home / "bin" / _PROGRAM),
        remedy="start it yourself and name it with --hosts",
    )


def _ports(node: NodeSpec, name: str) -> str:
    """Return the text of a new node's `config/ports`: Erlang terms with its ports and `name`, such as `n_1234`."""
    ports = {"rest_port": node.port, "memcached_port": node.peer_port}
    ports |= dict(zip(_PORTS, node.extra_ports, strict=False))
    ports["projector_ssl_port"] = ports["projector_port"]
    return f'{{short_name, "{name}"}}.\n' + "".join(f"{{{key}, {port}}}.\n" for key, port in ports.items())


def _name(config: Path) -> str:
    """Return the name of a restarted node, such as `n_1234`, from `ports` in its folder `config`."""
    text = nofollow.read_text(config.parent, "config/ports") or ""
    match = re.search(r'^\{short_name, "(.*)"\}\.$', text, re.MULTILINE)
    assert match
    return match[1]


def _port(ports: str, key: str) -> str:
    """Return the port with that key, as text, from the text that `_ports` made; the key must be in it."""
    match = re.search(rf"^\{{{key}, (\d+)\}}\.$", ports, re.MULTILINE)
    assert match
    return match[1]
