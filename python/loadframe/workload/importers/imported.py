"""The result of an import: a workload's data, the omissions, and both as the text of a workload file."""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import wrap
from typing import Any

import yaml

from loadframe.base.errors import BadInput
from loadframe.workload.workload import load_workload
from loadframe.yamlfile import scalar

_WIDTH = 118
_ONE_LINE = 100
_MAPPING = "tag:yaml.org,2002:map"


@dataclass(frozen=True)
class Imported:
    """A workload converted from another format."""

    #: Sections of the workload file.
    data: dict[str, Any]
    #: Paragraphs for the head of the file.
    remarks: tuple[str, ...]
    #: Parts that could not be imported: name and reason.
    left_out: tuple[str, ...]
    #: The imported file.
    source: str
    #: Returns the origin (file and line) of an entry, by section and name, for messages.
    place: Callable[[str, str], str | None] = lambda _section, _name: None
    #: Lines of additional files, by path relative to the workload file.
    files: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def text(self) -> str:
        """Return the text of the workload file without invalid entries; BadInput as in `valid`."""
        return self.valid()[0]

    def valid(self) -> tuple[str, "Imported"]:
        """Return the text of a valid workload file, and the import without invalid entries.

        Removes each entry that fails validation, with the phases that use it, and adds it to `left_out`. BadInput if no
        phase is left, or if the error is not about a removable entry. The file is checked in a temporary folder.
        """
        imported = self
        with TemporaryDirectory(prefix="loadframe-import-") as folder:
            path = Path(folder) / "imported.yaml"
            while True:
                text = imported._written()
                path.write_text(text, encoding="utf-8")
                try:
                    load_workload(str(path))
                except BadInput as error:
                    imported = imported._without(error, text, path)
                else:
                    return text, imported

    def write(self, output: Path, option: str = "--output") -> tuple[str, "Imported", list[Path]]:
        """Write the workload file to `output`, without invalid entries, and next to it the files that belong to it.

        Returns the workload's text, the import without invalid entries, and the paths of the other files. Creates the
        parent folder of these other files, but not that of `output`. BadInput, which names `option`, for a file that
        exists or cannot be written; BadInput for a name without .yaml or .yml, and as in `valid`.
        """
        text, imported = self.valid()
        files = [output.parent / name for name in imported.files]
        if output.suffix not in (".yaml", ".yml"):
            raise BadInput(f"{output} is not a workload file", remedy="choose a name that ends with .yaml")
        for path in files:
            refuse_existing(path, option)
        _write_new(output, text, option)
        for path, lines in zip(files, imported.files.values(), strict=True):
            if path.parent != output.parent:
                path.parent.mkdir(exist_ok=True)
            _write_new(path, "".join(f"{line}\n" for line in lines), option)
        return text, imported, files

    def _without(self, error: BadInput, text: str, path: Path) -> "Imported":
        """Return the import without the entry that contains the line of `error`; the entry is added to `left_out`.

        Operations, variables, corpora and phases can be removed. BadInput for an error elsewhere, and if no phase is
        left. `text` is the workload file that was validated at `path`.
        """
        what = error.what.replace(f"{path}:", "line ")
        refused = BadInput(f"the imported workload is invalid: {what}", where=self.source, remedy=error.remedy)
        line = re.fullmatch(rf"{re.escape(str(path))}:([0-9]+).*", str(error.where))
        section, name = _entry_at(text, int(line[1])) if line else ("", "")
        if section not in _REMOVABLE or name not in _names(self.data.get(section)):
            raise refused from None
        place = self.place(section, name)
        reason = f"{_REMOVABLE[section]} {name}: {what}" + (f" ({place})" if place else "")
        data = _removed(self.data, section, name)
        if not data["phases"]:
            raise BadInput(refused.what, where=place or self.source, remedy=error.remedy) from None
        return replace(self, data=data, left_out=(*self.left_out, reason))

    def _written(self) -> str:
        """Return the text of the workload file, valid or not: the head, and the sections that are not empty."""
        return "\n".join([self._head(), *(_section(key, value) for key, value in self.data.items() if value)])

    def _head(self) -> str:
        """Return the comment at the head of the file: source, remarks and omissions."""
        paragraphs = [f"Imported from {self.source}.", *self.remarks]
        if self.left_out:
            paragraphs.append("Not imported:")
        lines = [line for paragraph in paragraphs for line in ("", *_wrapped(paragraph, ""))][1:]
        lines += [line for entry in self.left_out for line in _wrapped(entry, "  - ")]
        return "".join(f"# {line}".rstrip() + "\n" for line in lines)


def refuse_existing(path: Path, option: str = "--output") -> None:
    """Refuse to overwrite a file, or to write through a link, even one that leads nowhere. BadInput names `option`."""
    if path.exists() or path.is_symlink():
        raise BadInput("it exists already", where=str(path), remedy=f"name another file with {option}")


def _write_new(file: Path, text: str, option: str) -> None:
    """Write a new file. BadInput, which names `option`, if it exists or cannot be written."""
    try:
        with file.open("x", encoding="utf-8") as opened:
            opened.write(text)
    except FileExistsError:
        refuse_existing(file, option)
        raise
    except OSError as error:
        problem = f"the file cannot be written: {error.strerror}"
        raise BadInput(problem, where=str(file), remedy=f"name another workload file with {option}") from None


#: Sections with removable entries, and the word for an entry.
_REMOVABLE = {"operations": "operation", "variables": "variable", "corpora": "corpus", "phases": "phase"}


