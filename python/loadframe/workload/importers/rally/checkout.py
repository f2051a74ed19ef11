"""Finds a track's file, and the checkout around it: the folder whose files its templates may read."""

from pathlib import Path

from loadframe.errors import BadInput

#: The files that a track or workload begins with.
TRACKS = ("track.json", "workload.json")
REMEDY = "say --root with the folder that holds all its files"
#: The folder that tracks of a checkout share.
_SHARED = "common_operations"
#: How many folders around a track may have what tracks share.
_NEAR = 3


def track_file(path: Path) -> Path:
    """Return the file of a track, which is given by its folder or by itself; BadInput if it does not exist."""
    if not path.exists():
        raise BadInput("there is no such track", where=str(path), remedy="check the path")
    if not path.is_dir():
        return path
    for name in TRACKS:
        if (path / name).is_file():
            return path / name
    raise BadInput("it has neither a track.json nor a workload.json", where=str(path), remedy="check it")


def root_of(file: Path, root: Path | None = None) -> Path:
    """Return the folder that a track's templates may read: `root`, or the checkout around the track's file.

    That is the nearest folder around it with a `.git`, or else the nearest that has `common_operations`, or else the
    next one if it has several tracks, but never the user's home or what is around it; otherwise the track's own folder.
    BadInput for a `root` that does not hold the track.
    """
    folder = file.parent.resolve()
    if root is not None:
        if not root.is_dir() or not folder.is_relative_to(root.resolve()):
            what = f"it is not a folder that holds {folder}"
            raise BadInput(what, where=f"--root {root}", remedy="name a folder around the track")
        return root.resolve()
    around = [folder, *_below_home(folder)]
    for outer in around:
        if (outer / ".git").exists():
            return outer
    for outer in around[1 : 1 + _NEAR]:
        if (outer / _SHARED).is_dir():
            return outer
    beside = around[1:2]
    return beside[0] if beside and _holds_several(beside[0]) else folder


def _below_home(folder: Path) -> list[Path]:
    home = Path.home().resolve()
    outside = {home, *home.parents, Path(folder.anchor)}
    return [outer for outer in folder.parents if outer not in outside]


def _holds_several(folder: Path) -> bool:
    try:
        tracks = [inner for inner in folder.iterdir() if any((inner / name).is_file() for name in TRACKS)]
    except OSError:
        return False
    return len(tracks) > 1
