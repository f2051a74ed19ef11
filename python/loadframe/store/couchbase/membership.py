"""Couchbase clusters over HTTP: initial setup, adding and removing nodes, and rebalances.

An added node serves nothing before a rebalance, which also moves the data of a node that leaves.

Functions that send requests raise the errors of `Administration.ask`. `watch` gets the progress of waits, and may end
them by an error.
"""

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent import futures
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any, Self

from loadframe.base.errors import BadInput, LoadframeError, StoreFailed
from loadframe.base.units import format_nodes
from loadframe.store.access import Access, first_answer, split_address
from loadframe.store.base import Balancing, Health, Member, Unreachable, Watch
from loadframe.store.couchbase.launch import apply
from loadframe.store.web import Answer, UnansweredError, UnsentError, Web

#: Timeout, s. Adding a node takes ten seconds, or much longer on busy machines.
_TIMEOUT = 120.0
_UNAUTHORIZED = 401


class Administration:
    """Client for the administration of clusters, with the credentials of one user."""

    def __init__(self, access: Access) -> None:
        """Create the HTTP client, which keeps connections open for statistics every second."""
        self.scheme = access.scheme
        self._silence_hint = access.silence_hint
        self._auth = access.auth
        self.user = access.auth.user or "" if access.auth else ""
        self.password = access.auth.secret if access.auth else ""
        self._web = Web(access, timeout=_TIMEOUT)

    def ask(
        self,
        addresses: Sequence[str],
        method: str,
        path: str,
        form: Mapping[str, Any] | None = None,
        *,
        known: bool = True,
    ) -> Answer:
        """Send a request, with `form` as its body, to the first address that answers, and return the answer.

        Status 404 is returned; other statuses from 400 up raise LoadframeError (StoreFailed from 500), and denied
        access BadInput. Unreachable without an answer, StoreFailed if a change was sent but not answered. `known` is
        whether to send credentials, which a new node does not accept.
        """
        headers = None if known else dict[str, str]()

        def ask(address: str) -> Answer:
            return self._web.request(address, method, path, form=form, headers=headers)

        try:
            answer = first_answer(addresses, ask, UnansweredError, UnsentError, repeatable=method == "GET")
        except UnansweredError as error:
            if method != "GET" and not isinstance(error, UnsentError):
                raise StoreFailed(
                    f"{method} {path} was not answered ({error}); it may have been carried out",
                    where=error.address,
                ) from error
            raise Unreachable(
                f"the cluster does not answer ({error})",
                where=", ".join(addresses),
                remedy="check that it runs, and that the addresses name its administration port, such as host:8091"
                f"{self._silence_hint}",
            ) from error
        if answer.status in (_UNAUTHORIZED, 403):
            raise BadInput(
                f"the cluster denies access: {answer.status}",
                where=answer.address,
                remedy=self._auth.check
                if self._auth and answer.status == _UNAUTHORIZED and known
                else "give --user with an account that may administer buckets",
            )
        if answer.status >= 400 and answer.status != 404:
            raise (StoreFailed if answer.status >= 500 else LoadframeError)(
                f"{method} {path} failed with status {answer.status}: {answer.text[:300]}", where=answer.address
            )
        return answer

    def read(self, addresses: Sequence[str], path: str, *, known: bool = True) -> dict[str, Any]:
        """Return the JSON object at a path; LoadframeError if it is missing or is not one.

        `known` is whether to send credentials. BadInput for denied access, Unreachable without an answer.
        """
        content: dict[str, Any] = document(self.ask(addresses, "GET", path, known=known), dict)
        return content

    def rows(self, addresses: Sequence[str], path: str) -> list[dict[str, Any]]:
        """Return the list at a path; its entries should be JSON objects, which is not checked.

        LoadframeError if it is missing or not a list, BadInput for denied access, Unreachable without an answer.
        """
        entries: list[dict[str, Any]] = document(self.ask(addresses, "GET", path), list)
        return entries


def document(answer: Answer, kind: type) -> Any:
    """Return an answer's JSON; LoadframeError for status 404, for other content, and unless it is of type `kind`.

    Other statuses are not checked.
    """
    try:
        content = answer.json()
    except ValueError:
        content = None
    if answer.status == 404 or not isinstance(content, kind):
        raise LoadframeError(
            f"not a Couchbase cluster: unexpected answer to {answer.path}",
            where=answer.address,
            remedy="give the address of its administration, such as host:8091",
        )
    return content


