"""Indices, data streams, templates and corpora of a track.

BadInput, with its place, for a key with an invalid value.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Any

from loadframe.base.errors import BadInput
from loadframe.workload.importers.imported import Hole, literal, name_of
from loadframe.workload.importers.source import ImportedObject, nearest

_DEFINITION = ("settings", "mappings", "aliases")


def shape(name: str, templates: Mapping[str, Mapping[str, Any]]) -> dict[str, Any] | None:
    """Return the definition that templates give to an index name, with `data_stream` for a data stream.

    `templates` maps sections (`templates`, `component-templates`, `composable-templates`) to bodies by name. As in the
    store, the matching composable template of the highest priority applies, with its components; otherwise all legacy
    templates in order. None if no template matches.
    """
    composable = [body for body in templates.get("composable-templates", {}).values() if _fits(name, body)]
    if composable:
        chosen = max(composable, key=lambda body: _number(body.get("priority")))
        components = templates.get("component-templates", {})
        named = chosen.get("composed_of")
        parts = [components.get(part, {}) for part in named] if isinstance(named, list) else []
        made = _merged([*(part.get("template") for part in parts), chosen.get("template")])
        return made | ({"data_stream": True} if "data_stream" in chosen else {})
    legacy = [body for body in templates.get("templates", {}).values() if _fits(name, body)]
    if not legacy:
        return None
    return _merged(sorted(legacy, key=lambda body: _number(body.get("order"))))


def _number(value: Any) -> float:
    """Return a number unchanged; 0 for other values."""
    return value if isinstance(value, int | float) else 0


def _fits(name: str, body: Mapping[str, Any]) -> bool:
    """Return whether a template's patterns, with shell wildcards such as `*`, match an index name."""
    patterns = body.get("index_patterns", body.get("template"))
    listed = patterns if isinstance(patterns, list) else [patterns]
    return any(isinstance(pattern, str) and fnmatchcase(name, pattern) for pattern in listed)


def _merged(definitions: list[Any]) -> dict[str, Any]:
    """Return a recursive merge of the settings, mappings and aliases of several definitions; the last has precedence.

    Lists are replaced. Definitions and parts that are not mappings are ignored.
    """
    made: dict[str, Any] = {}
    for definition in definitions:
        if isinstance(definition, dict):
            made = _over(made, {key: definition[key] for key in _DEFINITION if isinstance(definition.get(key), dict)})
    return made


