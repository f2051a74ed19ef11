"""Simulated administration API of Couchbase, as documented: nodes with a state, in one cluster.

It stores no documents: a node holds a number of vbuckets. Each status request advances a rebalance.
"""

import base64
import json
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

VBUCKETS = 1024
#: How far the port by TLS is from the one in the clear.
SECURE = 10000
STEPS = 3

Answer = tuple[int, Any]


@dataclass
class Node:
    """A node, which becomes a member when it is set up or added."""

    address: str
    up: bool = True
    membership: str = ""
    vbuckets: int = 0
    told: dict[str, dict[str, str]] = field(default_factory=dict)  #: forms of requests to set it up, by path

    @property
    def id(self) -> str:
        host, _, port = self.address.rpartition(":")
        return f"n_{port}@{host}"

    def described(self) -> dict[str, Any]:
        return {
            "hostname": self.address,
            "otpNode": self.id,
            "clusterMembership": self.membership,
            "status": "healthy" if self.up else "unhealthy",
            "services": ["index", "kv", "n1ql"],
        }


class CouchbaseService:
    """Context manager that serves nodes and their cluster. `relay` answers for nodes by the address in the path."""

    def __init__(self, *, enterprise: bool = True) -> None:
        self.enterprise = enterprise
        self.nodes: dict[str, Node] = {}
        self.buckets: list[dict[str, Any]] = []
        self.administrator = ("", "")
        self.asked: list[tuple[str, str, dict[str, str]]] = []
        #: Error of the next rebalance, raised at half of its progress; empty for success.
        self.failure = ""
        #: Number of status requests that still return the old status after a rebalance has begun.
        self.late = 0
        self._lag = 0
        self._running: tuple[list[Node], list[Node], int] | None = None
        self._error = ""
        self._report = 0
        self._before: dict[str, Any] = {}
        self._servers: dict[str, ThreadingHTTPServer] = {}
        self._lock = threading.Lock()
        self.relay = self._listen(relay=True)

    def node(self) -> str:
        """Start a node, and return its address."""
        address = self._listen()
        self.nodes[address] = Node(address)
        return address

    def kill(self, address: str) -> None:
        """End a node."""
        self.nodes[address].up = False
        server = self._servers.pop(address)
        server.shutdown()
        server.server_close()

    def start_again(self, address: str) -> None:
        """Start a node again, at its address."""
        self._listen(int(address.rpartition(":")[2]))
        self.nodes[address].up = True

    def fail_over(self, address: str) -> None:
        """Fail a node over, as the cluster does automatically when a node does not answer."""
        self.nodes[address].membership = "inactiveFailed"
        self._share([node for node in self.members if node.membership == "active"])

    @property
    def members(self) -> list[Node]:
        return [node for node in self.nodes.values() if node.membership]

    @property
    def shares(self) -> dict[str, int]:
        return {node.address: node.vbuckets for node in self.members}

    def answer(self, address: str, method: str, path: str, form: dict[str, str], user: tuple[str, str]) -> Answer:
        """Return status and body of the answer of a node."""
        with self._lock:
            node = self.nodes[address]
            self.asked.append((method, path, form))
            if path == "/pools":
                vendor = "enterprise" if self.enterprise else "community"
                return 200, {"isEnterprise": self.enterprise, "implementationVersion": f"7.6.2-3721-{vendor}"}
            if node.membership and user != self.administrator:
                return 401, "Unauthorized"
            if method == "GET":
                return self._told(node, path)
            return self._set_up(node, path, form) if not node.membership else self._changed(path, form)

    def _told(self, node: Node, path: str) -> Answer:
        if path == "/nodes/self":
            secure = {"httpsMgmt": int(node.address.rpartition(":")[2]) + SECURE} if self.enterprise else {}
            return 200, {"ports": {"direct": 11210, **secure}}
        if not node.membership:
            return 404, "unknown pool"
        if path == "/pools/default":
            active = [member for member in self.members if member.membership == "active"]
            even = max(member.vbuckets for member in active) - min(member.vbuckets for member in active) <= 1
            return 200, {
                "nodes": [member.described() for member in self.members],
                "rebalanceStatus": "running" if self._running else "none",
                "balanced": even and len(active) == len(self.members),
            }
        if path == "/pools/default/tasks":
            return 200, [self._task()]
        if path == "/pools/default/buckets":
            return 200, self.buckets
        return 404, "Not found."

    def _set_up(self, node: Node, path: str, form: dict[str, str]) -> Answer:
        if path == "/node/controller/setupServices" and "kv" not in form["services"]:
            return 400, ["cannot setup first cluster node without kv service"]
        if path == "/settings/web":
            if len(form["password"]) < 6:
                return 400, {"errors": {"password": "The password must be at least 6 characters long."}}
            self.administrator = (form["username"], form["password"])
            node.membership, node.vbuckets = "active", VBUCKETS
        node.told[path] = form
        return 200, {}

    def _changed(self, path: str, form: dict[str, str]) -> Answer:
        named = next((node for node in self.members if node.id == form.get("otpNode")), None)
        match path:
            case "/controller/addNode":
                return self._add(form)
            case "/controller/rebalance":
                return self._rebalance(form["knownNodes"], form["ejectedNodes"])
            case "/controller/stopRebalance":
                if self._running:
                    self._end("Rebalance stopped by user.")
                return 200, ""
            case "/controller/failOver" if named:
                if self._running:
                    return 503, "Rebalance running."
                self.fail_over(named.address)
                return 200, ""
            case "/controller/ejectNode" if named:
                if named.membership == "active":
                    return 400, "Cannot remove active server.\n"
                named.membership, named.vbuckets = "", 0
                return 200, ""
            case "/controller/setRecoveryType" if named and named.membership == "inactiveFailed":
                named.membership = "inactiveAdded"
                return 200, []
            case "/pools/default" | "/settings/autoFailover":
                return 200, ""
        return 400, "Bad Request\n"

    def _add(self, form: dict[str, str]) -> Answer:
        if unknown := form.keys() - {"hostname", "user", "password", "services"}:
            return 400, [f"Got unknown parameters: {sorted(unknown)}"]
        url = urlsplit(form["hostname"])
        if (url.scheme == "https") != self.enterprise:
            return 400, [f"Unsupported protocol {url.scheme}"]
        port = (url.port or 0) - (SECURE if self.enterprise else 0)
        node = self.nodes.get(f"{url.hostname}:{port}")
        if node is None or not node.up:
            return 400, [f"Failed to connect to {form['hostname']}. Connection refused"]
        if node.membership:
            return 400, ["Prepare join failed. Node is already part of cluster."]
        node.membership = "inactiveAdded"
        return 200, {"otpNode": node.id}

    def _rebalance(self, known: str, ejected: str) -> Answer:
        if self._running:
            return 200, ""
        if set(known.split(",")) != {node.id for node in self.members}:
            return 400, {"mismatch": 1}
        leaving = [node for node in self.members if node.id in ejected.split(",")]
        keeping = [node for node in self.members if node not in leaving and node.membership != "inactiveFailed"]
        if not keeping:
            return 400, {"noKVNodesLeft": 1}
        self._before, self._lag = self._task(), self.late
        self._running, self._error = (keeping, leaving, 0), ""
        return 200, ""

    def _task(self) -> dict[str, Any]:
        if self._lag:
            self._lag -= 1
            return self._before
        if self._running:
            keeping, leaving, step = self._running
            if down := [node.id for node in keeping if not node.up]:
                self._end(f"Rebalance exited with reason {{buckets_shutdown_wait_failed,[{down[0]}]}}")
            elif self.failure and step >= STEPS // 2:
                self._end(self.failure)
                self.failure = ""
            elif step < STEPS:
                self._running = (keeping, leaving, step + 1)
                done = 100 * step / STEPS
                nodes = {node.id: {"progress": done} for node in (*keeping, *leaving)}
                return {"type": "rebalance", "status": "running", "progress": done, "perNode": nodes}
            else:
                self._share(keeping)
                for node in keeping:
                    node.membership = "active"
                for node in leaving:
                    node.membership, node.vbuckets = "", 0
                self._end("")
        told = {"type": "rebalance", "status": "notRunning", "statusIsStale": False}
        if self._report:
            told["lastReportURI"] = f"/logs/rebalanceReport?reportID={self._report}"
        return told | ({"errorMessage": self._error} if self._error else {})

    def _end(self, error: str) -> None:
        self._running, self._error = None, error
        self._report += 1

    def _share(self, nodes: list[Node]) -> None:
        for node in self.members:
            node.vbuckets = 0
        for index, node in enumerate(nodes):
            node.vbuckets = VBUCKETS // len(nodes) + (index < VBUCKETS % len(nodes))

    def _listen(self, port: int = 0, *, relay: bool = False) -> str:
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer()

            def do_POST(self) -> None:
                self._answer()

            def _answer(self) -> None:
                text = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
                form = {key: values[0] for key, values in parse_qs(text, keep_blank_values=True).items()}
                secret = base64.b64decode(self.headers.get("Authorization", "").removeprefix("Basic ")).decode()
                user, _, word = secret.partition(":")
                address, path = f"127.0.0.1:{self.server.server_port}", self.path
                if relay:
                    address, _, path = self.path[1:].partition("/")
                    path = f"/{path}"
                    service.nodes.setdefault(address, Node(address))
                status, body = service.answer(address, self.command, path, form, (user, word))
                content = body.encode() if isinstance(body, str) else json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        address = f"127.0.0.1:{server.server_port}"
        self._servers[address] = server
        return address

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for server in self._servers.values():
            server.shutdown()
            server.server_close()
