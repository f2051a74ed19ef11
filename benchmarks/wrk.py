"""wrk, the reference: an HTTP generator in C that only sends and counts."""

import re
import resource
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from loadframe.base.errors import BadInput, LoadframeError
from loadframe.base.units import parse_duration


@dataclass(frozen=True)
class Measured:
    """wrk's result: rate in 1/s, requests per second of its CPU time, service times in s."""

    rate: float
    per_cpu_second: float
    p50: float
    p99: float


def measure(address: str, connections: int, duration: int, core: int, think_time_ms: int = 0) -> Measured:
    """Run wrk with one thread on one core for `duration` s. BadInput if it is not installed."""
    program, pin = shutil.which("wrk"), shutil.which("taskset")
    if program is None or pin is None:
        raise BadInput("wrk or taskset is not installed", remedy="apt-get install wrk util-linux")
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "think.lua"
        script.write_text(f"function delay() return {think_time_ms} end\n")
        think = ["-s", str(script)] if think_time_ms else []
        load = ["-t1", f"-c{connections}", f"-d{duration}s", "--latency", *think, f"http://{address}/"]
        before = _spent()
        answer = subprocess.run([pin, "-c", str(core), program, *load], capture_output=True, text=True, check=False)
    return _read(answer.stdout + answer.stderr, _spent() - before)


def post(address: str, path: str, body: str, connections: int, duration: int) -> float:
    """Send a request with a body for `duration` s from one thread; return requests per second of CPU time."""
    program = shutil.which("wrk")
    if program is None:
        raise BadInput("wrk is not installed", remedy="apt-get install wrk")
    with tempfile.TemporaryDirectory() as folder:
        script, content = Path(folder) / "post.lua", Path(folder) / "body"
        content.write_text(body)
        script.write_text(
            f"wrk.method = 'POST'\nwrk.path = '{path}'\nwrk.body = io.open('{content}'):read('*a')\n"
            "wrk.headers['content-type'] = 'application/json'\n"
        )
        load = ["-t1", f"-c{connections}", f"-d{duration}s", "--latency", "-s", str(script), f"http://{address}/"]
        before = _spent()
        answer = subprocess.run([program, *load], capture_output=True, text=True, check=False)
    if "Non-2xx" in answer.stdout:
        raise LoadframeError(f"requests of wrk failed: {answer.stdout}")
    return _read(answer.stdout + answer.stderr, _spent() - before).per_cpu_second


def _spent() -> float:
    """Return the CPU time of all children that have ended, s."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _read(text: str, spent: float) -> Measured:
    rate = re.search(r"^Requests/sec:\s*([0-9.]+)", text, re.MULTILINE)
    requests = re.search(r"^\s*([0-9]+) requests in", text, re.MULTILINE)
    result = dict(re.findall(r"^\s*(50|99)%\s+([0-9.]+[a-z]+)", text, re.MULTILINE))
    if rate is None or requests is None or result.keys() != {"50", "99"}:
        raise LoadframeError(f"wrk said nothing that can be read: {text.strip()}")
    return Measured(
        float(rate[1]), int(requests[1]) / spent, parse_duration(result["50"]), parse_duration(result["99"])
    )
