"""Rally's tracks and OpenSearch Benchmark's workloads, which are the same under other names.

A track is rendered (`template`, within the bounds of `isolated`), its indices and corpora are read (`track`), its
operations become forms (`operations`) and the schedule of one of its challenges becomes phases (`schedule`). The code
of a track, track.py, is run only if that is allowed (`sources`, `code`): what it would make is left out by name.
"""

from collections.abc import Mapping, Set
from pathlib import Path
from typing import Any

from loadframe.base.errors import BadInput
from loadframe.workload.holes import names
from loadframe.workload.importers.imported import Imported, literal, name_of
from loadframe.workload.importers.rally import isolated, operations, template
from loadframe.workload.importers.rally.schedule import Schedule, choose
from loadframe.workload.importers.rally.sources import LISTED, Sources, wanted
from loadframe.workload.importers.rally.track import Track, documents_of
from loadframe.workload.importers.source import Part, json_of, text_of
from loadframe.yamlfile import scalar

#: A track's keys that this package reads, and those that say nothing of the load.
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
    """Make a workload of a track's file or folder, with one of its challenges and some of its parameters set.

    `parameters` are written as on a command line, and go before `values`, which are JSON.
    Its templates may read the files of `root`, by default the checkout that the track is in. `test_mode` makes
    everything small, as Rally's does. `allow_code` lets its Python code run, in a process of its own, within `limits`;
    the requests that it makes go into files of the folder `requests`, beside the workload file, if there are many.
    BadInput, with the place, for what is not a track, for code that fails, and for parameters and challenges that it
    does not have.
    """
    told = dict(values or {})
    for name, text in parameters.items():
        try:
            told[name] = scalar(text)
        except ValueError as error:
            raise BadInput(str(error), where=f"--set {name}", remedy="give another value") from None
    file = template.track_file(path)
    around = template.root_of(file, root)
    part = Part(isolated.expand(file, around, told, limits), str(path))
    folder = file.parent
    track = Track(part, folder, lambda: isolated.locate(file, around, told, limits), test_mode)
    track.read()
    chosen = choose(part, challenge)
    sources = Sources(track, limits, requests)
    schedule = Schedule(track, sources)
    most = LISTED if requests is None else limits.draws
    sources.read(folder, wanted(chosen, schedule.declared, most, operations.is_known), allowed=allow_code)
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
    asked = set(names(corpora | rows))
    documents = {"documents": documents_of(corpora)} if corpora else {}
    files = {name: value for name, value in track.parameters.items() if name in asked}
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
        f"The challenge is {chosen.text('name', 'default')}.",
        *([_TEST_MODE] if test_mode else []),
        *([_DOCUMENTS] if corpora else []),
        *_about_data(track, files.keys()),
        *track.remarks,
    ]
    if sources.ran:
        remarks.append(f"Code of the track was run: {' and '.join(sources.ran)}. What it made stands here as data.")

    def place(section: str, name: str) -> str | None:
        where = schedule.origins.get(name) if section == "operations" else None
        return None if where is None else track.place(where)

    return Imported(data, tuple(remarks), tuple(track.left_out), str(path), place, sources.files)


def parameters_of(file: Path) -> dict[str, Any]:
    """Return the parameters of a track that a JSON file gives; BadInput, with the line, for anything else."""
    parameters = json_of(text_of(file), str(file))
    if not isinstance(parameters, dict):
        raise BadInput("expected an object of parameters", where=str(file), remedy='write {"name": value, ...}')
    return parameters


_DOCUMENTS = "The parameter `documents` is the most documents of each corpus: --set documents=1000 makes a small run."
_TEST_MODE = (
    "It was imported in test mode: the first documents of each corpus, one request of each client, no warm-up, and "
    "10 s at most. Its figures say nothing of the store's performance."
)


def _about_data(track: Track, parameters: Set[str]) -> list[str]:
    remarks = []
    here = [name for name in parameters - {"data"} if track.is_path(name)]
    fetched = ", ".join(f"`{name}`" for name in sorted(parameters - {"data", *here}))
    if fetched:
        remarks.append(
            f"Documents with a web address are fetched once; {fetched} can name a file of this machine instead."
        )
    if here:
        names_here = ", ".join(f"`{name}`" for name in sorted(here))
        remarks.append(f"Vectors are read from files of this machine, whose paths are the parameters {names_here}.")
    if "data" in parameters:
        default = "this file's folder" if track.parameters["data"] == "." else "the track's folder"
        where = f"The parameter `data` is the folder that holds the documents; without --set it is {default}."
        remarks += [where, *dict.fromkeys(track.downloads)]
    return remarks
