"""The redis driver compared with `redis-benchmark` without pipelining: GET and SET per second of client CPU time.

Both use the same keys and sizes on one server. They alternate, so that other processes affect both.
"""

import shutil
import statistics

from benchmarks import engine_run, spent

from loadframe.base.errors import BadInput, LoadframeError
from loadframe.base.units import format_count
from loadframe.cluster import Cluster, ClusterSpec

#: Minimum ratio of the driver's requests per second and core to redis-benchmark's.
AIM = 0.8

CONNECTIONS = 50
REQUESTS = 40_000
ROUNDS = 3
KEYS = 100_000

#: Name and password of a user with minimal rights, because redis-benchmark takes the password on its command line,
#: where other users can read it.
PEER = "benchmark"
#: Requests of redis-benchmark: a random key of twelve digits, and a value of three bytes.
COMMANDS = {"GET": ["GET", "key:${n}"], "SET": ["SET", "key:${n}", "xxx"]}
VARIABLES = {"n": {"uniform": [100_000_000_000, 100_000_000_000 + KEYS - 1]}}


def main() -> None:
    """Run all rounds and print medians and ratios."""
    program = shutil.which("redis-benchmark")
    if program is None:
        raise BadInput("redis-benchmark is not installed", remedy="apt-get install redis-tools")
    with Cluster.start(ClusterSpec(store="redis")) as cluster:
        client = cluster.store.client(cluster.addresses[0])
        client.ask("ACL", "SETUSER", PEER, "on", f">{PEER}", "~key:*", "+get", "+set", "+config|get")
        for name, words in COMMANDS.items():
            rounds = [(_peer(program, cluster, name), _ours(cluster, words)) for _ in range(ROUNDS)]
            theirs, ours = (statistics.median(values) for values in zip(*rounds, strict=True))
            ratio = statistics.median(our / their for their, our in rounds)
            verdict = "reached" if ratio >= AIM else "missed"
            print(f"  {name}, {CONNECTIONS} connections, requests per CPU second")
            print(f"  redis-benchmark {format_count(theirs)}, redis driver {format_count(ours)}")
            print(f"  ratio {ratio:.2f}, aim {AIM} {verdict}")


def _peer(program: str, cluster: Cluster, name: str) -> float:
    host, port = cluster.addresses[0].rsplit(":", 1)
    load = ["-t", name.lower(), "-c", str(CONNECTIONS), "-n", str(REQUESTS), "-r", str(KEYS), "-q"]
    ran = spent.run([program, "-h", host, "-p", port, "--user", PEER, "-a", PEER, *load])
    if ran.status:
        raise LoadframeError(f"redis-benchmark failed: {ran.stderr.strip()}")
    return REQUESTS / ran.cpu


def _ours(cluster: Cluster, words: list[str]) -> float:
    plan = engine_run.phase(
        {"driver": "redis", "hosts": cluster.addresses, **cluster.target()},
        {"command": words},
        {"closed": {"clients": CONNECTIONS}},
        {"requests": REQUESTS},
        variables=VARIABLES,
    )
    return engine_run.measure(plan).per_cpu_second
