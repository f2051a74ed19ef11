"""A node of Couchbase from the user's installation, which is left as it is: only the node's folder is written.

The vendor's start script has the folder of its data written into it, so one installation is one node. Here each node
gets a copy of the script, and of the two configuration files that it names, in which that folder is the node's own and
the ports and the name are its own, too; programs and libraries are those of the installation.
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
from loadframe.store import installed
from loadframe.store.base import Found, Installation, Member, NodePlan, NodeSpec

#: Where a node's folder has the quotas that follow from its memory limit, which only its plan knows.
QUOTAS = "config/quotas.json"
_MIB = 2**20
#: Bytes: the least that the server takes for the service of that setting.
_LEAST = 256 * _MIB
#: Bytes: the least memory limit that leaves something for the processes themselves.
_NODE = 1024 * _MIB
#: Of a node's memory limit, the quota of its documents; processes and indexes have the rest.
_SHARE = 0.5
_PARAMETERS = {"ram_quota": "memoryQuota", "index_quota": "indexMemoryQuota"}
_FAIL_OVER = "auto_failover"
#: Seconds after which the server may be told to fail a node over.
_FAIL_OVER_AFTER = (5, 3600)


def check(settings: Mapping[str, Any]) -> None:
    """Raise BadInput for any other."""
    for key, value in settings.items():
        if key in _PARAMETERS:
            if parse_size(value) < _LEAST:
                raise BadInput("a service wants 256 MiB on each node, or more", where=f"{key}: {value}")
        elif key == _FAIL_OVER:
            _fail_over(value)
        else:
            raise BadInput(
                f"couchbase has no setting {key} here", remedy=f"say {', '.join(_PARAMETERS)} or {_FAIL_OVER}"
            )


def quotas(node: NodeSpec) -> str:
    """Return the quotas, in bytes by their settings' names, that fit into the node's memory limit."""
    if node.memory is None:
        return json.dumps({})
    if node.memory < _NODE:
        raise BadInput("a node of couchbase wants 1 GiB of memory, or more", where=f"{node.name}: memory")
    return json.dumps({"ram_quota": int(node.memory * _SHARE), "index_quota": _LEAST})


def apply(tell: Callable[..., object], member: Member | None, settings: Mapping[str, Any]) -> None:
    """Tell a cluster its settings, those in its node's folder where none are said."""
    given: dict[str, Any] = _kept(member)
    given.update(settings)
    wanted = {name: parse_size(given[key]) // _MIB for key, name in _PARAMETERS.items() if key in given}
    if wanted:
        tell("/pools/default", **wanted)
    if _FAIL_OVER in given:
        after = _fail_over(given[_FAIL_OVER])
        tell("/settings/autoFailover", **({"enabled": "true", "timeout": after} if after else {"enabled": "false"}))


def _kept(member: Member | None) -> dict[str, Any]:
    """Return the settings in a node's folder; none without one."""
    text = member.call(nofollow.read_text, member.folder, QUOTAS) if member and member.folder else None
    return dict(json.loads(text or "{}"))


def _fail_over(value: Any) -> int | None:
    """Return the seconds after which a node that does not answer is failed over; None for never."""
    if value in (False, "false"):
        return None
    after = round(parse_duration(value))
    first, last = _FAIL_OVER_AFTER
    if not first <= after <= last:
        raise BadInput(f"a node is failed over after {first} s to {last} s", where=f"{_FAIL_OVER}: {value}")
    return after


_PROGRAM = "couchbase-server"
#: The oldest version whose configuration is known here.
_OLDEST = 7
#: Where an installation keeps what it writes, and what it reads to start, below its own folder.
_DATA = "var/lib/couchbase"
_CONFIGURATION = "etc/couchbase"
_COPIED = ("static_config", "ssl_dist_opts")
#: What tells in the script which folder it was installed to.
_PREFIX = re.compile(r'^PIDFILE="(/.*)/var/lib/couchbase/couchbase-server\.pid"$', re.MULTILINE)
#: The ports that a node with these services opens besides those of its administration and its documents.
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
#: One more, by which the node's number is chosen.
EXTRA_PORTS = len(_PORTS) + 1
#: Nodes are called n_NUMBER, and talk to each other at ports that follow from it: from 21100 to 21350, plus the number.
_FIRST = 20000


def find(home: Path | None) -> Found:
    """Return the installation; BadInput for one that is incomplete, that was moved, or that is too old."""
    program = installed.require_program(home, _PROGRAM).resolve()
    place = program.parent.parent
    version = installed.program_version(program, r"Couchbase Server (\d+(?:\.\d+)+)", "--version")
    if int(version.split(".")[0]) < _OLDEST:
        raise BadInput(
            f"couchbase {version} cannot be started here, {_OLDEST} and newer can",
            where=str(place),
            remedy="start it yourself and give its --hosts",
        )
    made_for = Path(_prefix(program.read_text(), place)).resolve()
    if made_for != place or not (place / _CONFIGURATION / "static_config").is_file():
        raise BadInput(
            "this installation was made for another folder, where its files are not",
            where=str(place),
            remedy="install it there, or have the vendor's installer for users who are not root set it up where it is",
        )
    return Found(version, place)


def plan(node: NodeSpec, installation: Installation) -> NodePlan:
    """Return the copies, and how the script among them is run."""
    home, data = installation.home, node.folder / "data"
    script = (home / "bin" / _PROGRAM).read_text()
    prefix = _prefix(script, home)
    config = node.folder / "config"
    name = f"n_{node.extra_ports[-1] - _FIRST}" if node.extra_ports else _name(config)

    def relocated(text: str) -> str:
        """Have it name the node's folders instead of the installation's."""
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
    if match := _PREFIX.search(script):
        return match[1]
    raise BadInput(
        "its start script is not as those of the versions that are known here",
        where=str(home / "bin" / _PROGRAM),
        remedy="start it yourself and give its --hosts",
    )


def _ports(node: NodeSpec, name: str) -> str:
    """Return the node's name and ports as its configuration has them."""
    ports = {"rest_port": node.port, "memcached_port": node.peer_port}
    ports |= dict(zip(_PORTS, node.extra_ports, strict=False))
    ports["projector_ssl_port"] = ports["projector_port"]
    return f'{{short_name, "{name}"}}.\n' + "".join(f"{{{key}, {port}}}.\n" for key, port in ports.items())


def _name(config: Path) -> str:
    """Return what a node that is started again was called before."""
    text = nofollow.read_text(config.parent, "config/ports") or ""
    match = re.search(r'^\{short_name, "(.*)"\}\.$', text, re.MULTILINE)
    assert match
    return match[1]


def _port(ports: str, key: str) -> str:
    match = re.search(rf"^\{{{key}, (\d+)\}}\.$", ports, re.MULTILINE)
    assert match
    return match[1]
