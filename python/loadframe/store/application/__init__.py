"""Applications under test: instances of a user's program behind a load balancer, and the stores that they use."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from secrets import token_hex
from typing import Any, Self

import loadframe.store as stores
from loadframe.base import nofollow
from loadframe.base.errors import BadInput, LoadframeError
from loadframe.base.units import counted
from loadframe.store.access import OPEN, Access, Auth
from loadframe.store.application import balancer
from loadframe.store.application.tiers import TOLD, Tiers, digest, process_names, read, tell, until, waiting
from loadframe.store.base import (
    Balancing,
    Figure,
    Health,
    Installation,
    Member,
    NodePlan,
    NodeSpec,
    ProcessSpec,
    Store,
    Unreachable,
    Watch,
    nearest_first,
)
from loadframe.store.distribution import Distribution, Environment
from loadframe.store.web import UnansweredError, Web

#: HTTP timeout, s.
_TIMEOUT = 10.0
#: Name and role of the load balancer. The role of a store's process is its kind, the role of an instance is empty.
BALANCER = "balancer"
#: Settings of every application, with their defaults.
_OWN: Mapping[str, Any] = {"store": "", "balance": "roundrobin", "balancer_threads": 1}
_BALANCES = ("roundrobin", "leastconn", "random", "first")
#: File with the password of a store's administrator.
SECRET = "config/administrator"
#: Folder of an instance's files, below its own folder.
_FILES = "files"
#: A store's setting, after its kind and a dot, that is not the store's own: its number of nodes, by default 1.
_NODES = "nodes"
_MOST_NODES = 64
#: HAProxy's statistics that are recorded for each instance, and for the frontend as `balancer`.
_FIGURES = {
    "scur": "sessions",
    "stot": "requests",
    "qcur": "queued",
    "econ": "connections_refused",
    "eresp": "answers_broken",
    "wredis": "sent_elsewhere",
    "rtime": "answer_milliseconds",
}


class Application(Store):
    """Instances (the nodes) behind a load balancer, and the nodes of each store that they use.

    `command` starts an instance. `{python}` in it is the interpreter of its virtual environment; `{address}` and
    `{port}` are where to listen. When it is ready, it answers `GET health` with status 200. Its environment contains
    `STORES` (kinds, separated by blanks), and for each store `STORE_KIND` (host:port of its first node) and
    `STORE_KIND_NODES` (host:port of each node, separated by blanks), with `STORE_KIND_USER` and `STORE_KIND_PASSWORD`
    if the store authenticates. It also contains `INSTANCE` (its name), `ADDRESS` (its host:port), `DATA` (a private
    folder), `SECRET` (the same for all instances), and each of the `settings` as `SETTING_NAME`.

    `watch` gets the progress of waits, and may end them by an error.
    """

    family = "http"
    driver = "http"
    only_here = True
    #: Some stores refuse root, and all processes of a cluster run as one user.
    refuses_root = True
    needs_account = True
    #: The content of its stores is unknown, so clusters are not emptied and reused: each cluster size gets a new one.
    ages = True
    joins_without_all = True
    start_seconds = (15.0, 2.0)
    watched = (Figure("requests/s", "requests", total=True), Figure("in flight", "sessions"))

    def __init__(
        self,
        *,
        kind: str,
        folder: Path,
        command: Sequence[str],
        behind: Sequence[str],
        version: str = "0",
        requirements: str | None = "requirements.lock",
        files: Sequence[str] = ("**/*.py",),
        health: str = "/health",
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        """Describe the application `kind`, whose files are in `folder`; BadInput for an unknown store.

        `command` starts an instance; `{python}`, `{address}`, `{port}` and `{folder}` in it are replaced. `behind` are
        the kinds of store that it supports, the default first. `version` is a label. `requirements` is the name of the
        file with its packages, or None without packages. `files` are glob patterns of the files that each instance
        gets. `health` is the path of the health request. `settings` are the application's settings with their defaults.
        """
        self.kind = kind
        self._folder = folder
        self._command = tuple(command)
        self._behind = {name: stores.find(name, "behind") for name in behind}
        self._version = version
        self._requirements = requirements
        self._files = tuple(files)
        self._health = health
        self._settings = dict(settings or {})
        self.own_address = any(store.own_address for store in self._behind.values())
        self.extra_ports = max((store.extra_ports for store in self._behind.values()), default=0)
        self._web = Web(OPEN, timeout=_TIMEOUT)
        #: Tiers of clusters that this process formed, by the balancer's address.
        self._known: dict[str, Tiers] = {}
        #: Authenticated stores with their credentials, by address.
        self._logged_in: dict[str, tuple[Auth, Store]] = {}

    def with_access(self, access: Access) -> Self:
        """Return the application unchanged; BadInput for TLS, credentials, compression or proxies."""
        if not access.is_plain:
            raise BadInput(
                f"{self.kind} does not support TLS or credentials",
                remedy="reach one that runs elsewhere as --store http, with --hosts",
            )
        return self

    # Software and settings

    @property
    def _texts(self) -> Mapping[str, str]:
        """The contents of the files in `files`, by relative path, without names `test_*`; BadInput as `read`."""
        return read(self._folder, self._files, ("test_*",))

    def distribution(self, version: str) -> Distribution:
        """Return the application's virtual environment; `version` is ignored.

        Its version is the application's, with a digest of its files, requirements and command. BadInput if a file is
        unreadable or too large, if there are none, or without haproxy.
        """
        balancer.program()
        lock, where = "", ""
        if self._requirements:
            path = self._folder / self._requirements
            where = str(path)
            try:
                lock = path.read_text("utf-8")
            except (OSError, UnicodeDecodeError) as error:
                raise BadInput(
                    f"cannot read the application's requirements: {getattr(error, 'strerror', error)}",
                    where=where,
                    remedy="write the file with `uv pip compile --generate-hashes`, or set requirements=None",
                ) from error
        of_files = digest(self._texts, lock, *self._command)
        return Distribution(
            self.kind, f"{self._version}-{of_files}", None, (), (), environment=Environment(lock, where or self.kind)
        )

    def parts(self, settings: Mapping[str, Any]) -> Mapping[str, Store]:
        """Return the stores that the setting `store` names (`a+b` for two), or else the default one, by kind.

        BadInput for a kind that the application does not support. Empty if it supports none.
        """
        named = str(settings.get("store") or next(iter(self._behind), ""))
        kinds = [name.strip() for name in named.split("+") if name.strip()]
        for name in kinds:
            if name not in self._behind:
                known = ", ".join(self._behind) or "none"
                raise BadInput(f"{self.kind} does not support the store {name!r}", remedy=f"its stores are {known}")
        return {name: self._behind[name] for name in kinds}

    def without_effect(self, settings: Mapping[str, Any]) -> list[str]:
        """Return the names of settings (`KIND.NAME`) of stores that the setting `store` does not select."""
        idle = self._behind.keys() - self.parts(settings).keys()
        return [name for name in settings if name.partition(".")[0] in idle]

    def check_settings(self, settings: Mapping[str, Any]) -> None:
        """Raise BadInput for invalid settings of application, balancer and stores (`KIND.NAME`).

        Unknown settings are invalid. Settings of stores that the setting `store` does not select are not checked.
        """
        parts = self.parts(settings)
        for name in settings:
            kind, _, rest = name.partition(".")
            if name not in _OWN and name not in self._settings and not (rest and kind in self._behind):
                known = [*_OWN, *self._settings, *(f"{kind}.NAME" for kind in self._behind)]
                what = f"{self.kind} has no setting {name!r}"
                raise BadInput(what, remedy=f"its settings are {nearest_first(name, known)}")
        if (balance := settings.get("balance", _OWN["balance"])) not in _BALANCES:
            raise BadInput(f"invalid setting balance: {balance}", remedy=f"use one of {', '.join(_BALANCES)}")
        threads = settings.get("balancer_threads", 1)
        if not isinstance(threads, int) or isinstance(threads, bool) or not 1 <= threads <= MOST_THREADS:
            what = f"the setting balancer_threads must be 1 to {MOST_THREADS}; got {threads!r}"
            raise BadInput(what, remedy="give a whole number, without quotes")
        for kind, part in parts.items():
            _nodes_of(kind, settings)
            part.check_settings(_of(kind, settings))

    def node_processes(self, number: int, settings: Mapping[str, Any]) -> tuple[ProcessSpec, ...]:
        """Return the only process of an instance, `app-1` for `number` 0. Clients do not connect to it.

        BadInput for the 65th instance.
        """
        if number >= balancer.MOST:
            raise BadInput(f"more than {balancer.MOST} instances", remedy="start fewer")
        return (ProcessSpec(balancer.instance_name(number + 1), serves=False),)

    def companions(self, settings: Mapping[str, Any]) -> tuple[ProcessSpec, ...]:
        """Return the nodes of the stores, then the load balancer, which is the only process that clients connect to."""
        behind = (
            ProcessSpec(name, kind, serves=False)
            for kind in self.parts(settings)
            for name in process_names(kind, _nodes_of(kind, settings))
        )
        return (*behind, ProcessSpec(BALANCER, BALANCER))

    def plan(self, node: NodeSpec, installation: Installation) -> NodePlan:
        """Return the plan of an instance (empty role), the load balancer (`balancer`), or a store's node (its kind).

        Instances and balancer wait until `form`, `reunite` or `join` writes a file into their folder. A store's plan is
        its own, with the administrator's password in a file if it authenticates. The balancer's raises BadInput
        without haproxy.
        """
        if node.role == BALANCER:
            program = balancer.program()
            return NodePlan(
                files={TOLD: ""},
                folders=(".",),
                argv=waiting(node.folder, (str(program), "-db", "-f", str(node.folder / TOLD))),
                environment={"PATH": _PATH},
                facts={"haproxy": balancer.version(program)},
            )
        if node.role:
            part = self._behind[node.role]
            names = process_names(node.role, _nodes_of(node.role, node.settings))
            wanted = part.electors(len(names))
            alone = replace(
                node,
                role="",
                electors=None if wanted is None else tuple(names[:wanted]),
                settings=_of(node.role, node.settings),
            )
            plan = part.plan(alone, installation.parts[node.role])
            known = {SECRET: node.password} if part.administrator else {}
            facts = {**plan.facts, node.role: installation.parts[node.role].version}
            return replace(plan, files={**plan.files, **known}, facts=facts)
        places = {"{python}": str(installation.home / "bin" / "python"), "{address}": node.address}
        places |= {"{port}": str(node.port), "{folder}": str(node.folder)}
        return NodePlan(
            files={TOLD: "", **{f"{_FILES}/{name}": text for name, text in self._texts.items()}},
            folders=(".", "data"),
            argv=waiting(
                node.folder, [_fill_places(word, places) for word in self._command], inside=_FILES, sourced=True
            ),
            environment={
                "PATH": _PATH,
                "LANG": "C.UTF-8",
                "PYTHONUNBUFFERED": "1",
                "INSTANCE": node.name,
                "ADDRESS": f"{node.address}:{node.port}",
                "DATA": str(node.folder / "data"),
            },
            facts={},
        )

    # Starting the tiers

    def form(self, members: Sequence[Member], settings: Mapping[str, Any], watch: Watch) -> None:
        """Form the stores, start the instances, wait for them, and start the balancer.

        `members` are all processes. Writes the tiers, with the stores' credentials, into the balancer's folder, for
        `join` and `reunite`. The instances' environment has SETTING_NAME for each setting, the logins, and a random
        SECRET. StoreFailed if the wait for a store or for the instances exceeds 180 s.
        """
        behind, addresses, logins = self.parts(settings), {}, dict[str, str]()
        for kind, part in behind.items():
            servers = _servers(members, kind)
            if part.administrator:
                folder = servers[0].folder
                assert folder
                user, password = _login(kind)
                logins |= {
                    user: part.administrator,
                    password: servers[0].call(nofollow.read_text, folder, SECRET) or "",
                }
            store = self._part(kind, servers[0].address, logins)
            store.form(servers, _of(kind, settings), watch)
            addresses[kind] = [server.address for server in servers]
            _until_ready(store, servers, watch)
        (front,) = (member for member in members if member.role == BALANCER)
        values = {name: settings.get(name, default) for name, default in self._settings.items()}
        environment = {f"SETTING_{name.upper()}": _value_text(value) for name, value in values.items()}
        environment |= {**logins, "SECRET": token_hex(32)}
        balance, threads = str(settings.get("balance", _OWN["balance"])), int(settings.get("balancer_threads", 1))
        tiers = Tiers(addresses, front.address, str(front.peer_address), environment, balance, threads)
        tiers.keep(front)
        self._connect(members, front, tiers, watch)

    def reunite(self, members: Sequence[Member], watch: Watch) -> None:
        """Reconnect restarted processes: give instances the stores' addresses, and the balancer the instances'.

        BadInput if the balancer's folder lacks the tiers. StoreFailed if the wait for a store or for the instances
        exceeds 180 s.
        """
        (front,) = (member for member in members if member.role == BALANCER)
        assert front.folder
        kept = Tiers.kept(front.folder)
        addresses = {}
        for kind in kept.stores:
            servers = _servers(members, kind)
            part = self._part(kind, servers[0].address, kept.environment)
            part.reunite(servers, watch)
            addresses[kind] = [server.address for server in servers]
            _until_ready(part, servers, watch)
        tiers = replace(kept, stores=addresses, balancer=front.address, commands=str(front.peer_address))
        tiers.keep(front)
        self._connect(members, front, tiers, watch)

    def _part(self, kind: str, address: str, environment: Mapping[str, str]) -> Store:
        """Return the store of that kind, logged in with its user and password in `environment`, if given.

        `address` is its first node. The store of an address is kept, so that its connections stay open; new credentials
        replace it.
        """
        user, password = _login(kind)
        if user not in environment:
            return self._behind[kind]
        auth = Auth("basic", environment[password], user=environment[user])
        known, store = self._logged_in.get(address, (None, None))
        if store is None or known != auth:
            # A later cluster at the same address has another password.
            store = self._behind[kind].with_access(Access(auth=auth))
            self._logged_in[address] = auth, store
        return store

    def _connect(self, members: Sequence[Member], front: Member, tiers: Tiers, watch: Watch) -> None:
        """Give the instances the environment of the tiers, wait until they answer, and enter them in the balancer.

        `front` is the balancer. If it does not run yet, it gets a complete configuration instead, with the algorithm
        and threads in `tiers`, and starts. Remembers the tiers for `statistics`. StoreFailed if the wait for the
        instances exceeds 180 s.
        """
        instances = [member for member in members if not member.role]
        for member in instances:
            tell(member, tiers.exports)
        self._until_answering(instances, watch)
        assert front.folder
        if config := front.call(nofollow.read_text, front.folder, TOLD):
            # The balancer is running with its configuration.
            for member in instances:
                balancer.enter(tiers.commands, member.name, member.address)
        else:
            config = balancer.configuration(
                front.address,
                tiers.commands,
                {member.name: member.address for member in instances},
                health=self._health,
                balance=tiers.balance,
                threads=tiers.threads,
            )
            tell(front, config)
        self._known[front.address] = tiers

    def _until_answering(self, instances: Sequence[Member], watch: Watch) -> None:
        """Wait until all instances answer the health request with 200; StoreFailed after 180 s."""
        until(
            lambda: all(self._answers(member.address) for member in instances),
            watch,
            f"waiting for an answer to GET {self._health}",
            instances,
            f"it must answer GET {self._health} with 200 when it is ready; see its log",
        )

    def _answers(self, address: str) -> bool:
        """Whether `address` (host:port) answers the health request with status 200; False also without an answer."""
        try:
            return self._web.request(address, "GET", self._health).status == 200
        except UnansweredError:
            return False

    # Adding and removing instances

    def join(self, addresses: Sequence[str], member: Member, watch: Watch) -> None:
        """Start an instance with the stores' addresses, and add it to the balancer once it answers.

        Returns when the balancer reports one more healthy instance. StoreFailed if either wait, for the answer or for
        the balancer, exceeds 180 s.
        """
        tiers = self._tiers(member)
        tell(member, tiers.exports)
        self._until_answering([member], watch)
        before = self.health(addresses).nodes
        balancer.enter(tiers.commands, member.name, member.address)
        until(
            lambda: self.health(addresses).nodes > before,
            watch,
            "waiting for the balancer to add it",
            [member],
            "see the balancer's log",
        )

    def balance(self, addresses: Sequence[str], watch: Watch) -> None:
        """Do nothing but report that nothing is left to move: instances hold no data."""
        watch(Balancing(0, "instances", "ok"))

    def leave(self, addresses: Sequence[str], member: Member, watch: Watch) -> None:
        """Stop new requests to the instance, and wait until the balancer has no session with it.

        `addresses` begin with the balancer's. StoreFailed after 180 s. The instance keeps running; `forget` or `stay`
        follows.
        """
        balancer.drain(self._tiers(member).commands, member.name)

        def idle() -> bool:
            """Whether the balancer has no session with the instance; True also if it does not list the instance."""
            row = balancer.figures(self._web, addresses).get(member.name, {})
            return int(row.get("scur") or 0) == 0

        until(idle, watch, "waiting for its last answers", [member], "see the balancer's statistics")

    def forget(self, addresses: Sequence[str], member: Member) -> None:
        """Disable the instance's entry in the balancer, which then no longer lists the instance."""
        balancer.drop(self._tiers(member).commands, member.name)

    def stay(self, addresses: Sequence[str], member: Member) -> None:
        """Resume requests to the instance, after an interrupted `leave`."""
        balancer.enter(self._tiers(member).commands, member.name, member.address)

    def _tiers(self, member: Member) -> Tiers:
        """Return the tiers in the balancer's folder, beside that of `member`; BadInput if missing or malformed."""
        assert member.folder
        return Tiers.kept(member.folder.parent / BALANCER)

    # Requests to the cluster

    def version(self, addresses: Sequence[str]) -> str:
        """Return `VERSION-DIGEST` of the local files, not of the cluster's; Unreachable if no address answers 200."""
        if not any(self._answers(address) for address in addresses):
            raise Unreachable(f"{self.kind} does not answer", where=", ".join(addresses), remedy="check that it runs")
        return self.distribution("").version

    def require_product(self, addresses: Sequence[str], version: str) -> None:
        """Raise BadInput, always: an application that Loadframe did not start has an unknown balancer and stores."""
        raise BadInput(
            f"{self.kind} must be started by Loadframe",
            where=", ".join(addresses),
            remedy="give --store http for a service that runs already",
        )

    def health(self, addresses: Sequence[str]) -> Health:
        """Return the health: ready if the balancer reaches all its instances, and there is one.

        Instances are counted as nodes if they are up, and as missing otherwise. Unreachable if the balancer does not
        answer.
        """
        rows = balancer.figures(self._web, addresses)
        names = [name for name in rows if name != "FRONTEND"]
        up = sum(rows[name]["status"].startswith("UP") for name in names)
        status = f"{up} of {counted(len(names), 'instance')} up"
        return Health(ready=0 < up == len(names), status=status, nodes=up, moving=0, missing=len(names) - up)

    def create_collection(self, addresses: Sequence[str], name: str, definition: Mapping[str, Any], nodes: int) -> None:
        """Do nothing: an application does not have collections."""

    def has_collection(self, addresses: Sequence[str], name: str) -> bool:
        """Return False: an application does not have collections."""
        return False

    def drop_collection(self, addresses: Sequence[str], name: str) -> None:
        """Do nothing: an application does not have collections."""

    def count(self, addresses: Sequence[str], name: str) -> int:
        """Raise LoadframeError: an application does not have collections."""
        raise LoadframeError(f"cannot count {name}: an application does not have collections")

    def statistics(self, addresses: Sequence[str]) -> dict[str, dict[str, float]]:
        """Return statistics by process: of each instance, of `balancer` (all requests), and of each node of a store.

        Statistics that HAProxy does not report are left out. Stores are included only if this process formed or
        reunited the cluster. Unreachable if the balancer does not answer.
        """
        rows = balancer.figures(self._web, addresses)
        named = {BALANCER if name == "FRONTEND" else name: row for name, row in rows.items()}
        by_process = {
            name: {figure: float(row[key]) for key, figure in _FIGURES.items() if row.get(key)}
            for name, row in named.items()
        }
        tiers = self._known.get(addresses[0])
        stores, environment = (tiers.stores, tiers.environment) if tiers else ({}, {})
        for kind, nodes in stores.items():
            figures = self._part(kind, nodes[0], environment).statistics(nodes)
            for name, address in zip(process_names(kind, len(nodes)), nodes, strict=True):
                # A store with one process may report another name for it.
                alone = next(iter(figures.values()), {}) if len(nodes) == 1 else {}
                by_process[name] = figures.get(name) or figures.get(address) or alone
        return by_process


