"""The Couchbase driver's own cost, against its maker's stand-in for a server: no registry has a real one."""

from benchmarks import couchbase_mock, reads


def main() -> None:
    """Measure reads and updates."""
    with couchbase_mock.running() as address:
        target = {"driver": "couchbase", "hosts": [address], **couchbase_mock.USER.plan()}
        reads.measure(target, couchbase_mock.BUCKET)
