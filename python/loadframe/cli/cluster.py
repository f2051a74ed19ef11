"""`loadframe cluster up|status|down`: named clusters that stay up for other commands."""

import dataclasses
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from loadframe.base.errors import BadInput
from loadframe.base.units import FIRST_PORT, LAST_PORT, format_nodes, format_size, parse_size
from loadframe.cli import access, completion
from loadframe.cli.app import Application, Group, Topic, app, option
from loadframe.cli.choices import (
    ClusterHosts,
    ConfigServers,
    ContainerRuntime,
    Cores,
    EncryptionWord,
    Home,
    HostName,
    Image,
    Machines,
    Network,
    NodeCpus,
    NodeMemory,
    NodesToStart,
    PerMachine,
    Routers,
    Scratch,
    Shards,
    StoreVersion,
    core_limits,
    placement_options,
    sharding,
    store_settings,
)
from loadframe.cli.output import Json, out, print_json, tell
from loadframe.cluster import Cluster, ClusterSpec, Encryption, Limits, moving, named
from loadframe.cluster.spec import OF_HOST
from loadframe.host.choice import ENDING
from loadframe.report.labels import cores_text

cluster = Application(
    cls=Group, help="Start and manage named clusters that stay up for other commands.", no_args_is_help=True
)
app.add_typer(cluster, name="cluster")

Name = Annotated[
    str, typer.Argument(help="Name of the cluster.", show_default=False, autocompletion=completion.clusters)
]

#: Seconds that a command has to end after an interrupt, before SIGTERM, and again before SIGKILL.
_GRACE = 10.0
_UP_EXAMPLES = """\b
Examples:
  loadframe cluster up trial --nodes 3
  loadframe cluster up small --cpus 0.5 --memory 1g
  loadframe cluster up trial --nodes 4                # was stopped with 3 nodes
  loadframe cluster up trial --host ssh --machines node1,node2,node3,node4   # moves it there with its data
  loadframe cluster up apart --nodes 3 --host netns   # as root: see `cluster link`
  loadframe cluster up lean --set heap=256m --set node.processors=1
  loadframe cluster up split --store mongodb --version 7.0.14 --shards 2 --routers 2 --config-servers 3
  loadframe bench nyc_taxis --cluster trial
  loadframe cluster up job --nodes 3 -- python app.py # app.py reads LOADFRAME_HOSTS
"""
_STATUS_EXAMPLES = """\b
Examples:
  loadframe cluster status
  loadframe cluster status trial
  loadframe cluster status trial --json | jq -r '.nodes[].address'
  loadframe cluster status --hosts https://search.example:9200 --user ann --ca ca.pem
"""
_DOWN_EXAMPLES = """\b
Examples:
  loadframe cluster down trial
  loadframe cluster down trial --bring-home       # copy its data to this machine
  loadframe cluster down trial --delete-data
"""