#: Services of each node: indexes, documents and statements.
SERVICES = "index,kv,n1ql"
_POLL = 0.2
#: Time after which a requested rebalance that is not seen running must have ended, s.
_BEGUN_WITHIN = 5.0
#: Time limits for stopping a rebalance, and until all nodes know of its end, s.
_STOPPED_WITHIN = 30.0
_KNOWN_WITHIN = 10.0
#: Membership states of nodes.
_ACTIVE = "active"
_ADDED = "inactiveAdded"
_FAILED_OVER = "inactiveFailed"


@dataclass(frozen=True)
class PoolNode:
    """A node, as the cluster reports it."""

    id: str  #: name of the node in rebalance requests
    address: str
    membership: str
    status: str  #: `healthy`, `warmup` or `unhealthy`
    data: bool  #: whether it stores, or will store, documents


@dataclass(frozen=True)
class Pool:
    """All nodes, as one node reports them."""

    nodes: tuple[PoolNode, ...]
    rebalancing: bool
    balanced: bool  #: whether a rebalance would change nothing

    @classmethod
    def read(cls, rest: Administration, addresses: Sequence[str]) -> Self:
        """Return all nodes as the first address that answers reports them."""
        pool = rest.read(addresses, "/pools/default")
        nodes = tuple(
            PoolNode(
                str(node.get("otpNode", "")),
                str(node["hostname"]),
                str(node.get("clusterMembership", "")),
                str(node["status"]),
                "kv" in node.get("services", ["kv"]),
            )
            for node in pool.get("nodes", [])
        )
        rebalancing = pool.get("rebalanceStatus", "none") not in ("none", "notRunning")
        return cls(nodes, rebalancing, bool(pool.get("balanced", True)))

    def at(self, address: str) -> PoolNode | None:
        """Return the node with that address (host:port of its administration); None if it is unknown."""
        return next((node for node in self.nodes if node.address == address), None)

    def of(self, membership: str) -> list[PoolNode]:
        """Return the nodes in a membership state, such as `active`."""
        return [node for node in self.nodes if node.membership == membership]

    def health(self) -> Health:
        """Return the health: ready if there are active nodes, all of them are healthy, and none is failed over.

        Added nodes count as nodes. Unhealthy and failed-over nodes are missing. A rebalance that runs, or that added
        nodes need, is one moving piece.
        """
        active, failed = self.of(_ACTIVE), self.of(_FAILED_OVER)
        unhealthy = [node.status for node in active if node.status != "healthy"]
        states = sorted({*unhealthy, *(["failed over"] if failed else [])})
        added = len(self.of(_ADDED))
        return Health(
            ready=bool(active) and not states,
            status=", ".join(states) or "healthy",
            nodes=len(active) + added,
            moving=int(self.rebalancing or added > 0),
            missing=len(unhealthy) + len(failed),
        )


def form(rest: Administration, members: Sequence[Member], settings: Mapping[str, Any], watch: Watch) -> None:
    """Wait for all nodes, set up the first with settings, services and administrator, add the others, and rebalance."""
    wait(rest, members, watch)
    first = [members[0].address]
    host, _ = split_address(first[0])

    def post(path: str, **values: Any) -> None:
        """Post a form to the first node without credentials."""
        rest.ask(first, "POST", path, values, known=False)

    enterprise = bool(rest.read(first, "/pools", known=False).get("isEnterprise"))
    if not ip_address(host).is_loopback:
        # On loopback a node sets its address when it meets another node.
        post("/node/controller/rename", hostname=host)
    apply(post, members[0], settings)
    post("/node/controller/setupServices", services=SERVICES)
    post("/settings/indexes", storageMode="plasma" if enterprise else "forestdb")
    post("/settings/web", username=rest.user, password=rest.password, port="SAME")
    for member in members[1:]:
        _add(rest, first, member, watch)
    if members[1:]:
        _rebalance(rest, first, watch)


