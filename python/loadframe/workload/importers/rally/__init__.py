"""Rally's tracks and OpenSearch Benchmark's workloads, which are the same under other names.

A track is rendered (`template`, within the bounds of `isolated`), its indices and corpora are read (`track`), its
operations become forms (`operations`) and the schedule of one of its challenges becomes phases (`schedule`). The code
of a track, track.py, is run only if that is allowed (`sources`, `code`): what it would make is left out by name.
"""

from collections.abc import Mapping, Set
from pathlib import Path

from loadframe.errors import BadInput
from loadframe.workload.holes import names
from loadframe.workload.importers.imported import Imported, literal, name_of
from loadframe.workload.importers.rally import isolated
from loadframe.workload.importers.rally.schedule import Schedule, choose
from loadframe.workload.importers.rally.sources import Sources, wanted
from loadframe.workload.importers.rally.track import Track
from loadframe.workload.importers.source import Part
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
    path: Path, challenge: str | None, parameters: Mapping[str, str], *, allow_code: bool = False
) -> Imported:
    """Make a workload of a track's file or folder, with one of its challenges and some of its parameters set.

    `allow_code` lets its Python code run, in a process of its own. BadInput, with the place, for a track that is none,
    for code that fails, and for parameters and challenges that it does not have.
    """
    values = {}
    for name, text in parameters.items():
        try:
            values[name] = scalar(text)
        except ValueError as error:
            raise BadInput(str(error), where=f"--set {name}", remedy="give another value") from None
    if not path.exists():
        raise BadInput("there is no such track", where=str(path), remedy="check the path")
    part = Part(isolated.expand(path, values), str(path))
    track = Track(part)
    folder = path if path.is_dir() else path.parent
    track.read()
    chosen = choose(part, challenge)
    sources = Sources(track)
    schedule = Schedule(track, sources)
    sources.read(folder, wanted(chosen, schedule.declared), allowed=allow_code)
    schedule.read(chosen)
    for key in part.rest((*_SECTIONS, *_NO_MATTER)):
        track.leave_out(f"{key} of the track")
    description = part.get("description")
    if not isinstance(description, str) or not description:
        description = "A track"
    name = folder.resolve().name if path.is_dir() or path.stem in ("track", "workload") else path.stem
    used = {form["bulk"]["corpus"] for form in schedule.operations.values() if "bulk" in form}
    corpora = {key: corpus for key, corpus in track.corpora.items() if key in used}
    parameters = {name: track.parameters[name] for name in names(corpora) if name in track.parameters}
    data = {
        "workload": name_of(name),
        "description": literal(f"{description} ({chosen.text('name', 'default')})"),
        "parameters": parameters,
        "collections": track.collections,
        "corpora": corpora,
        "variables": track.variables,
        "operations": schedule.operations,
        "phases": schedule.phases,
    }
    remarks = [
        f"The challenge is {chosen.text('name', 'default')}.",
        *_about_data(track, parameters.keys()),
        *track.remarks,
    ]
    if sources.ran:
        remarks.append(f"Code of the track was run: {' and '.join(sources.ran)}. What it made stands here as data.")
    return Imported(data, tuple(remarks), tuple(track.left_out), str(path))


def _about_data(track: Track, parameters: Set[str]) -> list[str]:
    remarks = []
    if parameters - {"data"}:
        files = ", ".join(f"`{name}`" for name in parameters if name != "data")
        remarks.append(
            f"Documents with a web address are fetched once; {files} can name a file of this machine instead."
        )
    if "data" in parameters:
        where = "The parameter `data` is the folder that holds the documents; without --set it is this file's folder."
        remarks += [where, *dict.fromkeys(track.downloads)]
    return remarks
