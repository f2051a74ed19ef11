"""Feed damaged and hostile files to the workload parser and the importers: `python tests/fuzz.py --seconds 60`.

Every file must be read, or refused with BadInput, within some seconds. Otherwise the fuzzer stores the file and exits
with status 1.
"""

import argparse
import contextlib
import json
import random
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from damage import damaged
from loadframe.base.errors import BadInput
from loadframe.workload import load_workload
from loadframe.workload.importers.queries import import_queries
from loadframe.workload.importers.rally import import_rally, isolated, template
from loadframe.workload.importers.ycsb import import_ycsb

#: Timeout of one file, s: a reader that takes longer counts as hung.
PATIENCE = 60


def _workload(path: Path) -> None:
    load_workload(str(path)).for_family("elasticsearch", 1)


#: Readers and the file names that they expect.
TARGETS: Mapping[str, tuple[str, Callable[[Path], Any]]] = {
    "workload": ("w.yaml", _workload),
    "queries": ("queries.json", lambda path: import_queries(path).text()),
    "ycsb": ("workload.properties", lambda path: import_ycsb(path, {}).text()),
    "rally": ("track.json", lambda path: import_rally(path, None, {}).text()),
}

_STEP = {"search_queries": [{"body": {"query": {"match_all": {}}}}], "sleep_between_requests_secs": 0.5}
_TRACK = {
    "indices": [{"name": "a", "body": "index.json"}],
    "corpora": [{"name": "c", "documents": [{"source-file": "a.json.bz2", "document-count": 10}]}],
    "operations": [
        {"name": "write", "operation-type": "bulk", "bulk-size": 5, "ingest-percentage": 50},
        {"name": "look", "operation-type": "search", "body": {"size": 1}, "request-params": {"a": "b"}},
    ],
    "challenges": [
        {
            "name": "n",
            "default": True,
            "schedule": [
                {"operation": "write", "clients": 2, "warmup-time-period": 1},
                {"operation": "look", "iterations": 10, "target-throughput": "5 ops/s", "schedule": "poisson"},
                {"parallel": {"time-period": 1, "tasks": [{"operation": "look", "ramp-up-time-period": 1}]}},
            ],
        }
    ],
}
_WORKLOAD = """\
workload: w
parameters: {clients: 2, n: "${clients}"}
collections: {a: {elasticsearch: {settings: {number_of_shards: 1}}}}
corpora: {c: {generate: nyc_taxi_trip, documents: 10}}
variables:
  {low: {uniform: [1, 5]}, name: {derived: "u${low}"}, pick: {choice: {values: [1, {a: b}], order: sequential}}}
operations:
  load: {bulk: {collection: a, corpus: c, size: 5}}
  look: {search: {collection: a, body: {query: {range: {x: {gte: "${low}"}}}}}, timeout: 5s, assert: {min_hits: 1}}
phases:
  - {name: load, prepares: true, operation: load, clients: "${n}", until: exhausted}
  - {name: look, streams: [{mix: {look: 3}, rate: 5/s, arrivals: poisson}], warmup: 1s, duration: 10s}
"""
#: A sound file of each kind, to be damaged.
SOUND: Mapping[str, str] = {
    "workload": _WORKLOAD,
    "queries": json.dumps([_STEP, _STEP], indent=1),
    "ycsb": "recordcount=100\nreadproportion=0.5\nscanproportion=0.1\nrequestdistribution=zipfian\ntarget=5\n",
    "rally": '{% import "rally.helpers" as rally %}' + json.dumps(_TRACK, indent=1),
}
#: Replacements for values.
WORDS = (
    *("3", "-1", "null", "~", "[]", "{}", "true", '"x"', "1e99", "9" * 400, '"${"', '"${n}"', "${clients}", "*a"),
    *(
        "&a [*a]",
        "!!python/object:os.system",
        "{{ x }}",
        "{% for i in range(9) %}",
        '"\\ud800"',
        "\x00",
        '"/"',
        '"_all"',
    ),
)


