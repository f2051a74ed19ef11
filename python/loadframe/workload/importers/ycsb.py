"""Importer for YCSB properties files of CoreWorkload, with its defaults and distributions.

Operations become neutral verbs. A record is a document whose id is its key; a field repeats the key for stores that
scan by a field. Requests select the same records as YCSB: the tests compare them with YCSB's own classes.
"""

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from loadframe.base.errors import BadInput
from loadframe.base.units import parse_rate
from loadframe.workload.importers.imported import Imported, name_of
from loadframe.workload.importers.source import text_of
from loadframe.yamlfile import did_you_mean, short_json


def parse(text: str, where: str) -> dict[str, tuple[str, str]]:
    """Return value and place (`file:line`) of each key of a properties file; its last value applies, as in Java.

    `where` is the file for the places. Skips comments and empty lines, and joins a line that ends with a backslash with
    the next. Escapes are not decoded. BadInput for a line that is not a property.
    """
    properties: dict[str, tuple[str, str]] = {}
    lines = iter(enumerate(text.splitlines(), start=1))
    for number, first in lines:
        pieces = [first.strip()]
        # As in Java, a comment ends with its line.
        while pieces[-1].endswith("\\") and not pieces[0].startswith(("#", "!")):
            pieces[-1] = pieces[-1][:-1]
            pieces.append(next(lines, (0, ""))[1].strip())
        line = "".join(pieces)
        if not line or line[0] in "#!":
            continue
        pair = re.fullmatch(r"([\w./-]+)\s*[=:\s]\s*(.*)", line)
        if pair is None:
            what = f"{short_json(line)} is not a property"
            raise BadInput(what, where=f"{where}:{number}", remedy="write key=value")
        properties[pair[1]] = (pair[2].strip(), f"{where}:{number}")
    return properties


class Properties:
    """Properties with their places and typed access. It records which properties were read, for `rest`."""

    def __init__(self, given: Mapping[str, tuple[str, str]]) -> None:
        """`given` has value and place (`file:line`) of each property."""
        self._given = given
        self._read: set[str] = set()

    def text(self, key: str, default: str) -> str:
        """Return the text of a property, or its default, and mark it as read."""
        self._read.add(key)
        return self._given.get(key, (default, ""))[0]

    def number(self, key: str, default: float) -> float:
        """Return a property, or `default`, as a number of at least 0; BadInput for other values. Marks it as read."""
        try:
            number = parse_rate(float(self.text(key, str(default))))
        except (BadInput, ValueError, OverflowError):
            raise self.error(key, "expected a number of at least 0", f"its default is {default:g}") from None
        return number

    def whole(self, key: str, default: int, *, least: int = 0) -> int:
        """Return a property, or `default`, as a whole number from `least` to below 2^53; BadInput for other values."""
        number = self.number(key, default)
        if not number.is_integer() or not least <= number < 2**53:
            raise self.error(key, f"expected a whole number of at least {least}", f"its default is {default}")
        return int(number)

    def flag(self, key: str, default: bool) -> bool:
        """Return whether a property, or `default`, is `true`; BadInput unless true or false, in any case."""
        return self.word(key, str(default).lower(), ("true", "false")) == "true"

    def word(self, key: str, default: str, words: tuple[str, ...]) -> str:
        """Return a property, or `default`, in lower case; BadInput unless it is one of `words`."""
        word = self.text(key, default).lower()
        if word not in words:
            raise self.error(key, f"expected one of {', '.join(words)}", did_you_mean(word, words))
        return word

    def error(self, key: str, what: str, remedy: str) -> BadInput:
        """Return the error to raise for a property, with its place; `what` is the problem."""
        value, where = self._given.get(key, ("nothing", None))
        return BadInput(f"{key}={value}: {what}", where=where, remedy=remedy)

    def rest(self) -> list[str]:
        """Return the unread properties as `key=value`, in the order in which they were given."""
        return [f"{key}={value}" for key, (value, _) in self._given.items() if key not in self._read]


