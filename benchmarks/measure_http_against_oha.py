"""The search driver compared with oha on one core: requests per second and core at full load."""

from benchmarks import http_peers, nginx, oha
from benchmarks.http_peers import CONNECTIONS, SECONDS
from benchmarks.machine import cores

#: Minimum ratio of the driver's requests per second and core to oha's.
AIM = 1.2


def main() -> None:
    """Run the measurement and print it."""
    program = oha.find()
    server_core, client_core = cores()
    with nginx.serving(server_core) as address:

        def peer() -> oha.Measured:
            return oha.measure(program, address, CONNECTIONS, SECONDS, client_core)

        http_peers.full_load("oha", peer, address, client_core, AIM)
