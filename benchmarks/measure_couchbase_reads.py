"""Cost of the Couchbase driver with the vendor's mock server, because registries have no real server."""

from benchmarks import couchbase_mock, reads


def main() -> None:
    """Measure reads and updates."""
    with couchbase_mock.running() as address:
        target = {"driver": "couchbase", "hosts": [address], **couchbase_mock.USER.plan()}
        reads.measure(target, couchbase_mock.BUCKET)