#: CoreWorkload's defaults.
_PROPORTIONS = {"read": 0.95, "update": 0.05, "insert": 0.0, "scan": 0.0, "readmodifywrite": 0.0}
_DISTRIBUTIONS = ("uniform", "zipfian", "latest", "hotspot", "exponential", "sequential")
_LENGTHS = ("constant", "uniform", "zipfian", "histogram")
#: The names of CoreWorkload in YCSB versions.
_CORE = ("site.ycsb.workloads.CoreWorkload", "com.yahoo.ycsb.workloads.CoreWorkload", "CoreWorkload")
#: Limits that keep the workload file readable.
_MAX_FIELDS, _MAX_LENGTH = 100, 10_000
_MAX_BYTES = 2**20

#: Properties that identify a YCSB file; keys such as `table` or `target` also occur in other formats.
_OWN = {
    *("recordcount", "operationcount", "insertcount", "insertstart", "maxexecutiontime", "threadcount"),
    *("fieldcount", "fieldlength", "minfieldlength", "fieldnameprefix", "fieldlengthdistribution"),
    *("readallfields", "writeallfields", "insertorder", "zeropadding", "dataintegrity", "requestdistribution"),
    *("minscanlength", "maxscanlength", "scanlengthdistribution", "hotspotdatafraction", "hotspotopnfraction"),
    *("exponential.percentile", "exponential.frac", *(f"{verb}proportion" for verb in _PROPORTIONS)),
}
_CASSANDRA_STRESS = re.compile(r"^(columnspec|table_definition|keyspace_definition)\s*:", re.MULTILINE)
_AS_WORKLOAD = (
    "write a workload file: define the table in collections, each query as a cql operation, and the columns' "
    "distributions as variables"
)

_REMARKS = (
    "The first phases load the records; the last is YCSB's transaction phase. The field `number` holds the record's "
    "number, from which the key is derived. The field `key` holds the key, for stores that cannot scan by id.",
)
#: Properties of YCSB's own reporting, which do not affect the load.
_NO_MATTER = {"status", "measurementtype", "exporter", "exportfile", "histogram.buckets"}


def import_ycsb(path: Path, overrides: Mapping[str, str]) -> Imported:
    """Return the workload of a properties file; `overrides` take precedence, like YCSB's `-p key=value`.

    BadInput, with the line, for other formats, for workload classes other than CoreWorkload, and for invalid values.
    """
    text = text_of(path, _MAX_BYTES)
    if _CASSANDRA_STRESS.search(text):
        raise BadInput("importing profiles of cassandra-stress is not supported", where=str(path), remedy=_AS_WORKLOAD)
    given = parse(text, str(path)) | {key: (value, f"-p {key}") for key, value in overrides.items()}
    if not _OWN.intersection(given) and given.get("workload", ("", ""))[0].rpartition(".")[2] != "CoreWorkload":
        raise BadInput(
            "this is not a YCSB properties file: it sets no property of CoreWorkload",
            where=str(path),
            remedy="use a file with properties such as recordcount=1000, or set one with -p",
        )
    return _Core(Properties(given), path).imported()


