"""`loadframe cluster up|status|down`: clusters with a name, which stay up for other commands."""

import dataclasses
from typing import Annotated, Any

import typer

from loadframe.cli import access, cluster_command
from loadframe.cli.app import Group, app
from loadframe.cli.choices import (
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
    PerMachine,
    Scratch,
    StoreVersion,
    assignments,
    core_limits,
    placed,
)
from loadframe.cli.output import Json, out, print_json, tell
from loadframe.cluster import Cluster, ClusterSpec, Encryption, Limits, moving, named
from loadframe.cluster.spec import OF_HOST
from loadframe.errors import BadInput
from loadframe.host.kinds import ENDING
from loadframe.ranges import FIRST_PORT, LAST_PORT, MOST_NODES
from loadframe.report.labels import cores_text
from loadframe.units import format_nodes, format_size, parse_size

cluster = typer.Typer(cls=Group, help="Keep a cluster up for other commands, under a name.", no_args_is_help=True)
app.add_typer(cluster, name="cluster")

Name = Annotated[str, typer.Argument(help="The cluster's name.", show_default=False)]

_UP_EXAMPLES = """\b
Examples:
  loadframe cluster up trial --nodes 3
  loadframe cluster up small --cpus 0.5 --memory 1g
  loadframe cluster up trial --nodes 4                # stopped before, with 3 nodes
  loadframe cluster up trial --host ssh --machines node1,node2,node3,node4   # the same, brought there with its data
  loadframe cluster up apart --nodes 3 --host netns   # as root: see `cluster link`
  loadframe cluster up lean --set heap=256m --set node.processors=1
  loadframe bench nyc_taxis --cluster trial
  loadframe cluster up job --nodes 3 -- python app.py # ends with app.py, which finds LOADFRAME_HOSTS
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
  loadframe cluster down trial --bring-home       # copy its data to this machine, from those that it was on
  loadframe cluster down trial --delete-data
"""