def wait(rest: Administration, members: Sequence[Member], watch: Watch) -> None:
    """Wait until each node has answered once; `watch` is called between attempts and ends the wait by an error."""
    waiting = list(members)
    while waiting:
        with contextlib.suppress(Unreachable):
            rest.ask([waiting[0].address], "GET", "/pools", known=False)
            del waiting[0]
            continue
        watch(Balancing(len(waiting), "nodes", "starting"))
        time.sleep(_POLL)


def join(rest: Administration, addresses: Sequence[str], member: Member, watch: Watch) -> None:
    """Wait for a started node, and add it unless the cluster already knows it. It holds no data before a rebalance."""
    wait(rest, [member], watch)
    if Pool.read(rest, addresses).at(member.address) is None:
        _add(rest, addresses, member, watch)
    watch(Balancing(100, "percent", "added"))


def _add(rest: Administration, addresses: Sequence[str], member: Member, watch: Watch) -> None:
    """Add a node, and wait until it has restarted as a member; do not rebalance, so it holds no data yet.

    `watch` is called during the wait and ends it by an error, but the request continues. LoadframeError if the cluster
    refuses the node.
    """
    host, _ = split_address(member.address)
    ports = rest.read([member.address], "/nodes/self", known=False).get("ports", {})
    # Clusters add nodes with certificates only over TLS.
    url = f"https://{host}:{ports['httpsMgmt']}" if ports.get("httpsMgmt") else f"http://{member.address}"
    # Credentials are mandatory, although the new node does not have an administrator yet.
    node = {"hostname": url, "user": rest.user, "password": rest.password, "services": SERVICES}
    executor = ThreadPoolExecutor(1)
    try:
        # The answer arrives when the node has restarted as a member.
        adding = executor.submit(rest.ask, addresses, "POST", "/controller/addNode", node)
        while not adding.done():
            watch(Balancing(100, "percent", "adding the node"))
            futures.wait([adding], _POLL)
        adding.result()
    finally:
        executor.shutdown(wait=False)


def balance(rest: Administration, addresses: Sequence[str], watch: Watch) -> None:
    """Wait for a running rebalance, then rebalance if that would change anything, and wait until it has ended.

    StoreFailed if a rebalance fails.
    """
    pool = Pool.read(rest, addresses)
    if pool.rebalancing:
        _follow(rest, addresses, watch, began=True)
        pool = Pool.read(rest, addresses)
    if pool.of(_ADDED) or not pool.balanced:
        _rebalance(rest, addresses, watch)
    watch(Balancing(0, "percent", "balanced"))


def leave(rest: Administration, addresses: Sequence[str], member: Member, watch: Watch) -> None:
    """Move a node's data to the others, and remove it; do nothing for an unknown node.

    BadInput if the others could not hold all copies, StoreFailed if the rebalance fails.
    """
    pool = Pool.read(rest, addresses)
    node = pool.at(member.address)
    if node is None:
        return
    others = sum(other.data and other is not node for other in pool.of(_ACTIVE))
    if not others:
        raise BadInput(f"{member.name} is the last node that holds data", remedy="keep it, or stop the cluster")
    for bucket in rest.rows(addresses, "/pools/default/buckets"):
        copies = 1 + int(bucket.get("replicaNumber", 0))
        if copies > others:
            left = format_nodes(others)
            raise BadInput(
                f"the bucket {bucket['name']} has {copies} copies of its documents, and {left} would remain",
                where=member.name,
                remedy="keep the node, or lower the bucket's replicas first",
            )
    if pool.rebalancing:
        _follow(rest, addresses, watch, began=True)
    _rebalance(rest, addresses, watch, leaving=[node])


def stay(rest: Administration, addresses: Sequence[str]) -> None:
    """Stop a running rebalance; data that has moved stays in its new place. StoreFailed if that takes over 30 s."""
    rest.ask(addresses, "POST", "/controller/stopRebalance")
    end = time.monotonic() + _STOPPED_WITHIN
    while Pool.read(rest, addresses).rebalancing:
        if time.monotonic() > end:
            raise StoreFailed(f"the rebalance was not stopped within {_STOPPED_WITHIN:.0f} s", where=addresses[0])
        time.sleep(_POLL)


def forget(rest: Administration, addresses: Sequence[str], member: Member) -> None:
    """Remove a node that was only added or was failed over; LoadframeError for others. Do nothing if it is unknown."""
    node = Pool.read(rest, addresses).at(member.address)
    if node is None:
        return
    rest.ask(addresses, "POST", "/controller/ejectNode", {"otpNode": node.id})


