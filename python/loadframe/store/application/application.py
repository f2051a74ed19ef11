"""The kind of store that an application is: a user's file makes one, and `--store PATH` starts it."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from secrets import token_hex
from typing import Any, Self

import loadframe.store as stores
from loadframe.base import nofollow
from loadframe.base.errors import BadInput, LoadframeError
from loadframe.store.access import OPEN, Access, Auth
from loadframe.store.application import balancer
from loadframe.store.application.tiers import TOLD, Tiers, tell, until, waiting
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
)
from loadframe.store.distribution import Distribution, Environment
from loadframe.store.web import UnansweredError, Web

#: Bytes of all files together; more are taken for data, and not for a program.
_MOST = 16 * 2**20


def read(folder: Path, patterns: Sequence[str], without: Sequence[str]) -> Mapping[str, str]:
    """Return the text files below a folder that match one of the patterns, by their paths in it; BadInput for others.

    What is hidden, and what Python compiles, is left out, and so is what one of `without` matches.
    """
    texts: dict[str, str] = {}
    paths = sorted({path for pattern in patterns for path in folder.glob(pattern) if path.is_file()})
    for path in paths:
        name = path.relative_to(folder)
        hidden = any(part.startswith(".") or part == "__pycache__" for part in name.parts)
        if hidden or any(name.match(pattern) for pattern in without):
            continue
        try:
            texts[str(name)] = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise BadInput(
                f"this file of the application cannot be read as text: {error}",
                where=str(path),
                remedy="leave it out of `files`, or make it readable",
            ) from error
    size = sum(map(len, texts.values()))
    if not texts or size > _MOST:
        what = f"has {size:,} bytes in the files that its instances run" if texts else "has no file that it could run"
        raise BadInput(f"the application {what}", where=str(folder), remedy=f"change `files`: {', '.join(patterns)}")
    return texts


def digest(texts: Mapping[str, str], *further: str) -> str:
    """Return 8 letters that are others for other files."""
    whole = hashlib.sha256(repr((sorted(texts.items()), further)).encode())
    return whole.hexdigest()[:8]


#: Seconds.
_TIMEOUT = 10.0
#: The name and the role of the load balancer. A store's are its kind; an instance has the role that is none.
BALANCER = "balancer"
#: Settings that every application has, with what they are if they are left out.
_OWN: Mapping[str, Any] = {"store": "", "balance": "roundrobin", "balancer_threads": 1}
_BALANCES = ("roundrobin", "leastconn", "random", "first")
#: Of a store: the password of its administrator.
SECRET = "config/administrator"
#: Of an instance: the folder with its files, below its own.
_FILES = "files"
#: HAProxy's figures that are kept of an instance, and of all of it as `balancer`.
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
    """Instances (the nodes) behind a load balancer, and a process of each store that is behind them.

    `command` starts an instance; in it `{python}` is that of its virtual environment, `{address}` and `{port}` are
    where it is to listen. It answers `GET health` with a status of success when it is ready. In its environment it
    finds `STORES` (kinds, separated by blanks), `STORE_KIND` (host:port) for each, and where that authenticates its
    clients `STORE_KIND_USER` and `STORE_KIND_PASSWORD`, `INSTANCE` (its name), `ADDRESS`
    (its host:port), `DATA` (a folder of its own), `SECRET` (the same for all instances), and each of the `settings` as
    `SETTING_NAME`.
    """

    family = "http"
    driver = "http"
    only_here = True
    #: Some of the stores do, and all processes of a cluster run as one user.
    refuses_root = True
    needs_account = True
    #: What its stores hold is not known, so that no cluster is emptied to be grown: each state gets a new one.
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
        """Describe it.

        `behind` are the kinds of store that it can have behind it, the usual one first; `requirements` and `files` are
        names and patterns in its folder; `settings` are its own, with what they are if nobody sets them.
        """
        self.kind = kind
        self._folder = folder
        self._command = tuple(command)
        self._behind = {name: stores.find(name) for name in behind}
        self._version = version
        self._requirements = requirements
        self._files = tuple(files)
        self._health = health
        self._settings = dict(settings or {})
        self.own_address = any(store.own_address for store in self._behind.values())
        self.extra_ports = max((store.extra_ports for store in self._behind.values()), default=0)
        self._web = Web(OPEN, timeout=_TIMEOUT)
        #: Of clusters whose start was seen: by the balancer's address.
        self._known: dict[str, Tiers] = {}
        #: Stores behind them, by their addresses, and how each is logged in to.
        self._logged_in: dict[str, tuple[Auth, Store]] = {}

    def with_access(self, access: Access) -> Self:
        """Return it: what is started here is asked in the clear."""
        if access != OPEN:
            raise BadInput(
                f"{self.kind} is started and asked without TLS and credentials",
                remedy="reach one that runs elsewhere as --store http, with --hosts",
            )
        return self

    # What it is made of

    @property
    def _texts(self) -> Mapping[str, str]:
        return read(self._folder, self._files, ("test_*",))

    def distribution(self, version: str) -> Distribution:
        """Return its virtual environment; its version is the one that it says, with a digest of its files."""
        lock, where = "", ""
        if self._requirements:
            path = self._folder / self._requirements
            where = str(path)
            try:
                lock = path.read_text()
            except OSError as error:
                raise BadInput(
                    f"what the application needs is not known: {error.strerror}",
                    where=where,
                    remedy="write it with `uv pip compile --generate-hashes`, or say requirements=None",
                ) from error
        of_files = digest(self._texts, lock, *self._command)
        return Distribution(
            self.kind, f"{self._version}-{of_files}", None, (), (), environment=Environment(lock, where or self.kind)
        )

    def parts(self, settings: Mapping[str, Any]) -> Mapping[str, Store]:
        """Return the stores that the setting `store` names, `mongodb` or `mongodb+opensearch`."""
        named = str(settings.get("store") or next(iter(self._behind), ""))
        kinds = [name.strip() for name in named.split("+") if name.strip()]
        for name in kinds:
            if name not in self._behind:
                known = ", ".join(self._behind) or "none"
                raise BadInput(f"{self.kind} does not run on {name!r}", remedy=f"its stores are {known}")
        return {name: self._behind[name] for name in kinds}

    def check_settings(self, settings: Mapping[str, Any]) -> None:
        """Settings are loadframe's, the application's, and as `KIND.NAME` those of a store that may be behind it."""
        parts = self.parts(settings)
        balancer.program()
        for name in settings:
            kind, _, rest = name.partition(".")
            if name not in _OWN and name not in self._settings and not (rest and kind in self._behind):
                known = [*_OWN, *self._settings, *(f"{kind}.NAME" for kind in self._behind)]
                raise BadInput(f"{self.kind} has no setting {name!r}", remedy=f"its settings are {', '.join(known)}")
        if (balance := settings.get("balance", _OWN["balance"])) not in _BALANCES:
            raise BadInput(
                f"the setting balance is not valid: {balance}", remedy=f"it is one of {', '.join(_BALANCES)}"
            )
        threads = settings.get("balancer_threads", 1)
        if not isinstance(threads, int) or isinstance(threads, bool) or not 1 <= threads <= MOST_THREADS:
            raise BadInput(f"the setting balancer_threads wants 1 to {MOST_THREADS}", where=str(threads))
        for kind, part in parts.items():
            part.check_settings(_of(kind, settings))

    def node_processes(self, number: int, settings: Mapping[str, Any]) -> tuple[ProcessSpec, ...]:
        """A node is an instance, from app-1 on."""
        if number >= balancer.MOST:
            raise BadInput(f"more than {balancer.MOST} instances", remedy="start fewer")
        return (ProcessSpec(balancer.instance_name(number + 1), serves=False),)

    def companions(self, settings: Mapping[str, Any]) -> tuple[ProcessSpec, ...]:
        """The load balancer, which alone is asked, and the stores."""
        behind = (ProcessSpec(kind, kind, serves=False) for kind in self.parts(settings))
        return (*behind, ProcessSpec(BALANCER, BALANCER))

    def plan(self, node: NodeSpec, installation: Installation) -> NodePlan:
        """Return what makes an instance, the load balancer, or a store."""
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
            alone = replace(
                node,
                role="",
                peers=(f"{node.address}:{node.peer_port}",),
                founders=(node.name,) if node.founders else (),
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
            argv=waiting(node.folder, [_put(word, places) for word in self._command], inside=_FILES, sourced=True),
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

    # How its tiers come together

    def form(self, members: Sequence[Member], settings: Mapping[str, Any], watch: Watch) -> None:
        """Wait for the stores, tell the instances where they are, wait for these, and tell the balancer."""
        behind, addresses, logins = self.parts(settings), {}, dict[str, str]()
        for kind, part in behind.items():
            (server,) = (member for member in members if member.role == kind)
            if part.administrator:
                assert server.folder
                user, password = _login(kind)
                logins |= {
                    user: part.administrator,
                    password: server.call(nofollow.read_text, server.folder, SECRET) or "",
                }
            store = self._part(kind, server.address, logins)
            store.form([replace(server, role="")], _of(kind, settings), watch)
            addresses[kind] = server.address
            _until_ready(store, server, watch)
        (front,) = (member for member in members if member.role == BALANCER)
        chosen = {name: settings.get(name, usual) for name, usual in self._settings.items()}
        environment = {f"SETTING_{name.upper()}": _written(value) for name, value in chosen.items()}
        environment |= {**logins, "SECRET": token_hex(32)}
        tiers = Tiers(addresses, front.address, str(front.peer_address), environment)
        tiers.keep(front)
        self._connect(members, front, tiers, settings, watch)

    def reunite(self, members: Sequence[Member], watch: Watch) -> None:
        """Tell those that were started again; what runs stays, and hears of new addresses."""
        (front,) = (member for member in members if member.role == BALANCER)
        assert front.folder
        kept = Tiers.kept(front.folder)
        addresses = {}
        for kind in kept.stores:
            (server,) = (member for member in members if member.role == kind)
            part = self._part(kind, server.address, kept.environment)
            part.reunite([replace(server, role="")], watch)
            addresses[kind] = server.address
            _until_ready(part, server, watch)
        tiers = replace(kept, stores=addresses, balancer=front.address, commands=str(front.peer_address))
        tiers.keep(front)
        self._connect(members, front, tiers, {}, watch)

    def _part(self, kind: str, address: str, environment: Mapping[str, str]) -> Store:
        """Return a store behind the instances, logged in as they are; it keeps its connections."""
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

    def _connect(
        self, members: Sequence[Member], front: Member, tiers: Tiers, settings: Mapping[str, Any], watch: Watch
    ) -> None:
        instances = [member for member in members if not member.role]
        for member in instances:
            tell(member, tiers.exports)
        self._until_answering(instances, watch)
        assert front.folder
        if told := front.call(nofollow.read_text, front.folder, TOLD):
            # It runs, and has its configuration.
            for member in instances:
                balancer.enter(tiers.commands, member.name, member.address)
        else:
            told = balancer.configuration(
                front.address,
                tiers.commands,
                {member.name: member.address for member in instances},
                health=self._health,
                balance=str(settings.get("balance", _OWN["balance"])),
                threads=int(settings.get("balancer_threads", 1)),
            )
            tell(front, told)
        self._known[front.address] = tiers

    def _until_answering(self, instances: Sequence[Member], watch: Watch) -> None:
        until(
            lambda: all(self._answers(member.address) for member in instances),
            watch,
            f"waiting for an answer to GET {self._health}",
            instances,
            f"it has to answer GET {self._health} with 200 when it is ready; see its log",
        )

    def _answers(self, address: str) -> bool:
        try:
            return self._web.request(address, "GET", self._health).status == 200
        except UnansweredError:
            return False

    # How instances come and go

    def join(self, addresses: Sequence[str], member: Member, watch: Watch) -> None:
        """Tell an instance where the stores are, and the balancer where it is."""
        tiers = self._tiers(member)
        tell(member, tiers.exports)
        self._until_answering([member], watch)
        before = self.health(addresses).nodes
        balancer.enter(tiers.commands, member.name, member.address)
        until(
            lambda: self.health(addresses).nodes > before,
            watch,
            "waiting for the balancer to take it in",
            [member],
            "see the balancer's log",
        )

    def balance(self, addresses: Sequence[str], watch: Watch) -> None:
        """Nothing moves: an instance holds no data."""
        watch(Balancing(0, "instances", "ok"))

    def leave(self, addresses: Sequence[str], member: Member, watch: Watch) -> None:
        """Have the balancer send it nothing more, and wait until it has answered everything."""
        balancer.drain(self._tiers(member).commands, member.name)

        def idle() -> bool:
            row = balancer.figures(self._web, addresses).get(member.name, {})
            return int(row.get("scur") or 0) == 0

        until(idle, watch, "waiting for its last answers", [member], "see the balancer's figures")

    def forget(self, addresses: Sequence[str], member: Member) -> None:
        """Take it off the balancer's list."""
        balancer.drop(self._tiers(member).commands, member.name)

    def stay(self, addresses: Sequence[str], member: Member) -> None:
        """Have the balancer send it requests again."""
        balancer.enter(self._tiers(member).commands, member.name, member.address)

    def _tiers(self, member: Member) -> Tiers:
        assert member.folder
        return Tiers.kept(member.folder.parent / BALANCER)

    # What is asked of it

    def version(self, addresses: Sequence[str]) -> str:
        """Return the version of the files that are here; Unreachable where nothing answers."""
        if not any(self._answers(address) for address in addresses):
            raise Unreachable(f"{self.kind} does not answer", where=", ".join(addresses), remedy="check that it runs")
        return self.distribution("").version

    def require_product(self, addresses: Sequence[str], version: str) -> None:
        """Refuse one that was started elsewhere: what stands before it and behind it is not known."""
        raise BadInput(
            f"{self.kind} is started by loadframe, and not reached where it runs already",
            where=", ".join(addresses),
            remedy="give --store http for a service that runs already",
        )

    def health(self, addresses: Sequence[str]) -> Health:
        """Ready is that the balancer reaches every instance that it knows."""
        rows = balancer.figures(self._web, addresses)
        names = [name for name in rows if name != "FRONTEND"]
        up = sum(rows[name]["status"].startswith("UP") for name in names)
        status = f"{up} of {len(names)} instances up"
        return Health(ready=0 < up == len(names), status=status, nodes=up, moving=0, missing=len(names) - up)

    def create_collection(self, addresses: Sequence[str], name: str, definition: Mapping[str, Any], nodes: int) -> None:
        """Do nothing: what it keeps is its own business."""

    def has_collection(self, addresses: Sequence[str], name: str) -> bool:
        """There are none."""
        return False

    def drop_collection(self, addresses: Sequence[str], name: str) -> None:
        """There are none."""

    def count(self, addresses: Sequence[str], name: str) -> int:
        """Refuse: it cannot be told."""
        raise LoadframeError(f"an application has no collection {name} to count")

    def statistics(self, addresses: Sequence[str]) -> dict[str, dict[str, float]]:
        """Return what the balancer knows of each instance and of all, and what the stores tell of themselves."""
        rows = balancer.figures(self._web, addresses)
        named = {BALANCER if name == "FRONTEND" else name: row for name, row in rows.items()}
        told = {
            name: {figure: float(row[key]) for key, figure in _FIGURES.items() if row.get(key)}
            for name, row in named.items()
        }
        tiers = self._known.get(addresses[0])
        stores, environment = (tiers.stores, tiers.environment) if tiers else ({}, {})
        for kind, address in stores.items():
            figures = self._part(kind, address, environment).statistics([address])
            # One process, whatever the store calls it.
            told[kind] = next(iter(figures.values()), {})
        return told


def _until_ready(part: Store, server: Member, watch: Watch) -> None:
    until(
        lambda: part.health([server.address]).ready,
        watch,
        f"waiting for {server.name}",
        [server],
        "see its log in the folder of its node",
    )


def _login(kind: str) -> tuple[str, str]:
    """Return the variables with the user and the password of a store, as instances find them."""
    return f"STORE_{kind.upper()}_USER", f"STORE_{kind.upper()}_PASSWORD"


_PATH = "/usr/local/bin:/usr/bin:/bin"
MOST_THREADS = 64


def _of(kind: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that are a store's."""
    return {name.removeprefix(f"{kind}."): value for name, value in settings.items() if name.startswith(f"{kind}.")}


def _put(word: str, places: Mapping[str, str]) -> str:
    for place, value in places.items():
        word = word.replace(place, value)
    return word


def _written(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else "" if value is None else str(value)