def hostile() -> Iterator[tuple[str, str, bytes]]:
    """Yield hostile files: name, target and bytes."""
    bomb = "a0: &a0 [x, x]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]\n" for i in range(1, 40))
    nested = "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"
    texts = {
        "empty": "",
        "NUL bytes": "\x00" * 1000,
        "deep lists": "[" * 100_000,
        "deep objects": '{"a":' * 100_000,
        "deep text": "a:\n" + "".join(" " * i + "- a:\n" for i in range(1, 500)),
        "many lists": "[" + "[]," * 520_000 + "[]]",
        "a long word": '"' + "a" * 2**20 + '": 1',
        "long words": "{" + ",".join(f'"{"ab" * 5000}{i}": 1' for i in range(200)) + "}",
        "a huge number": '{"workload": ' + "9" * 100_000 + "}",
        "a huge exponent": '[{"search_queries": [{"body": {}}], "warmup_time_secs": 1e999}]',
        "no number": '[{"search_queries": [{"body": {"a": NaN}}]}]',
        "half a character": '{"workload": "\\ud800"}',
        "an alias bomb": bomb,
        "an alias of itself": "workload: &a [*a]",
        "a merge bomb": "workload: {<<: &a {<<: *a}}",
        "tags": "workload: !!python/object/apply:os.system [true]",
        "two documents": "workload: a\n---\nworkload: b\n",
        "parameters in a circle": "workload: w\nparameters: {a: '${b}', b: '${a}'}\nphases: []\n",
        "a long chain of parameters": "workload: w\nparameters:\n  p0: 1\n"
        + "".join(f"  p{i}: ${{p{i - 1}}}\n" for i in range(1, 5000))
        + "operations: {a: {refresh: {collection: '${p4999}'}}}\nphases: []\n",
        "parameters that double": "workload: w\nparameters:\n  p0: xxxxxxxx\n"
        + "".join(f"  p{i}: ${{p{i - 1}}}${{p{i - 1}}}\n" for i in range(1, 60))
        + "collections: {'${p59}': {}}\nphases: []\n",
        "lines that go on": "a=1\\\n" * 20_000,
        "many properties": "".join(f"p{i}=1\n" for i in range(50_000)),
        "a template that calls itself": nested,
        "a template that includes itself": "{% include 'track.json' %}",
        "a template that imports itself": "{% import 'track.json' as a %}{{ a.b }}",
        "a track that collects itself": '{{ rally.collect(parts="track.json") }}',
        "a track that collects all": '{{ rally.collect(parts="../../../../../**/*") }}',
        "a template that grows": "{{ 'a' * 10 ** 10 }}",
        "a template that reaches out": "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "a template that reads": "{% include '/etc/passwd' %}{{ open('/etc/passwd') }}",
        "a power": "{{ 10 ** 10 ** 10 }}",
        "a reference to itself": '{"operations": [{"name": "a", "$ref": "#"}], "schedule": {"$ref": "#/schedule"}}',
        "a task within itself": '{"schedule": [' + '{"parallel": {"tasks": [' * 20 + "]}}" * 20 + "]}",
    }
    for name, text in texts.items():
        for target in TARGETS:
            yield name, target, text.encode("utf-8", "surrogatepass")
    for target in TARGETS:
        yield "no UTF-8", target, b'{"a": "\xff\xfe\x80"}'
        yield "UTF-16", target, SOUND[target].encode("utf-16")
        yield "cut", target, SOUND[target].encode()[:-7]
    yield from (("a type at every key", target, text.encode()) for target in TARGETS for text in _other_types(target))


def _other_types(target: str) -> Iterator[str]:
    """Yield a sound file once for each value and each type that the value could have."""
    whole = {"queries": [_STEP], "rally": _TRACK}.get(target)
    for place in _places(whole):
        for value in (None, True, -1, 1e18, "x", "", [], [None], {}, {"": None}, [[1]]):
            copy = json.loads(json.dumps(whole))
            part = copy
            for step in place[:-1]:
                part = part[step]
            part[place[-1]] = value
            yield json.dumps(copy)


def _places(data: Any) -> Iterator[tuple[Any, ...]]:
    entries = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in entries:
        yield (key,)
        yield from ((key, *place) for place in _places(value))


def refuses(target: str, content: bytes, folder: Path) -> bool:
    """Return whether a target refuses a file; anything but that and success is raised."""
    name, read = TARGETS[target]
    path = folder / name
    path.write_bytes(content)
    (folder / "index.json").write_text("{}")
    try:
        read(path)
    except BadInput:
        return True
    return False


def alarm(*_: Any) -> None:
    """End a reader that hangs; a handler of signals."""
    raise TimeoutError(f"no answer within {PATIENCE} s")


@contextlib.contextmanager
def expanded_here() -> Iterator[None]:
    """Expand templates in this process, for speed; the alarm ends endless loops."""
    before = isolated.expand, isolated.locate
    isolated.expand = lambda path, root, values, _: template.expand(path, root, values)
    isolated.locate = lambda path, root, values, _: template.locate(path, root, values)
    try:
        yield
    finally:
        isolated.expand, isolated.locate = before


def damage(target: str, seed: int) -> bytes:
    """Return a sound file, damaged in its text, and at times in its bytes."""
    content = next(damaged(SOUND[target], WORDS, times=1, seed=seed)).encode("utf-8", "surrogatepass")
    chance = random.Random(seed)
    if content and chance.random() < 0.2:
        at = chance.randrange(len(content))
        content = content[:at] + chance.randbytes(chance.randint(1, 8)) + content[at + chance.randint(0, 4) :]
    return content


def main() -> int:
    """Damage files until the time is over."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--target", choices=list(TARGETS), action="append")
    given = parser.parse_args()
    signal.signal(signal.SIGALRM, alarm)
    end, seed, refused = time.monotonic() + given.seconds, given.seed, 0
    with TemporaryDirectory(prefix="loadframe-fuzz-") as folder, expanded_here():
        while time.monotonic() < end:
            target = (given.target or list(TARGETS))[seed % len(given.target or TARGETS)]
            content = damage(target, seed)
            signal.alarm(PATIENCE)
            try:
                refused += refuses(target, content, Path(folder))
            except (Exception, RecursionError):
                kept = Path(f"fuzz-{target}-{seed}")
                kept.write_bytes(content)
                traceback.print_exc()
                print(f"{target}, seed {seed}: kept as {kept}", file=sys.stderr)
                return 1
            finally:
                signal.alarm(0)
            seed += 1
    print(f"{seed - given.seed} files, {refused} refused")
    return 0


if __name__ == "__main__":
    sys.exit(main())