class _Core:
    """Converts CoreWorkload's properties to the sections of a workload file.

    BadInput, with its line, for a property with an invalid value.
    """

    def __init__(self, properties: Properties, path: Path) -> None:
        """Read the properties that all sections share. BadInput for other workload classes and invalid values."""
        self.properties = properties
        self.path = path
        self.left_out: list[str] = []
        self._refuse_other_classes()
        self.records = properties.whole("recordcount", 1000, least=1)
        self.table = name_of(properties.text("table", "usertable")).lower()
        self.fields = self._fields()
        self.length = self._bounded("fieldlength", 100, _MAX_LENGTH)
        self.shares = self._shares()
        self.operations = properties.whole("operationcount", 1000)
        self.seconds = properties.number("maxexecutiontime", 0)

    def imported(self) -> Imported:
        """Return the workload; lists each property that is not imported. BadInput for invalid values."""
        data = {
            "workload": name_of(self.path.stem),
            "description": "YCSB: " + ", ".join(f"{share:g} {verb}" for verb, share in self.shares.items()),
            "parameters": {"clients": self.properties.whole("threadcount", 1, least=1)},
            "collections": {self.table: self._collection()},
            "variables": self._variables(),
            "operations": self._operations(),
            "phases": self._phases(),
        }
        self._name_the_rest()
        return Imported(data, _REMARKS, tuple(self.left_out), str(self.path))

    def _refuse_other_classes(self) -> None:
        """Refuse workload classes other than CoreWorkload, with BadInput."""
        name = self.properties.text("workload", _CORE[0])
        if name not in _CORE:
            raise self.properties.error(
                "workload",
                "only CoreWorkload is supported; the requests of other classes are not in this file",
                f"write a workload file, or use a properties file for {_CORE[0]}",
            )

    def _fields(self) -> list[str]:
        """Return the names of the fields. BadInput for an invalid prefix or number of fields."""
        prefix = self.properties.text("fieldnameprefix", "field")
        if not prefix.isidentifier():
            remedy = "use letters, digits and _"
            raise self.properties.error("fieldnameprefix", "not a valid start of a field name", remedy)
        return [f"{prefix}{index}" for index in range(self._bounded("fieldcount", 10, _MAX_FIELDS))]

    def _bounded(self, key: str, default: int, most: int) -> int:
        """Return the whole number of the property `key`, or `default`; BadInput unless it is from 1 to `most`."""
        number = self.properties.whole(key, default, least=1)
        if number > most:
            raise self.properties.error(key, f"expected at most {most}", "set a smaller number")
        return number

    def _shares(self) -> dict[str, float]:
        """Return the proportion of each verb that is above 0; their sum may differ from 1. BadInput if all are 0."""
        shares = {verb: self.properties.number(f"{verb}proportion", share) for verb, share in _PROPORTIONS.items()}
        if not any(shares.values()):
            raise self.properties.error("readproportion", "all proportions are 0", "set one proportion above 0")
        return {verb: round(share, 12) for verb, share in shares.items() if share}

    def _collection(self) -> dict[str, Any]:
        """Return the definitions of the table, by family."""
        field = {"type": "keyword", "index": False, "doc_values": False}
        fields = dict.fromkeys(self.fields, field)
        keys = {"key": {"type": "keyword"}, "number": {"type": "long"}}
        settings = {"number_of_shards": "${nodes}", "number_of_replicas": 0}
        columns = {"id": "text", "key": "text", "number": "bigint", **dict.fromkeys(fields, "text")}
        return {
            "elasticsearch": {
                "settings": settings,
                "mappings": {"dynamic": "strict", "properties": {**keys, **fields}},
            },
            "cassandra": {"columns": columns},
        }

    def _variables(self) -> dict[str, Any]:
        """Return the definitions of variables by name: record numbers, keys, field texts, scan lengths, as needed."""
        numbers: dict[str, Any] = {"loaded": {"sequential": {"from": 0}}}
        if self.shares.keys() & {"read", "update", "scan", "readmodifywrite"}:
            numbers["chosen"] = self._chosen()
        if "insert" in self.shares:
            numbers["inserted"] = {"counter": {"from": self.records}}
        keys = {f"{name}_key": {"hash": {"of": name}} for name in numbers} if self._hashed() else {}
        text = {"text": {"length": self._text_length()}}
        variables = {**numbers, **keys, **{f"text{index}": text for index in range(len(self.fields))}}
        one_field = {"uniform": [0, len(self.fields) - 1]}
        if self.shares.keys() & {"update", "readmodifywrite"} and not self._writes_all():
            variables["field"] = one_field
        if "read" in self.shares and not self._reads_all():
            variables["read_field"] = one_field
        if "scan" in self.shares:
            variables["length"] = self._scan_length()
        return variables

    def _hashed(self) -> bool:
        """Return whether keys are hashes of record numbers, as by default."""
        return self.properties.word("insertorder", "hashed", ("hashed", "ordered")) == "hashed"

    def _text_length(self) -> int | list[int]:
        """Return the length of a field in characters: a number, or [shortest, longest] for a uniform distribution.

        Other known distributions give the number `fieldlength`, and are added to `left_out`. BadInput for an unknown
        one.
        """
        distribution = self.properties.word("fieldlengthdistribution", "constant", _LENGTHS)
        shortest = self.properties.whole("minfieldlength", 1)
        if distribution not in ("constant", "uniform"):
            self.left_out.append(f"fieldlengthdistribution={distribution}: all fields have fieldlength characters")
        return [min(shortest, self.length), self.length] if distribution == "uniform" else self.length

    def _chosen(self) -> dict[str, Any]:
        """Return the variable that selects a record (from 0), by `requestdistribution`; BadInput for an invalid value.

        With inserts, the Zipf, latest and exponential distributions also cover inserted records.
        """
        distribution = self.properties.word("requestdistribution", "uniform", _DISTRIBUTIONS)
        hot_items = self.properties.number("hotspotdatafraction", 0.2)
        hot_share = self.properties.number("hotspotopnfraction", 0.8)
        percentile = self.properties.number("exponential.percentile", 95)
        share = self.properties.number("exponential.frac", 0.8571428571)
        if not 0 < percentile < 100:
            what = "expected a number above 0 and below 100"
            raise self.properties.error("exponential.percentile", what, "write a number such as 95")
        # The fraction `share` of the records gets `percentile` percent of the requests.
        mean = self.records * share / -math.log(1 - percentile / 100)
        items = {"items": self.records}
        growing = {**items, "inserted": "inserted"} if "insert" in self.shares else items
        # CoreWorkload draws among twice the expected number of new records plus one (its bound is inclusive).
        expected = int(self.operations * self.shares.get("insert", 0) * 2) + 1
        ways: dict[str, Any] = {
            "uniform": [0, self.records - 1],
            "sequential": {"from": 0, **items},
            "zipfian": {**growing, "expected": expected, "form": "ycsb", "scrambled": True},
            "latest": {**growing, "form": "ycsb"},
            "hotspot": {**items, "hot_items": hot_items, "hot_share": hot_share},
            "exponential": {**growing, "mean": mean, "newest_first": True},
        }
        return {"counter" if distribution == "sequential" else distribution: ways[distribution]}

    def _scan_length(self) -> dict[str, Any]:
        """Return the variable that draws the number of records of a scan: uniform, or Zipf with short scans popular."""
        longest = self.properties.whole("maxscanlength", 1000, least=1)
        shortest = self.properties.whole("minscanlength", 1, least=1)
        shortest = min(shortest, longest)
        if self.properties.word("scanlengthdistribution", "uniform", ("uniform", "zipfian")) == "zipfian":
            return {"zipfian": {"items": longest - shortest + 1, "form": "ycsb", "from": shortest}}
        return {"uniform": [shortest, longest]}

    def _writes_all(self) -> bool:
        """Return whether updates write all fields rather than one: `writeallfields`, false by default."""
        return self.properties.flag("writeallfields", False)

    def _reads_all(self) -> bool:
        """Return whether reads return all fields rather than one: `readallfields`, true by default."""
        return self.properties.flag("readallfields", True)

    def _operations(self) -> dict[str, Any]:
        """Return the operations of the load and transaction phases.

        With `readallfields=false`, adds scans and read-modify-writes, which read all fields, to `left_out`.
        """
        texts = {field: f"${{text{index}}}" for index, field in enumerate(self.fields)}
        prefix = self.fields[0].removesuffix("0")
        changed = texts if self._writes_all() else {f"{prefix}${{field}}": "${text0}"}
        chosen = {"collection": self.table, "id": self._id("chosen")}
        wanted = {} if self._reads_all() else {"fields": [f"{prefix}${{read_field}}"]}
        scan = {"collection": self.table, "from": self._id("chosen"), "count": "${length}", "by": "key"}
        operations = {
            "read": {"read": {**chosen, **wanted}},
            "update": {"update": {**chosen, "document": changed}},
            "insert": self._write("inserted", texts),
            "scan": {"scan": scan},
            "readmodifywrite": {"read_modify_write": {**chosen, "document": changed}},
        }
        if not self._reads_all():
            whole = [verb for verb in ("scan", "readmodifywrite") if verb in self.shares]
            self.left_out += [f"readallfields=false for {verb}: it reads all fields" for verb in whole]
        return {
            "load": self._write("loaded", texts),
            "refresh": {"elasticsearch": {"refresh": {"collection": self.table}}},
            **{verb: operations[verb] for verb in self.shares},
        }

    def _id(self, number: str) -> str:
        """Return the key of a record, as a text with the placeholder of the variable `number`."""
        return f"user${{{number}_key}}" if self._hashed() else f"user${{{number}}}"

    def _write(self, number: str, texts: Mapping[str, str]) -> dict[str, Any]:
        """Return an insert of the record whose number is the variable `number`; `texts` are its fields.

        The document also has its `key` and `number`.
        """
        document = {"key": self._id(number), "number": f"${{{number}}}", **texts}
        return {"insert": {"collection": self.table, "id": self._id(number), "document": document}}

    def _phases(self) -> list[dict[str, Any]]:
        """Return the phases that load the records, refresh, and run the transactions.

        Adds a `target`, which becomes the rate of an open loop, to `left_out`. BadInput without an end condition.
        """
        load = {"operation": "load", "clients": "${clients}", "requests": self.records}
        target = self.properties.number("target", 0)
        pacing: dict[str, Any] = {"clients": "${clients}"}
        if target:
            # YCSB spaces requests evenly.
            pacing = {"rate": f"{target:.15g}/s", "arrivals": "constant"}
            self.left_out.append(f"target={target:g} as an upper limit: it is the rate of an open loop instead")
        only = next(iter(self.shares)) if len(self.shares) == 1 else None
        operations: dict[str, Any] = {"operation": only} if only else {"mix": self.shares}
        return [
            {"name": "load", "prepares": True, **load},
            {"name": "refresh", "prepares": True, "operation": "refresh", "clients": 1, "requests": 1},
            {"name": "transactions", **operations, **pacing, **self._end()},
        ]

    def _end(self) -> dict[str, Any]:
        """Return the end condition of the transaction phase: a time before a number of requests; BadInput without one.

        If both are given, adds the number to `left_out`.
        """
        if self.seconds:
            if self.operations:
                self.left_out.append(f"operationcount: the phase ends after its {self.seconds:g} s")
            return {"duration": f"{self.seconds:.15g}s"}
        if not self.operations:
            remedy = "set -p operationcount=... or -p maxexecutiontime=... (seconds)"
            raise self.properties.error("operationcount", "the transaction phase lacks an end", remedy)
        return {"requests": self.operations}

    def _name_the_rest(self) -> None:
        """Add the properties that are not imported to `left_out`, without those of YCSB's reporting. Call it last."""
        if self.properties.whole("insertstart", 0):
            self.left_out.append("insertstart: records are numbered from 0")
        if self.properties.whole("zeropadding", 1) > 1:
            self.left_out.append("zeropadding: keys are written without leading zeros")
        for entry in self.properties.rest():
            key = entry.partition("=")[0]
            if key not in _NO_MATTER:
                self.left_out.append(entry)