def _servers(members: Sequence[Member], kind: str) -> list[Member]:
    """Return the processes whose role is `kind`, in order, with an empty role, as the store alone would have them."""
    return [replace(member, role="") for member in members if member.role == kind]


def _until_ready(part: Store, servers: Sequence[Member], watch: Watch) -> None:
    """Wait until each node of a store behind the instances sees all of them, and is ready; StoreFailed after 180 s."""

    def complete() -> bool:
        """Whether each server, asked alone, is ready and counts all of them as nodes."""
        healths = [part.health([server.address]) for server in servers]
        return all(health.ready and health.nodes == len(servers) for health in healths)

    names = ", ".join(server.name for server in servers)
    until(complete, watch, f"waiting for {names}", servers, "see the logs in the folders of these nodes")


def _login(kind: str) -> tuple[str, str]:
    """Return the names of the environment variables for a store's user and password, in this order."""
    return f"STORE_{kind.upper()}_USER", f"STORE_{kind.upper()}_PASSWORD"


_PATH = "/usr/local/bin:/usr/bin:/bin"
MOST_THREADS = 64


def _of(kind: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings `KIND.NAME` of a store by NAME, except its number of nodes, `KIND.nodes`."""
    return {
        name.removeprefix(f"{kind}."): value
        for name, value in settings.items()
        if name.startswith(f"{kind}.") and name != f"{kind}.{_NODES}"
    }


def _nodes_of(kind: str, settings: Mapping[str, Any]) -> int:
    """Return the number of nodes of a store, its setting `KIND.nodes`, by default 1; BadInput unless it is 1 to 64."""
    nodes = settings.get(f"{kind}.{_NODES}", 1)
    if not isinstance(nodes, int) or isinstance(nodes, bool) or not 1 <= nodes <= _MOST_NODES:
        what = f"the setting {kind}.{_NODES} must be 1 to {_MOST_NODES}; got {nodes!r}"
        raise BadInput(what, remedy="give a whole number, without quotes")
    return nodes


def _fill_places(word: str, places: Mapping[str, str]) -> str:
    """Return a word of a command with each key of `places`, such as `{port}`, replaced by its value."""
    for place, value in places.items():
        word = word.replace(place, value)
    return word


def _value_text(value: object) -> str:
    """Return a setting as text for the environment: `true` or `false` for a bool, empty for None, else `str(value)`."""
    return str(value).lower() if isinstance(value, bool) else "" if value is None else str(value)
