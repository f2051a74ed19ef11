"""latte: a CQL generator in Rust on the same client library as the cql driver, which runs scripts."""

import json
import tempfile
from pathlib import Path

from benchmarks import peers, spent

from loadframe.base.errors import LoadframeError
from loadframe.store.access import Auth


def find() -> Path:
    """Return the path of latte; BadInput if it is not installed."""
    return peers.find("latte")


def cpu(
    program: Path,
    address: str,
    statement: str,
    values: str,
    requests: int,
    *,
    auth: Auth,
    in_flight: int,
    rate: int | None,
) -> float:
    """Send a statement `requests` times from one thread, and return the CPU time in s, start-up included.

    `values` is a latte expression for the list of values of request `i`. Without a rate, the number in flight limits
    the speed. LoadframeError with latte's message if it or a request fails.
    """
    script = (
        f'const STATEMENT = "asked";\n'
        f"pub async fn prepare(ctx) {{ ctx.prepare(STATEMENT, `{statement}`).await?; }}\n"
        f"pub async fn run(ctx, i) {{ ctx.execute_prepared(STATEMENT, {values}).await? }}\n"
    )
    pacing = ["-r", str(rate)] if rate else []
    with tempfile.TemporaryDirectory(prefix="loadframe-peer-") as name:
        workload, report = Path(name) / "asked.rn", Path(name) / "report.json"
        workload.write_text(script)
        command = [
            str(program), "--log-dir", name, "run", str(workload), address, *pacing, "-d", str(requests),
            "-t", "1", "-c", "1", "-p", str(in_flight), "--consistency", "LOCAL_ONE",
            "--retries", "0", "-q", "-o", str(report),
            # latte only accepts a password on the command line; the cluster is deleted after the benchmark.
            "--user", str(auth.user), "--password", auth.secret,
        ]  # fmt: skip
        ran = spent.run(command)
        if ran.status or not report.exists():
            raise LoadframeError(f"latte failed: {(ran.stdout + ran.stderr)[-2000:]}")
        told = json.loads(report.read_text())["result"]
    if told["request_count"] != requests or told["error_count"]:
        raise LoadframeError(f"latte sent {told['request_count']} of {requests}, and {told['error_count']} failed")
    return ran.cpu
