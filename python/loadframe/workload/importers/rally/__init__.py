"""Importer for tracks of Rally and workloads of OpenSearch Benchmark, which share a format.

Steps: render the templates (`template`, in the process of `isolated`); read indices and corpora (`track`); convert
operations to forms (`operations`) and a challenge's schedule to phases (`schedule`). Code of a track runs only if
allowed (`sources`, `code`); otherwise the import lists the parts that need it as not imported.
"""

from collections.abc import Mapping, Set
from pathlib import Path
from typing import Any

from loadframe.base.errors import BadInput
from loadframe.workload.holes import names
from loadframe.workload.importers.imported import Imported, literal, name_of
from loadframe.workload.importers.rally import isolated, operations, template
from loadframe.workload.importers.rally.schedule import Schedule, choose
from loadframe.workload.importers.rally.sources import LISTED, Sources, required_sources
from loadframe.workload.importers.rally.track import Track, documents_of
from loadframe.workload.importers.source import ImportedObject, json_of, text_of
from loadframe.yamlfile import scalar

#: Keys of a track that are imported, and keys without effect on the load.
_SECTIONS = ("indices", "data-streams", "corpora", "operations", "challenges", "challenge", "schedule", "parameters")
_NO_MATTER = (
    "version",
    "description",
    "short-description",
    "meta",
    "test_procedures",
    "test_procedure",
    "$schema",
    "dependencies",
)


def import_rally(
    path: Path,
    challenge: str | None,
    parameters: Mapping[str, str],
    *,
    values: Mapping[str, Any] | None = None,
    root: Path | None = None,
    test_mode: bool = False,
    allow_code: bool = False,
    limits: isolated.Limits = isolated.DEFAULT,
    requests: str | None = None,
) -> Imported:
    """Return the workload of a challenge, by default the default challenge, of a track, given by its file or folder.

    `parameters` are texts from the command line and take precedence over `values` (JSON). Templates may read files
    below `root`, by default the checkout of the track. `test_mode` shrinks corpora and tasks, like Rally's.

    `allow_code` runs the track's Python code in a separate process, within `limits`. Requests that it generates go to
    files in the folder `requests` next to the workload file, if they are many.

    BadInput, with its place, for other formats, failing code, and unknown parameters and challenges.
    """
    settings = dict(values or {})
    for name, text in parameters.items():
        try:
            settings[name] = scalar(text)
        except ValueError as error:
            raise BadInput(str(error), where=f"--set {name}", remedy="set another value") from None
    file = template.track_file(path)
    around = template.root_of(file, root)
    part = ImportedObject(isolated.expand(file, around, settings, limits), str(path))
    folder = file.parent
    track = Track(part, folder, lambda: isolated.locate(file, around, settings, limits), test_mode)
    track.read()
    chosen = choose(part, challenge)
    sources = Sources(track, limits, requests)
    schedule = Schedule(track, sources)
    most = LISTED if requests is None else limits.draws
    sources.read(folder, required_sources(chosen, schedule.declared, most, operations.is_known), allowed=allow_code)
    schedule.read(chosen)
    for key in part.rest((*_SECTIONS, *_NO_MATTER)):
        track.leave_out(f"{key} of the track")
    description = part.get("description")
    if not isinstance(description, str) or not description:
        description = "A track"
    name = folder.resolve().name if path.is_dir() or path.stem in ("track", "workload") else path.stem
    used = {form["bulk"]["corpus"] for form in schedule.operations.values() if "bulk" in form}
    drawn = {form["document"]["corpus"] for form in track.variables.values() if "document" in form}
    rows = {key: corpus for key, corpus in track.corpora.items() if key in drawn}
    corpora = {key: corpus for key, corpus in track.corpora.items() if key in used}
    used_names = set(names(corpora | rows))
    documents = {"documents": documents_of(corpora)} if corpora else {}
    files = {name: value for name, value in track.parameters.items() if name in used_names}
    data = {
        "workload": name_of(name),
        "description": literal(f"{description} ({chosen.text('name', 'default')})"),
        "parameters": {**documents, **files},
        "collections": track.collections,
        "corpora": corpora | rows,
        "variables": track.variables,
        "operations": schedule.operations,
        "phases": schedule.phases,
    }
    remarks = [
        f"Challenge: {chosen.text('name', 'default')}.",
        *([_TEST_MODE] if test_mode else []),
        *([_DOCUMENTS] if corpora else []),
        *_about_data(track, files.keys()),
        *track.remarks,
    ]
    if sources.ran:
        remarks.append(f"The import ran code of the track: {' and '.join(sources.ran)}. Its output is stored as data.")

    def place(section: str, name: str) -> str | None:
        """Return `file:line` of an operation in the track, or None for other sections and unknown operations."""
        where = schedule.origins.get(name) if section == "operations" else None
        return None if where is None else track.place(where)

    return Imported(data, tuple(remarks), tuple(track.left_out), str(path), place, sources.files)


def parameters_of(file: Path) -> dict[str, Any]:
    """Read track parameters from a JSON file; BadInput if it cannot be read or is not a JSON object."""
    parameters = json_of(text_of(file), str(file))
    if not isinstance(parameters, dict):
        raise BadInput("expected an object of parameters", where=str(file), remedy='write {"name": value, ...}')
    return parameters


_DOCUMENTS = "The parameter `documents` limits the documents per corpus: use --set documents=1000 for a small run."
_TEST_MODE = (
    "Imported in test mode: the first documents of each corpus, one request per client, no warm-up, and at most 10 s. "
    "Do not use the results to judge performance."
)


def _about_data(track: Track, parameters: Set[str]) -> list[str]:
    """Return remarks on the documents of a track: how to set their files, and how to get them.

    `parameters` are the names of parameters that corpora use.
    """
    remarks = []
    here = [name for name in parameters - {"data"} if track.is_path(name)]
    fetched = ", ".join(f"`{name}`" for name in sorted(parameters - {"data", *here}))
    if fetched:
        remarks.append(
            f"Documents with a URL are downloaded once. To use local files instead, set {fetched} to their paths."
        )
    if here:
        names_here = ", ".join(f"`{name}`" for name in sorted(here))
        remarks.append(f"Vectors are read from local files. Their paths are the parameters {names_here}.")
    if "data" in parameters:
        default = "this file's folder" if track.parameters["data"] == "." else "the track's folder"
        where = f"The parameter `data` is the folder of the documents (default: {default})."
        remarks += [where, *dict.fromkeys(track.downloads)]
    return remarks