@cluster.command(epilog=_UP_EXAMPLES)
def up(
    name: Name,
    command: Annotated[
        list[str] | None,
        typer.Argument(help="After `--`: a command to run on the cluster, which ends with it.", show_default=False),
    ] = None,
    store: Annotated[str | None, typer.Option(help="The store; opensearch if not given.")] = None,
    version: StoreVersion = None,
    nodes: Annotated[int | None, typer.Option(min=1, max=MOST_NODES, help="Number of nodes; 1 if not given.")] = None,
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
        list[str] | None, typer.Option("--set", help="A setting of the store, key=value; may be repeated.")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            min=FIRST_PORT,
            max=LAST_PORT,
            help="Port of the first node, the others count on; free ones if not given.",
        ),
    ] = None,
    keep_data: Annotated[
        bool, typer.Option("--keep-data", help="Of a new cluster for a COMMAND: keep its data when that has ended.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Start a cluster, or one that was stopped with its data, and leave it running.

    Of one that runs it starts the nodes that are gone, and finishes what was cut off. A stopped one comes back with as
    many nodes as are asked for: it grows or shrinks once it is up.

    With a COMMAND after `--` the cluster ends when the command does, with its exit status. The command finds the nodes
    in LOADFRAME_HOSTS (host:port, comma-separated), the first one in LOADFRAME_HOST, and the rest in LOADFRAME_CLUSTER,
    LOADFRAME_STORE and, where the store wants them, LOADFRAME_USER, LOADFRAME_PASSWORD and LOADFRAME_CA. The data of a
    new cluster is deleted then, and that of one that was there before stays.
    """
    if command:
        if as_json:
            raise BadInput("--json and a command both write to the output", remedy="leave --json out")
        cluster_command.require_program(command)
    elif keep_data:
        raise BadInput(
            "--keep-data is for a cluster that ends with a command: without one, its data stays anyway",
            remedy="leave it out, or give a command after `--`",
        )
    given = _without_none(
        store=store,
        version=version,
        nodes=nodes,
        home=home,
        host=host,
        image=image,
        runtime=container_runtime,
        port=port,
        settings=assignments(set_) if set_ else None,
        encryption=Encryption(encryption) if encryption else None,
        **placed(machines, per_machine, network, scratch),
    )
    limits = core_limits(cores) | _without_none(
        cpus=cpus,
        memory=None if memory is None else parse_size(memory),
    )
    saved = named.load(name)
    where = host or (saved.spec.host if saved else None)
    if where in ENDING and not command:
        raise BadInput(
            f"nodes of --host {where} end with the command that has started them, so this one would keep none",
            remedy=f"have it run what needs them: loadframe cluster up {name} ... -- COMMAND",
        )
    if saved and saved.running and not command and not given and not limits and Cluster.load(name).mend(step):
        show(name, as_json)
        return
    spec = _again(saved.spec, given, limits) if saved else ClusterSpec(name=name, limits=Limits(**limits), **given)
    if command:
        raise typer.Exit(_with(command, spec, delete=saved is None and not keep_data))
    with Cluster.start(spec, step) as started:
        started.keep()
    show(name, as_json)


def _with(command: list[str], spec: ClusterSpec, *, delete: bool) -> int:
    """Run a command on a cluster that ends with it, and return the command's exit status."""
    assert spec.name
    try:
        with Cluster.start(spec, step) as started:
            return cluster_command.run_on(started, command, spec.name)
    finally:
        with named.locked(spec.name, step):
            saved = named.load(spec.name)
            # The command may have added nodes, which are its own then, and not ours.
            if saved and saved.running:
                Cluster.load(spec.name).stop()
            if saved and delete:
                named.delete(spec.name)


def step(line: str) -> None:
    """Print what begins, or what became of it."""
    tell(f"  {line}", style="dim")


def _without_none(**values: Any) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}


def _again(before: ClusterSpec, given: dict[str, Any], limits: dict[str, Any]) -> ClusterSpec:
    """Return the spec of a stopped cluster with what may change between two starts; its data fixes the rest."""
    if "home" in given:
        # It says itself which version it is, which may be a newer one.
        before = dataclasses.replace(before, version=given.get("version"))
    if given.get("host", before.host) != before.host:
        # What was said of the host that it was on means nothing on another one.
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
def status(
    context: typer.Context,
    name: Annotated[str | None, typer.Argument(help="The cluster's name; all if not given.")] = None,
    hosts: Annotated[
        str | None, typer.Option(help="Show the cluster at these host:port or https://host:port, comma-separated.")
    ] = None,
    store: Annotated[str, typer.Option(help="The kind of the store at --hosts.")] = "opensearch",
    user: access.User = None,
    password_file: access.PasswordFile = None,
    api_key_file: access.ApiKeyFile = None,
    token_file: access.TokenFile = None,
    ca: access.Ca = None,
    cert: access.Cert = None,
    key: access.Key = None,
    insecure: access.Insecure = False,
    compress: access.Compress = False,
    as_json: Json = False,
) -> None:
    """Show the clusters, or the state of one: its nodes, its health, and how it differs from what was asked for."""
    addresses, reached = access.existing(context.params)
    if addresses:
        if name is not None:
            raise BadInput(f"{name} and --hosts each name a cluster", remedy="give one of them")
        _show_attached(Cluster.attach(addresses, store, reached), as_json)
        return
    if name is not None:
        show(name, as_json)
        return
    states = [_state(known) for known in named.names()]
    if as_json:
        print_json(states)
        return
    if not states:
        tell("There is no cluster; start one with `loadframe cluster up NAME`.")
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
    delete_data: Annotated[bool, typer.Option("--delete-data", help="Delete the cluster with its data.")] = False,
    bring_home: Annotated[
        bool, typer.Option("--bring-home", help="Copy its data to this machine, and remove it from the others.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Stop a cluster. Its data stays, and `up` starts it again, unless you say otherwise.

    What cannot be reached is named, and so is the data that stays there when the cluster is deleted.
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
    reached = ", as far as its machines can be reached" if left else ""
    tell(f"Cluster {name} is {done}{reached}.")


def _state(name: str) -> dict[str, Any]:
    """Return a cluster's state for people and programs. Memory in bytes."""
    saved = named.existing(name)
    running = Cluster.load(name) if saved.running else None
    deviations = running.deviations() if running else saved.unknown
    stopped = "unknown" if saved.unknown else "stopped"
    return {
        "name": name,
        "state": ("running" if not deviations else "deviating") if saved.running else stopped,
        # Of one that is a file of the user's, its name: it may be gone by now.
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
    """Print a named cluster's state."""
    state = _state(name)
    if as_json:
        print_json(state)
        return
    limits = state["limits"]
    asked = [f"{limits['cpus']:g} CPUs"] if limits["cpus"] else []
    asked += [format_size(limits["memory"])] if limits["memory"] else []
    where = cores_text(limits["cores"], limits["cores_each"])
    where = f", {where}" if where else ""
    where += "" if state["encryption"] == "none" else f", encryption: {state['encryption']}"
    out.print(
        f"{name}: {state['store']} {state['version']}, {format_nodes(state['size'])}"
        f"{' of ' + ' and '.join(asked) if asked else ''}{where}, {state['state']}",
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