def _over(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Return a recursive merge of two mappings, in which the second takes precedence."""
    both = dict(one)
    for key, value in other.items():
        inner = one.get(key)
        both[key] = _over(inner, value) if isinstance(inner, dict) and isinstance(value, dict) else value
    return both


#: API paths of templates, by section.
TEMPLATES = {
    "templates": "/_template/",
    "component-templates": "/_component_template/",
    "composable-templates": "/_index_template/",
}
#: Archives that a corpus cannot read.
_PACKED = (".xz", ".zip", ".tar", ".tgz", ".7z")
_COMPRESSED = (*_PACKED, ".gz", ".bz2", ".zst")

#: Vector formats, for which servers lack small files for test mode.
_VECTORS = ("hdf5", "bigann", "parquet")

#: Documents per corpus in test mode; servers of public tracks have files of this size.
SMALL = 1000
#: Similarity, from 0 to 1, above which an unknown word may be a typo.
_SLIP = 0.8
#: Maximum bytes of an action line; longer lines are documents.
_LONGEST_ACTION = 2**16
#: Stands for all documents if a corpus does not declare their number.
ALL = 10**12

#: Keys of a corpus without effect on the load.
_NO_MATTER = (
    *("documents", "meta", "uncompressed-bytes", "compressed-bytes", "source-format", "target-type"),
    *("target-index", "target-data-stream", "base-url", "source-url", "name"),
)


@dataclass(frozen=True)
class DocumentSet:
    """A file of documents: its corpus here, its corpus in the track, its target index, and its number of documents."""

    corpus: str
    of: str
    target: str | None
    documents: int | None


@dataclass
class Track:
    """Sections of a track, converted to sections of a workload file; `left_out` lists unsupported parts."""

    part: ImportedObject
    #: Folder of the track's file.
    folder: Path
    #: Returns the file and line of each part of the track, by path.
    locate: Callable[[], Mapping[str, str]]
    #: Whether to shrink everything for a trial run.
    test_mode: bool = False
    collections: dict[str, Any] = field(default_factory=dict)
    corpora: dict[str, Any] = field(default_factory=dict)
    variables: dict[str, Any] = field(default_factory=dict)
    sets: list[DocumentSet] = field(default_factory=list)
    #: Parameters of corpora, with their defaults.
    parameters: dict[str, Any] = field(default_factory=dict)
    #: Corpora with the first documents of another one, by its name and the percentage.
    shares: dict[tuple[str, float], str] = field(default_factory=dict)
    #: Bodies of templates by name, by section: `templates`, ...
    templates: dict[str, dict[str, Any]] = field(default_factory=dict)
    #: Instructions for documents that the user must download.
    downloads: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    def leave_out(self, entry: str) -> None:
        """Add `entry`, a text about a part that is not imported, to the report; do nothing if it was added before."""
        if entry not in self.left_out:
            self.left_out.append(entry)

    def refuse(self, name: str, error: BadInput) -> None:
        """Report the part `name` as not imported because of `error`, with the file and line of the error."""
        self.leave_out(f"{name}: {error.what} ({self.place(str(error.where))})")

    def leave_out_key(self, name: str, key: str, part: ImportedObject) -> None:
        """Report an unread key of `part` as not imported; for a likely typo, with its line and a suggestion.

        `name` describes the part in the report, such as `operation search`.
        """
        meant = _nearest(key, part.read_keys - part.data.keys())
        slip = f", did you mean {meant!r}? ({self.place(f'{part.where}, {key}')})" if meant else ""
        self.leave_out(f"{name}: {key}{slip}")

    def unknown(self, kind: str, known: Iterable[str], where: str) -> str:
        """Return the message for an unknown operation type or name `kind`, with a `known` one if it is similar.

        `where` is the operation's place.
        """
        meant = _nearest(kind, known)
        slip = f"; did you mean {meant!r}? ({self.place(where)})" if meant else ""
        return f"unsupported type {kind}{slip}"

    def place(self, where: str) -> str:
        """Return `file:line` of a part of the track, or of the nearest part around it; `where` itself if unknown."""
        path = where.removeprefix(self.part.where)
        if path == where or not path:
            return where
        return nearest(path, self._places) or where

    @cached_property
    def _places(self) -> Mapping[str, str]:
        """File and line of each part of the track, by path; empty if they cannot be determined."""
        try:
            return self.locate()
        except BadInput:
            return {}

    def entries(self, part: ImportedObject, key: str, what: str) -> Iterator[ImportedObject]:
        """Yield the objects in the list under `key` as parts; report other entries as not imported.

        `what` names an entry in messages. A value that is not a list is reported, and yields nothing.
        """
        try:
            listed = part.listed(key)
        except BadInput as error:
            self.refuse(key, error)
            return
        for index, entry in enumerate(listed):
            try:
                yield ImportedObject(entry, f"{part.where}, {key}[{index}]")
            except BadInput as error:
                self.refuse(f"{what} {index + 1}", error)

    def remark(self, words: str) -> None:
        """Add a paragraph to the head of the workload file, once."""
        if words not in self.remarks:
            self.remarks.append(words)

    def read(self) -> None:
        """Convert indices, templates, data streams and corpora of the track; report invalid ones as not imported.

        Call it before the other methods; only `collections`, `corpora`, `templates`, `sets` and parameters are filled.
        """
        readers: tuple[tuple[str, str, Callable[[ImportedObject], None]], ...] = (
            ("indices", "index", self._index),
            *((kind, "template", self._template_of(kind)) for kind in TEMPLATES),
            ("data-streams", "data stream", self._data_stream),
            ("corpora", "corpus", self._corpus),
        )
        for kind in TEMPLATES:
            self.templates[kind] = {}
        for section, what, read in readers:
            for part in self.entries(self.part, section, what):
                try:
                    read(part)
                except BadInput as error:
                    self.refuse(f"{what} {part.data.get('name', '')}".rstrip(), error)

    def only_collection(self) -> str | None:
        """Return the only collection so far, which applies if none is named; None if there are several or none."""
        return next(iter(self.collections)) if len(self.collections) == 1 else None

    def collection(self, name: str) -> str:
        """Add a collection if the track does not declare it, and return its name.

        Its definition is that of the matching templates; if none matches, this is reported and the store's defaults
        apply.
        """
        if name not in self.collections:
            definition = shape(name, self.templates)
            if definition is None:
                self.leave_out(f"index {name}: a definition; no template matches, so it uses the store's defaults")
            self.collections[name] = {"elasticsearch": literal(definition)} if definition else {}
        return name

    def is_stream(self, name: str) -> bool:
        """Return whether a collection is a data stream."""
        return bool(self.collections.get(name, {}).get("elasticsearch", {}).get("data_stream"))

    def _data_stream(self, stream: ImportedObject) -> None:
        """Add the collection of a data stream; report a pattern as not imported."""
        name = stream.text("name")
        if "*" in name or "," in name:
            self.leave_out(f"data stream {name}: it is a pattern; writes create the matching streams")
            return
        definition = {"data_stream": True, **(shape(name, self.templates) or {})}
        definition.pop("aliases", None)
        self.collections[name] = {"elasticsearch": literal(definition)}

    def _template_of(self, kind: str) -> Callable[[ImportedObject], None]:
        """Return a function that stores a template's body by its name, in the section `kind` of `templates`."""

        def read(template: ImportedObject) -> None:
            """Store the body of a template by its name."""
            name, body = _template(template)
            self.templates[kind][name] = body

        return read

    def _index(self, index: ImportedObject) -> None:
        """Add the collection of an index; report keys that are not imported."""
        name = index.text("name")
        body = index.mapping("body")
        types = index.get("types", [])
        index.get("auto-managed")
        mappings = body.get("mappings")
        if isinstance(mappings, dict) and isinstance(types, list) and len(types) == 1 and types[0] in mappings:
            self.leave_out(f"index {name}: its mapping type {types[0]}, which current stores do not support")
            body = {**body, "mappings": mappings[types[0]]}
        definition = {key: body[key] for key in _DEFINITION if isinstance(body.get(key), dict)}
        for key in [key for key in body if key not in definition] + index.rest():
            self.leave_out(f"index {name}: {key}")
        self.collections[name] = {"elasticsearch": literal(definition)} if definition else {}

    def _corpus(self, corpus: ImportedObject) -> None:
        """Add the corpora of a track's corpus, one for each file; report invalid files and unknown keys."""
        name = corpus.text("name")
        whole = {key: corpus.get(key) for key in ("base-url", "target-index", "target-data-stream")}
        with_actions = corpus.flag("includes-action-and-meta-data", False)
        for documents in self.entries(corpus, "documents", f"documents of the corpus {name}"):
            try:
                self._documents(name, documents, whole, with_actions)
            except BadInput as error:
                self.refuse(f"documents of the corpus {name}", error)
        for key in corpus.rest(_NO_MATTER):
            self.leave_out(f"corpus {name}: {key}")

    def _documents(
        self, name: str, documents: ImportedObject, whole: Mapping[str, Any], with_actions: bool | None
    ) -> None:
        """Add a corpus for a file of documents, and its entry in `sets`. BadInput for contradictory index names.

        `name` is the corpus, `whole` its keys for all files, and `with_actions` its default for action lines. In test
        mode, at most 1,000 documents are used, from Rally's small file if it is known.
        """
        file = documents.text("source-file")
        lines = {"actions": True} if documents.flag("includes-action-and-meta-data", with_actions) else {}
        target = documents.get("target-index", documents.get("target-data-stream"))
        written = _first_index(self.folder / file) if lines else None
        target = target or whole["target-index"] or whole["target-data-stream"] or self.only_collection() or written
        if written is not None and written != target:
            what = f"its action lines write to the index {written}, not to {target}"
            raise documents.error("source-file", what, f"set target-index to {written}")
        count = documents.whole("document-count", 0) or None
        base = documents.get("base-url") or whole["base-url"]
        url = documents.get("source-url") or (f"{base.rstrip('/')}/{file}" if isinstance(base, str) else None)
        if self.test_mode and (count is None or count > SMALL):
            count = SMALL
            small = documents.data.get("source-format") not in _VECTORS
            if small and (isinstance(url, str) or (self.folder / _small(file)).is_file()):
                file, url = _small(file), None if url is None else _small(url)
        key = name_of(name, self.corpora)
        limit = {"documents": count} if count else {}
        self.corpora[key] = {**self._source(key, file, url), **limit, "at_most": "${documents}", **lines}
        self.sets.append(DocumentSet(key, name, target if isinstance(target, str) else None, count))
        for key in documents.rest(_NO_MATTER):
            self.leave_out(f"corpus {name}: {key}")

    def _source(self, key: str, file: str, url: str | None) -> dict[str, Any]:
        """Return the source keys of the corpus `key`: `url` and `file`, or `files`.

        `file` is the name in the track; `url` is its URL, or None. A URL that can be read directly gets an empty
        parameter for a local file. Other files are below the parameter `data`, which is added, unpacked; if they have a
        URL, also add a download instruction.
        """
        packed = next((end for end in _PACKED if file.endswith(end)), "")
        if url is not None and url.startswith(("https://", "http://")) and not packed:
            parameter = "file_" + re.sub(r"[^A-Za-z0-9_]", "_", key)
            parameter += f"_{len(self.parameters)}" if parameter in self.parameters else ""
            self.parameters[parameter] = ""
            return {"url": literal(url), "file": f"${{{parameter}}}"}
        source = file.removesuffix(packed)
        is_here = (self.folder / source).is_file()
        if is_here or "data" not in self.parameters:
            self.parameters["data"] = str(self.folder.resolve()) if is_here else "."
        if url is not None:
            self.downloads.append(f"Download {url}{f' and unpack it to {source}' if packed else ''}.")
        return {"files": ["${data}/" + literal(source)]}

    def file_of(self, documents: DocumentSet) -> str:
        """Return the path of a corpus's first file; for a URL, the placeholder of its file parameter.

        In that case, sets the default of the parameter to the URL.
        """
        source = self.corpora[documents.corpus]
        if "files" in source:
            return str(source["files"][0])
        parameter = str(source["file"])
        self.parameters[parameter[2:-1]] = source["url"]
        return parameter

    def file_parameter(self, name: str, path: str) -> str:
        """Return the placeholder of a parameter with a path as its default; add it, named after `name`, if needed."""
        stem = "file_" + re.sub(r"[^A-Za-z0-9_]", "_", name)
        taken = [key for key, value in self.parameters.items() if value != path]
        key = next(key for key in (stem, *(f"{stem}_{n}" for n in range(2, 10**6))) if key not in taken)
        self.parameters[key] = path
        return f"${{{key}}}"

    def is_path(self, parameter: str) -> bool:
        """Return whether the default of a parameter is a path: neither empty nor a URL. The file need not exist."""
        value = str(self.parameters[parameter])
        return bool(value) and not value.startswith(("https://", "http://"))

    def limited(self, wanted: int, count: int | None) -> dict[str, int]:
        """Return the `documents` key of a corpus limited to `wanted` documents (below 1: no limit); empty if unlimited.

        `count` is the declared number of documents, None if unknown. The smallest limit applies; in test mode also
        1,000.
        """
        limits = [
            limit for limit in (wanted if wanted > 0 else None, count, SMALL if self.test_mode else None) if limit
        ]
        return {"documents": min(limits)} if limits else {}

    def corpus(self, name: str, corpus: dict[str, Any]) -> str:
        """Add a corpus under a name derived from `name`, or reuse an identical one; return its name."""
        known = next((key for key, other in self.corpora.items() if other == corpus), None)
        key = name_of(name, self.corpora) if known is None else known
        self.corpora[key] = corpus
        return key

    def variable(self, name: str, variable: dict[str, Any]) -> str:
        """Add a variable under a name derived from `name`, or reuse an identical one; return its name."""
        stem = "_" + re.sub(r"[^A-Za-z0-9_]+", "_", name)[-60:].strip("_")
        stem = stem if stem[1:2].isdigit() else stem[1:] or "value"
        stem = f"{stem}_" if stem in (*self.parameters, "documents", "nodes") else stem
        number, key = 1, stem
        while self.variables.get(key, variable) != variable:
            number += 1
            key = f"{stem}_{number}"
        self.variables[key] = variable
        return key

    def share(self, documents: DocumentSet, percent: float) -> str:
        """Return the name of a corpus with the first `percent` (above 0 to 100) of some documents; add it if it is new.

        It has at least one document. The number of `documents` must be known.
        """
        key = (documents.corpus, percent)
        if key not in self.shares:
            self.shares[key] = name_of(f"{documents.corpus}-{percent:.15g}-percent", self.corpora)
            limit = max(1, round((documents.documents or 0) * percent / 100))
            self.corpora[self.shares[key]] = self.corpora[documents.corpus] | {"documents": limit}
        return self.shares[key]

    def documents(self, names: list[str], targets: list[str]) -> Iterator[DocumentSet]:
        """Yield the document files of the corpora `names` with an index in `targets`; an empty list means all."""
        for documents in self.sets:
            if (not names or documents.of in names) and (not targets or documents.target in targets):
                yield documents


def _nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word most similar to a likely typo, or None without one."""
    return next(iter(get_close_matches(word, sorted(known), n=1, cutoff=_SLIP)), None)


def documents_of(corpora: Mapping[str, Mapping[str, Any]]) -> int:
    """Return the largest key `documents` of the corpora; ALL (10^12) if one lacks it, or without corpora."""
    return max((corpus.get("documents", ALL) for corpus in corpora.values()), default=ALL)


def _first_index(path: Path) -> str | None:
    """Return the index in the first action line of a file; None if it is compressed, missing or names no index."""
    if path.name.endswith(_COMPRESSED) or not path.is_file():
        return None
    with path.open("rb") as file:
        line = next((line for line in iter(lambda: file.readline(_LONGEST_ACTION), b"") if line.strip()), b"")
    try:
        (meta,) = json.loads(line).values()
        index = meta.get("_index")
    except (ValueError, AttributeError, RecursionError):
        return None
    return index if isinstance(index, str) else None


def _small(file: str) -> str:
    """Return the name of a file for Rally's test mode, such as `documents-1k.json.bz2` for `documents.json.bz2`."""
    stem, _, packed = file.rpartition(".") if file.endswith(_COMPRESSED) else (file, "", "")
    before, dot, ending = stem.rpartition(".")
    name = f"{before}-1k{dot}{ending}" if dot and "/" not in ending else f"{stem}-1k"
    return f"{name}.{packed}" if packed else name


def _template(template: ImportedObject) -> tuple[str, dict[str, Any]]:
    """Return the name and body of a template; `template-path` selects one key of the body, if it has it."""
    body = template.mapping("template")
    inner = template.get("template-path")
    if isinstance(inner, str) and isinstance(body.get(inner), dict):
        body = body[inner]
    return template.text("name"), body


Form = dict[str, Any]


@dataclass
class TrackConversion:
    """State of converting a track's operations to forms, in the order of its schedule."""

    track: Track
    #: Names of created objects, by kind: `index`, `data stream`, a template section or a path.
    made: dict[str, set[str]] = field(default_factory=dict)
    #: Number of requests of operations that end, by name.
    ends: dict[str, int] = field(default_factory=dict)
    #: Parts of an operation that are not imported, by the operation's name.
    dropped: dict[str, list[str]] = field(default_factory=dict)

    def note(self, kind: str, name: str) -> None:
        """Record that an operation creates the object `name`, so that later operations on it are imported.

        `kind` is `index`, `data stream`, a section of templates, or a path such as `/_snapshot`.
        """
        self.made.setdefault(kind, set()).add(name)

    def has_made(self, kind: str, name: str) -> bool:
        """Return whether an earlier operation creates the object `name` of a kind, such as `index`; see `note`."""
        return name in self.made.get(kind, ())

    def leave_out(self, name: str, what: str) -> None:
        """Record a part (`what`) of the operation `name` that is not imported, and report it."""
        self.drop(name, what)
        self.track.leave_out(f"operation {name}: {what}")

    def drop(self, name: str, what: str) -> None:
        """Record a part (`what`) of the operation `name` that is not imported, without reporting it."""
        dropped = self.dropped.setdefault(name, [])
        if what not in dropped:
            dropped.append(what)

    def target(self, part: ImportedObject) -> str:
        """Return the index of an operation as in a path; default: the only collection, or `_all`.

        It is under `index`, else `data-stream`, else `indices`. Several are joined by commas. BadInput for other
        values.
        """
        target = part.get("index", part.get("data-stream", part.get("indices")))
        if isinstance(target, list) and all(isinstance(entry, str) for entry in target):
            target = ",".join(target)
        if isinstance(target, Hole):
            return target
        if target is not None and (not isinstance(target, str) or "/" in target):
            raise part.error("index", "expected an index name")
        return target or self.track.only_collection() or "_all"

    def is_collection(self, target: str) -> bool:
        """Return whether a form can use a target as its collection.

        It is a variable, a declared collection, or an index that an earlier operation creates; not several joined by
        commas.
        """
        return isinstance(target, Hole) or target in self.track.collections or self.has_made("index", target)

    def parameters(self, part: ImportedObject) -> dict[str, Any]:
        """Return an operation's query parameters (`request-params`), lists joined by commas, and `${` escaped.

        BadInput for a mapping as a value.
        """
        parameters = {}
        for key, value in part.mapping("request-params").items():
            if isinstance(value, dict):
                raise part.error("request-params", f"expected a scalar or a list for {key}")
            parameters[key] = literal(",".join(map(str, value)) if isinstance(value, list) else value)
        return parameters

    def request(self, part: ImportedObject, method: str, path: str, body: Any = None) -> list[Form]:
        """Return a plain request as a list of one form, with the operation's query parameters."""
        request: dict[str, Any] = {"method": method, "path": literal(path)}
        if body is not None:
            request["body"] = literal(body)
        if parameters := self.parameters(part):
            request["parameters"] = parameters
        return [{"request": request}]

    def on_collection(self, part: ImportedObject, kind: str, path: str, **more: Any) -> list[Form]:
        """Return a form of `kind` with the keys `more`, as a list of one.

        For a target that is not a collection, or with query parameters, it is a plain POST request to TARGET/`path`,
        without `more`.
        """
        target = self.target(part)
        if self.is_collection(target) and not part.data.get("request-params"):
            return [{kind: {"collection": target, **more}}]
        return self.request(part, "POST", f"/{target}/{path}")