def _entry_at(text: str, number: int) -> tuple[str, str]:
    """Return section and name of the entry that contains a line of a generated workload file; empty texts without one.

    `number` is the number of the line, from 1.
    """
    lines = text.splitlines()[:number]
    section = next((line.partition(":")[0] for line in reversed(lines) if re.match(r"[a-z_]+:", line)), "")
    begins = re.compile(r"- \{?name: (\S+?)[,}]?(?: |$)" if section == "phases" else r"  (\S+?):(?: |$)")
    name = next((match[1] for line in reversed(lines) if (match := begins.match(line))), "")
    return section, name.strip("\"'")


def _names(section: Any) -> list[str]:
    """Return the names of a section's entries; the section may be a list, a mapping or None."""
    return [entry["name"] for entry in section] if isinstance(section, list) else list(section or ())


def _removed(data: dict[str, Any], section: str, name: str) -> dict[str, Any]:
    """Return a copy of a workload's data without an entry; with an operation, also without its streams and phases.

    `section` must have the entry.
    """
    if section == "phases":
        return {**data, "phases": [phase for phase in data["phases"] if phase["name"] != name]}
    entries = {key: value for key, value in data[section].items() if key != name}
    data = {**data, section: entries}
    if section == "operations":
        data["phases"] = [kept for phase in data["phases"] if (kept := without_operation(phase, name)) is not None]
    return data


def without_operation(load: dict[str, Any], operation: str) -> dict[str, Any] | None:
    """Return a copy of a phase or stream (keys of the file) without an operation, or None if nothing is left.

    Also removes it from the phase's streams and from mixes, whose other weights stay. A phase that lacks it is returned
    unchanged. Journeys are not searched.
    """
    if "streams" in load:
        streams = [kept for stream in load["streams"] if (kept := without_operation(stream, operation)) is not None]
        return {**load, "streams": streams} if streams else None
    if load.get("operation") == operation:
        return None
    if operation in load.get("mix", ()):
        mix = {key: weight for key, weight in load["mix"].items() if key != operation}
        return {**load, "mix": mix} if mix else None
    return load


class Hole(str):
    """A single placeholder `${variable}`, inserted by an importer."""


def literal(data: Any) -> Any:
    """Return a copy of data in which `${` is escaped in all texts, also in keys, except in a `Hole`."""
    if isinstance(data, Hole):
        return data
    if isinstance(data, str):
        return data.replace("${", "$${")
    if isinstance(data, dict):
        return {literal(key): literal(value) for key, value in data.items()}
    return [literal(value) for value in data] if isinstance(data, list) else data


def name_of(text: str, taken: Iterable[str] = ()) -> str:
    """Return a valid name derived from a text, with `-2`, `-3`, ... appended if it is in `taken`.

    Each run of other characters than ASCII letters, digits, `_`, `.` and `-` becomes one `_`, and `-` and `.` at the
    beginning are removed. At most 70 characters are kept. If none is left, the name is `unnamed`.
    """
    name = re.sub(r"[^A-Za-z0-9_.-]+", "_", text).lstrip("-.")[:70] or "unnamed"
    known = set(taken)
    return name if name not in known else next(n for i in _FROM_2 if (n := f"{name}-{i}") not in known)


_FROM_2 = range(2, 1_000_000)


def _wrapped(text: str, bullet: str) -> list[str]:
    """Return the lines of a paragraph, of at most 118 characters: the first after `bullet`, the others indented."""
    printable = "".join(c if c.isprintable() else " " for c in text)
    return wrap(printable, _WIDTH, initial_indent=bullet, subsequent_indent=" " * len(bullet)) or [""]


class _Block(dict[str, Any]):
    """A mapping to write in block style, one key per line."""


class _Flow(dict[str, Any]):
    """A mapping to write in flow style, in braces."""


class _Dumper(yaml.CSafeDumper):
    """Writes YAML that reads back unchanged: quotes texts that look like other types, and uses no aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        """Return True: YAML aliases are never written."""
        return True


def _text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    """Return the YAML node of a text, in quotes if it would be read as another type without them."""
    # str(): the C writer does not accept a subclass of str such as Hole.
    return dumper.represent_scalar("tag:yaml.org,2002:str", str(text), style=None if _plain(str(text)) else '"')


@lru_cache(maxsize=8192)
def _plain(text: str) -> bool:
    """Return whether a text reads back as a text without quotes."""
    try:
        return isinstance(scalar(text), str)
    except ValueError:
        return False


_represent: Callable[..., None] = _Dumper.add_representer
_represent(str, _text)
_represent(Hole, _text)
for _kind, _flow in ((_Block, False), (_Flow, True)):
    _represent(_kind, lambda dumper, data, flow=_flow: dumper.represent_mapping(_MAPPING, data, flow_style=flow))


def _section(key: str, value: Any) -> str:
    """Return the section `key` of the workload file as YAML; each entry begins a line (see `_styled`)."""
    entries = {name: _styled(entry) for name, entry in value.items()} if isinstance(value, dict) else _styled(value)
    section = _Block({key: _Block(entries) if isinstance(value, dict) else entries})
    return yaml.dump(
        section, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=_WIDTH, default_flow_style=None
    )


def _styled(value: Any) -> Any:
    """Return data with mappings in flow style (braces) if their JSON has up to 100 characters, else in block style."""
    if isinstance(value, list):
        return [_styled(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    fits = len(json.dumps(value, ensure_ascii=False)) <= _ONE_LINE
    return _Flow(value) if fits else _Block({key: _styled(entry) for key, entry in value.items()})