@cluster.command(epilog=_UP_EXAMPLES)
def up(
    name: Name,
    command: Annotated[
        list[str] | None,
        typer.Argument(help="After `--`: command to run on the cluster, which stops with it.", show_default=False),
    ] = None,
    store: Annotated[
        str | None, option(Topic.STORE, autocompletion=completion.stores, help="Store to start. Default: opensearch.")
    ] = None,
    version: StoreVersion = None,
    shards: Shards = None,
    routers: Routers = None,
    config_servers: ConfigServers = None,
    nodes: NodesToStart = None,
    cpus: NodeCpus = None,
    memory: NodeMemory = None,
    cores: Cores = None,
    home: Home = None,
    host: HostName = None,
    image: Image = None,
    container_runtime: ContainerRuntime = None,
    machines: Machines = None,
    per_machine: PerMachine = None,
    network: Network = None,
    scratch: Scratch = None,
    encryption: EncryptionWord = None,
    set_: Annotated[
        list[str] | None, option(Topic.STORE, "--set", help="Setting of the store as key=value. Repeatable.")
    ] = None,
    port: Annotated[
        int | None,
        option(
            Topic.MACHINES,
            min=FIRST_PORT,
            max=LAST_PORT,
            help="Port of the first node; the other nodes use the following ports. Default: free ports.",
        ),
    ] = None,
    keep_data: Annotated[
        bool, option(Topic.OUTPUT, "--keep-data", help="With a COMMAND: keep the data of a new cluster when it ends.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Start a new or a stopped cluster, and leave it running.

    If the cluster is running, `up` starts its missing nodes and finishes interrupted changes. A stopped cluster starts
    with its data; if you give another number of --nodes, it then grows or shrinks.

    With a COMMAND after `--`, the cluster stops when the command ends, and `up` exits with the command's code. The
    command reads the nodes' addresses from LOADFRAME_HOSTS (host:port, comma-separated) and LOADFRAME_HOST (the first),
    and LOADFRAME_CLUSTER, LOADFRAME_STORE and, if the store needs them, LOADFRAME_USER, LOADFRAME_PASSWORD and
    LOADFRAME_CA. The data of a new cluster is deleted at the end; an existing cluster keeps its data.
    """
    if command:
        if as_json:
            raise BadInput(
                "--json cannot be combined with a COMMAND: both write to standard output", remedy="leave --json out"
            )
        _require_program(command)
    elif keep_data:
        raise BadInput(
            "--keep-data requires a COMMAND; otherwise the data always stays",
            remedy="leave it out, or give a command after `--`",
        )
    saved = named.load(name)
    kind = store or (saved.spec.store if saved else ClusterSpec.store)
    settings = sharding(kind, nodes, shards, routers, config_servers) | store_settings(set_ or [])
    given = _without_none(
        store=store,
        version=version,
        nodes=nodes or shards,
        home=home,
        host=host,
        image=image,
        runtime=container_runtime,
        port=port,
        settings=settings or None,
        encryption=Encryption(encryption) if encryption else None,
        **placement_options(machines, per_machine, network, scratch),
    )
    limits = core_limits(cores) | _without_none(
        cpus=cpus,
        memory=None if memory is None else parse_size(memory),
    )
    where = host or (saved.spec.host if saved else None)
    if where in ENDING and not command:
        raise BadInput(
            f"nodes of --host {where} stop when `cluster up` ends",
            remedy=f"run your program on them: loadframe cluster up {name} ... -- COMMAND",
        )
    if saved and saved.running and not command and not given and not limits and Cluster.load(name).mend(step):
        show(name, as_json)
        return
    spec = (
        _changed_spec(saved.spec, given, limits) if saved else ClusterSpec(name=name, limits=Limits(**limits), **given)
    )
    if settings:
        Cluster.require_settings(spec.store, spec.settings, "--set")
    if command:
        raise typer.Exit(_run_command(command, spec, delete=saved is None and not keep_data))
    with Cluster.start(spec, step) as started:
        started.keep()
    show(name, as_json)


def _run_command(command: list[str], spec: ClusterSpec, *, delete: bool) -> int:
    """Start a cluster, run a command on it, stop the cluster, and return the command's exit code.

    With `delete`, also delete the cluster and its data. BadInput, with the cluster unchanged, if it is running.
    """
    assert spec.name
    ours = False
    try:
        with Cluster.start(spec, step) as started:
            ours = True
            return _run_on(started, command, spec.name)
    finally:
        with named.locked(spec.name, step):
            saved = named.load(spec.name)
            # The command may have added nodes, which `started` does not know. A cluster that ran before stays.
            if saved and saved.running and ours:
                Cluster.load(spec.name).stop()
            if saved and delete and (ours or not saved.running):
                named.delete(spec.name)


def _require_program(command: Sequence[str]) -> None:
    """Raise BadInput unless the program exists. Call it before starting a cluster."""
    if shutil.which(command[0]) is None:
        raise BadInput(
            f"the program {command[0]!r} does not exist",
            remedy="write `loadframe cluster up NAME [options] -- COMMAND`, with a program in PATH, or its path",
        )


def _run_on(cluster: Cluster, command: Sequence[str], name: str) -> int:
    """Run a command with the cluster's addresses in its environment, and return its exit code (128 + signal).

    Afterwards print the deviations that are new since its start. An interrupt ends the command and is raised again.
    """
    before = set(cluster.deviations())
    with _ending(subprocess.Popen(command, env={**os.environ, **variables(cluster, name)})) as process:
        status = process.wait()
    for sentence in cluster.deviations():
        if sentence not in before:
            tell(f"while the command ran: {sentence}", style="yellow")
    return status if status >= 0 else 128 - status


def variables(cluster: Cluster, name: str) -> dict[str, str]:
    """Return the environment variables for a command: addresses as `host:port`, and credentials."""
    addresses = cluster.addresses
    environment = {
        "LOADFRAME_CLUSTER": name,
        "LOADFRAME_STORE": cluster.store.kind,
        "LOADFRAME_HOSTS": ",".join(addresses),
        "LOADFRAME_HOST": addresses[0],
    }
    auth = cluster.access.auth
    if auth and auth.scheme == "basic":
        environment |= {"LOADFRAME_USER": auth.user or "", "LOADFRAME_PASSWORD": auth.secret}
    if (tls := cluster.access.tls) and tls.ca:
        environment["LOADFRAME_CA"] = str(tls.ca)
    return environment


@contextmanager
def _ending(process: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """Yield the process; on exit, end it: wait, then SIGTERM, then SIGKILL, with up to 10 s after each step."""
    try:
        yield process
    finally:
        # Ctrl-C at a terminal has reached the process, too.
        steps: tuple[Callable[[], None], ...] = (lambda: None, process.terminate, process.kill)
        for step in steps:
            if process.poll() is not None:
                break
            step()
            try:
                process.wait(_GRACE)
            except subprocess.TimeoutExpired:
                continue


def step(line: str) -> None:
    """Print a line of progress to standard error."""
    tell(f"  {line}", style="dim")


def _without_none(**values: Any) -> dict[str, Any]:
    """Return the keyword arguments that are not None."""
    return {key: value for key, value in values.items() if value is not None}


def _changed_spec(before: ClusterSpec, given: dict[str, Any], limits: dict[str, Any]) -> ClusterSpec:
    """Return the spec of a saved cluster with the new values `given`, and new values of its `limits`.

    BadInput for another store or version, which its data fix; with a new `home`, the version is not checked here. A new
    host drops the options of the previous one.
    """
    if "home" in given:
        # The installation defines the version, which may be newer.
        before = dataclasses.replace(before, version=given.get("version"))
    if given.get("host", before.host) != before.host:
        # Options of the previous host do not apply to the new one.
        plain = ClusterSpec()
        given = {key: getattr(plain, key) for key in OF_HOST} | given
    for key in ("store", "version"):
        if key in given and given[key] != getattr(before, key):
            raise BadInput(
                f"cluster {before.name} exists with {key} {getattr(before, key)}, not {given[key]}",
                remedy=f"leave --{key} out, take another name, or `loadframe cluster down {before.name} --delete-data`",
            )
    return dataclasses.replace(before, limits=dataclasses.replace(before.limits, **limits), **given)


@cluster.command(epilog=_STATUS_EXAMPLES)
@access.with_options()
def status(
    context: typer.Context,
    name: Annotated[
        str | None,
        typer.Argument(help="Name of the cluster. Default: all clusters.", autocompletion=completion.clusters),
    ] = None,
    hosts: ClusterHosts = None,
    store: Annotated[
        str, option(Topic.EXISTING, autocompletion=completion.stores, help="Kind of the store at --hosts.")
    ] = "opensearch",
    as_json: Json = False,
) -> None:
    """List all clusters, or show the nodes, health and deviations of one."""
    attach = access.existing(context.params, loads=False)
    if attach:
        if name is not None:
            raise BadInput(f"{name} and --hosts both name a cluster", remedy="give one of them")
        _show_attached(attach(), as_json)
        return
    if name is not None:
        show(name, as_json)
        return
    states = [_state(known) for known in named.names()]
    if as_json:
        print_json(states)
        return
    if not states:
        tell("No clusters. Start one with `loadframe cluster up NAME`.")
        return
    from rich.table import Table

    table = Table("cluster", "state", "store", "nodes", "addresses", box=None, pad_edge=False)
    for state in states:
        store_version = f"{state['store']} {state['version']}"
        nodes = ", ".join(node["address"] for node in state["nodes"])
        table.add_row(state["name"], state["state"], store_version, str(state["size"]), nodes)
    out.print(table)


@cluster.command(epilog=_DOWN_EXAMPLES)
def down(
    name: Name,
    delete_data: Annotated[bool, typer.Option("--delete-data", help="Delete the cluster and its data.")] = False,
    bring_home: Annotated[
        bool, typer.Option("--bring-home", help="Move its data from other machines to this one.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Stop a cluster and keep its data, so that `up` can start it again.

    The command lists machines that it cannot reach, and data that stays on them.
    """
    if delete_data and bring_home:
        raise BadInput("--delete-data and --bring-home contradict each other", remedy="give one of them")
    named.existing(name)
    with named.locked(name, tell):
        saved = named.existing(name)
        if saved.running:
            Cluster.load(name).stop()
        left = saved.unknown
        if bring_home:
            moving.bring_home(name, step)
        if delete_data:
            left = named.delete(name)
    done = "deleted" if delete_data else "stopped"
    if as_json:
        print_json({"name": name, "state": done, "unreached": left})
        return
    for sentence in left:
        tell(f"warning: {sentence}", style="yellow")
    reached = " on the machines that can be reached" if left else ""
    tell(f"Cluster {name} is {done}{reached}.")


def _state(name: str) -> dict[str, Any]:
    """Return a named cluster's state as documented for --json; BadInput for an unknown name.

    The `state` is running, deviating (running with deviations), stopped or unknown. Memory is in bytes.
    """
    saved = named.existing(name)
    running = Cluster.load(name) if saved.running else None
    deviations = running.deviations() if running else saved.unknown
    stopped = "unknown" if saved.unknown else "stopped"
    return {
        "name": name,
        "state": ("running" if not deviations else "deviating") if saved.running else stopped,
        # The user's own store is a file path, which may no longer exist.
        "store": saved.spec.store.rpartition("/")[2],
        "version": saved.facts.get("version") or saved.spec.version,
        "size": saved.spec.nodes,
        "limits": dataclasses.asdict(saved.spec.limits),
        "settings": dict(saved.spec.settings),
        "encryption": saved.spec.encryption.value,
        "host": saved.spec.host,
        "nodes": [
            {
                "name": node.name,
                "address": node.address,
                "machine": node.on,
                "pid": node.pid,
                "alive": bool(node.process and node.process.alive()),
                "known": node.unknown is None,
                "log": str(node.log),
                "link": ", ".join((["cut"] if node.cut else []) + ([node.shape] if node.shape else [])) or None,
            }
            for node in saved.nodes
        ],
        "deviations": deviations,
        "folder": str(named.folder_of(name)),
        "console": running.console() if running else None,
    }


def show(name: str, as_json: bool) -> None:
    """Print a named cluster's state to standard output, as JSON or as text."""
    state = _state(name)
    if as_json:
        print_json(state)
        return
    limits = state["limits"]
    limits_text = [f"{limits['cpus']:g} CPUs"] if limits["cpus"] else []
    limits_text += [format_size(limits["memory"])] if limits["memory"] else []
    where = cores_text(limits["cores"], limits["cores_each"])
    where = f", {where}" if where else ""
    where += "" if state["encryption"] == "none" else f", encryption: {state['encryption']}"
    out.print(
        f"{name}: {state['store']} {state['version']}, {format_nodes(state['size'])}"
        f"{' of ' + ' and '.join(limits_text) if limits_text else ''}{where}, {state['state']}",
        markup=False,
        highlight=False,
    )
    for node in state["nodes"]:
        alive = f"pid {node['pid']}" if node["alive"] else "gone" if node["known"] else "unknown"
        alive += f"  link: {node['link']}" if node["link"] else ""
        out.print(
            f"  {node['name']}  {node['address']}  {alive}  {node['log']}",
            markup=False,
            highlight=False,
            soft_wrap=True,
        )
    if state["console"]:
        out.print(f"  connect with: {state['console']}", markup=False, highlight=False, soft_wrap=True)
    for deviation in state["deviations"]:
        out.print(f"  {deviation}", style="yellow", markup=False, highlight=False)


def _show_attached(cluster: Cluster, as_json: bool) -> None:
    """Print the state of an existing cluster that --hosts names to standard output, as JSON or as text."""
    described, deviations = cluster.describe(), cluster.deviations()
    state = {
        "name": None,
        "state": "deviating" if deviations else "running",
        **{key: described[key] for key in ("version", "access")},
        "store": cluster.store.kind,
        "size": cluster.size,
        "nodes": [{"name": node.name, "address": node.address} for node in cluster.nodes],
        "deviations": deviations,
    }
    if as_json:
        print_json(state)
        return
    size = format_nodes(cluster.size)
    out.print(
        f"{', '.join(cluster.addresses)}: {state['store']} {state['version']}, {size}, {state['state']}",
        markup=False,
        highlight=False,
    )
    for deviation in deviations:
        out.print(f"  {deviation}", style="yellow", markup=False, highlight=False)