def reunite(rest: Administration, members: Sequence[Member], watch: Watch) -> None:
    """Wait for restarted nodes, take back nodes that were failed over, and rebalance if there were any."""
    wait(rest, members, watch)
    addresses = [member.address for member in members]
    # A node that was failed over while it was down may not know that yet.
    failed = {node.address: node for address in addresses for node in Pool.read(rest, [address]).of(_FAILED_OVER)}
    failed = {address: node for address, node in failed.items() if address in addresses}
    if not failed:
        return
    others = [address for address in addresses if address not in failed]
    for node in failed.values():
        rest.ask(others, "POST", "/controller/setRecoveryType", {"otpNode": node.id, "recoveryType": "full"})
    _rebalance(rest, others, watch)


def _rebalance(rest: Administration, addresses: Sequence[str], watch: Watch, leaving: Sequence[PoolNode] = ()) -> None:
    """Start a rebalance over all known nodes, without the `leaving` ones, and wait until it has ended.

    StoreFailed if it fails, or if 10 s later nodes that stay are not active or leaving nodes are still known.
    """
    nodes = Pool.read(rest, addresses).nodes
    before = _task(rest, addresses).get("lastReportURI")
    form = {
        "knownNodes": ",".join(node.id for node in nodes),
        "ejectedNodes": ",".join(node.id for node in leaving),
    }
    rest.ask(addresses, "POST", "/controller/rebalance", form)
    gone = {node.id for node in leaving}

    def done() -> bool:
        """Whether no rebalance runs, and all known nodes are active and none of them is leaving."""
        pool = Pool.read(rest, addresses)
        return not pool.rebalancing and all(node.membership == _ACTIVE and node.id not in gone for node in pool.nodes)

    _follow(rest, addresses, watch, before=before, done=done)


def _follow(
    rest: Administration,
    addresses: Sequence[str],
    watch: Watch,
    *,
    began: bool = False,
    before: str | None = None,
    done: Callable[[], bool] = lambda: True,
) -> None:
    """Wait until a rebalance has ended and `done` returns True, and report to `watch`; StoreFailed if it fails.

    `began` is whether it is known to run. Otherwise it has begun once it is seen running, its `lastReportURI` differs
    from `before` (that of the previous one, or None), or 5 s have passed. StoreFailed also if it has ended for 10 s and
    `done` is still False.
    """
    started, ended = time.monotonic(), None
    while True:
        task = _task(rest, addresses)
        if task.get("status") == "running":
            began, ended = True, None
            watch(_progress(task))
            time.sleep(_POLL)
            continue
        began = began or task.get("lastReportURI") != before or time.monotonic() - started > _BEGUN_WITHIN
        if began and not task.get("statusIsStale"):
            if failure := task.get("errorMessage"):
                raise StoreFailed(
                    f"the rebalance failed: {failure}",
                    where=addresses[0],
                    remedy="see the logs of the nodes; `loadframe cluster up` retries",
                )
            if done():
                return
            ended = ended or time.monotonic()
            if time.monotonic() - ended > _KNOWN_WITHIN:
                raise StoreFailed(
                    "the rebalance has ended, but some nodes are not in the expected state",
                    where=addresses[0],
                    remedy="see `loadframe cluster status`, and the logs of the nodes",
                )
        watch(Balancing(100, "percent", "beginning") if not began else Balancing(0, "percent", "ending"))
        time.sleep(_POLL)


def _task(rest: Administration, addresses: Sequence[str]) -> dict[str, Any]:
    """Return the cluster's task of the rebalance, running or last; empty if there was none."""
    tasks = rest.rows(addresses, "/pools/default/tasks")
    return next((task for task in tasks if task.get("type") == "rebalance"), {})


def _progress(task: Mapping[str, Any]) -> Balancing:
    """Return the percent left of a rebalance, from its task; `state` lists the percent done by node, or is `running`.

    Missing progress counts as 0 %.
    """
    nodes = task.get("perNode", {}).items()
    shares = ", ".join(f"{name} {float(node.get('progress', 0)):.0f} %" for name, node in nodes)
    return Balancing(100 - float(task.get("progress", 0)), "percent", f"done: {shares}" if shares else "running")
