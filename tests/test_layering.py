"""Import directions between layers: each layer imports only lower layers, also inside functions.

Python is checked by its import statements, Rust by the crate manifests and the paths in the engine's source.
"""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "python" / "loadframe"

#: Layers that every layer may import.
COMMON = {"base", "loadframe"}
MAY_IMPORT: dict[str, set[str]] = {
    "base": {"loadframe"},
    "yamlfile": {"base"},
    # Ranks that only load import nothing else, so that many of them start quickly.
    "ranks": COMMON | {"_engine"},
    # The engine authenticates administrative requests in the same way as requests of the load.
    "store": COMMON | {"_engine"},
    # The ranks of a command may be the machines of its nodes.
    "host": COMMON | {"ranks"},
    # The file format belongs to this layer, and the engine checks the workload's requests.
    "workload": COMMON | {"yamlfile"},
    # A run folder's histograms are read by the engine.
    "record": COMMON | {"_engine"},
    # The engine's TLS library creates the certificates.
    "cluster": COMMON | {"store", "host", "_engine"},
    "observe": COMMON | {"store", "record"},
    "load": COMMON | {"ranks", "workload", "record", "_engine"},
    "analyze": COMMON | {"record"},
    # Has neither nodes nor clocks, only the performance model of the store.
    "simulate": COMMON | {"store", "analyze", "record"},
    "report": COMMON | {"analyze", "record"},
    "experiment": COMMON | {"yamlfile", "load", "observe", "cluster", "analyze", "simulate", "workload", "record"},
    # Metrics have the buckets of the engine's histograms. Documents of stores are explored.
    "live": COMMON | {"load", "record", "experiment", "store", "_engine"},
}
#: The public interface: imports everything but the command line, which is a layer over it.
MAY_IMPORT["library"] = set(MAY_IMPORT)
#: The top: imports everything, and nothing imports it.
TOP = "cli"

MODULES = sorted(PACKAGE.rglob("*.py"))


def part_of(module: Path) -> str:
    """Return the part that a module belongs to: its package below loadframe, or itself."""
    return module.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_parts(module: Path) -> Iterator[tuple[int, str]]:
    """Yield line and part for each import of the house, wherever in the module it stands."""
    package = ["loadframe", *module.relative_to(PACKAGE).parts[:-1]]
    for node in ast.walk(ast.parse(module.read_text(), str(module))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) + 1 - node.level] if node.level else []
            origin = ".".join([*base, *filter(None, [node.module])])
            # `from loadframe import record` imports the same layer as `from loadframe.record import Run`.
            names = [f"{origin}.{alias.name}" for alias in node.names] if origin == "loadframe" else [origin]
        elif isinstance(node, ast.Call) and re.search(r"\b(import_module|__import__)$", ast.unparse(node.func)):
            names = [arg.value for arg in node.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
        else:
            continue
        for name in names:
            match name.split("."):
                case ["loadframe", part, *_] if (PACKAGE / part).exists() or list(PACKAGE.glob(f"{part}.*")):
                    yield node.lineno, part
                case ["loadframe", *_]:
                    yield node.lineno, "loadframe"


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_modules_import_only_lower_layers(module):
    part = part_of(module)
    if part in {TOP, "__init__"}:
        return
    assert part in MAY_IMPORT, f"{part} is a new layer: add its permitted imports here"
    wrong = [
        f"{module}:{line}: {part} imports {other}"
        for line, other in imported_parts(module)
        if other != part and other not in MAY_IMPORT[part]
    ]
    assert not wrong


def test_the_package_itself_imports_only_the_public_interface_and_only_for_type_checking():
    module = PACKAGE / "__init__.py"
    assert {part for _, part in imported_parts(module)} == {"base", "library"}
    tree = ast.parse(module.read_text())
    (guarded,) = [node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    lines = range(guarded.lineno, (guarded.end_lineno or 0) + 1)
    assert all(line in lines for line, _ in imported_parts(module))


def test_the_import_directions_are_acyclic():
    order: list[str] = []
    rest = {part: others & MAY_IMPORT.keys() for part, others in MAY_IMPORT.items()}
    while rest:
        free = [part for part, others in rest.items() if others <= set(order)]
        assert free, f"a circle among {sorted(rest)}"
        order += free
        rest = {part: others for part, others in rest.items() if part not in free}


def imported_modules(module: Path, known: dict[str, Path]) -> set[str]:
    """Return the modules that a module imports, also in functions and for type checking."""
    imported = set()
    for node in ast.walk(ast.parse(module.read_text(), str(module))):
        if isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            imported |= {name if name in known else str(node.module) for name in names}
        elif isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
    return imported & known.keys()


@pytest.mark.slow
def test_no_module_imports_itself_by_way_of_others():
    names = {".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts): path for path in MODULES}
    known = {name.removesuffix(".__init__"): path for name, path in names.items()}
    # The package imports its public names on first use.
    del known["loadframe"]
    left = {name: imported_modules(path, known) - {name} for name, path in known.items()}
    while free := [name for name, imported in left.items() if not imported & left.keys()]:
        for name in free:
            del left[name]
    assert not {name: sorted(imported & left.keys()) for name, imported in left.items()}


@pytest.mark.parametrize(
    ("source", "parts"),
    [
        ("import loadframe.cli.app", {"cli"}),
        ("from loadframe.cluster import up", {"cluster"}),
        ("from loadframe import cluster, base", {"cluster", "base"}),
        ("from loadframe import __version__", {"loadframe"}),
        ("from ..load import run", {"load"}),
        ("from .. import load", {"load"}),
        ("from . import reader", {"record"}),
        ("def f():\n    from loadframe import _engine", {"_engine"}),
        ("import importlib\nimportlib.import_module('loadframe.report.page')", {"report"}),
        ("import os, numpy", set()),
    ],
)
def test_every_way_to_import_is_seen(tmp_path, monkeypatch, source, parts):
    package = tmp_path / "loadframe"
    for part in [*MAY_IMPORT, TOP]:
        (package / part).mkdir(parents=True)
    (package / "_engine.abi3.so").touch()
    module = package / "record" / "writer.py"
    module.write_text(source)
    monkeypatch.setattr(f"{__name__}.PACKAGE", package)
    assert {part for _, part in imported_parts(module)} == parts


def dependencies(crate: str) -> set[str]:
    manifest = tomllib.loads((ROOT / "crates" / crate / "Cargo.toml").read_text())
    tables = ("dependencies", "dev-dependencies", "build-dependencies")
    return {name for table in tables for name in manifest.get(table, {})}


def test_the_engine_depends_on_no_driver_and_drivers_not_on_python():
    assert not {name for name in dependencies("engine") if name.startswith(("loadframe", "pyo3"))}
    assert {name for name in dependencies("drivers") if name.startswith(("loadframe", "pyo3"))} == {
        "loadframe-engine",
        "loadframe-null-server",
    }
    assert not {name for name in dependencies("null-server") if name.startswith(("loadframe", "pyo3"))}


def test_the_engine_names_no_store():
    stores = re.compile(r"opensearch|elastic|mongo|cassandra|couchbase|postgres|redis|\bcql\b", re.IGNORECASE)
    sources = sorted((ROOT / "crates" / "engine").rglob("*.rs"))
    assert sources
    assert not [
        f"{path}:{number}: {line.strip()}"
        for path in sources
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        if stores.search(line)
    ]


#: A path that starts at its crate, its parent or itself, up to the start of a group.
RUST_PATH = re.compile(r"\b(?:crate|super|self)::(?:\w+::)*(?:\w+|(?=\{))")


def rust_module(path: Path) -> tuple[str, ...]:
    """Return the path of the module that a file below src is; `mod.rs` is its folder."""
    return tuple(part for part in path.with_suffix("").parts if part != "mod")


def rust_modules(crate: Path) -> dict[tuple[str, ...], Path]:
    """Return the modules of a crate that are files, by their paths; the crate itself is the empty one."""
    source = crate / "src"
    paths = {rust_module(path.relative_to(source)): path for path in sorted(source.rglob("*.rs"))}
    return {() if parts == ("lib",) else parts: path for parts, path in paths.items() if parts[-1] != "tests"}


def rust_paths(text: str) -> Iterator[str]:
    """Yield every path in the text of a module, groups spelled out, in comments and tests none."""
    for match in RUST_PATH.finditer(text):
        if not text.startswith("{", match.end()):
            yield match[0]
            continue
        depth, item = 0, ""
        for character in text[match.end() :]:
            depth += {"{": 1, "}": -1}.get(character, 0)
            if (character == "," and depth == 1) or depth == 0:
                # A nested group names modules below the same module; only its first names count.
                yield match[0] + re.sub(r"[{\s].*", "", item.lstrip("{ \n"))
                item = ""
            else:
                item += character
            if depth == 0:
                break


def rust_imports(crate: Path) -> dict[tuple[str, ...], set[tuple[str, ...]]]:
    """Return the modules that each module imports. Imports between a module and its submodules are ignored."""
    modules = rust_modules(crate)
    edges: dict[tuple[str, ...], set[tuple[str, ...]]] = {module: set() for module in modules}
    for module, file in modules.items():
        text = re.sub(r"//[^\n]*", "", file.read_text().split("#[cfg(test)]\nmod tests")[0])
        for path in rust_paths(text):
            first, *names = path.rstrip(":").split("::")
            base = [] if first == "crate" else list(module if first == "self" else module[:-1])
            while names and names[0] == "super":
                base, names = base[:-1], names[1:]
            named = (*base, *names)
            while named not in modules:
                named = named[:-1]
            if module[: len(named)] != named and named[: len(module)] != module:
                edges[module].add(named)
    return edges


@pytest.mark.parametrize("crate", ["drivers", "engine", "null-server", "python"])
def test_the_modules_of_a_crate_import_each_other_in_no_circle(crate):
    rest = rust_imports(ROOT / "crates" / crate)
    while free := [module for module, named in rest.items() if not named & rest.keys()]:
        for module in free:
            del rest[module]
    assert not {"::".join(module): sorted(map("::".join, named & rest.keys())) for module, named in rest.items()}


#: The engine's modules from lowest to highest: each may import only those before it.
ENGINE_LAYERS = (
    "util",
    "plan",
    "reactor",
    "pacing",
    "workload",
    "driver",
    "ingest",
    "recording",
    "client",
    "ranks",
    "run",
)


def folder_imports(crate: Path) -> dict[str, set[str]]:
    """Return which folders (or single files) directly below src each of them imports."""
    edges: dict[str, set[str]] = {}
    for module, named in rust_imports(crate).items():
        if module:
            others = {other[0] for other in named if other and other[0] != module[0]}
            edges.setdefault(module[0], set()).update(others)
    return edges


def test_the_folders_of_the_engine_import_only_lower_ones():
    edges = folder_imports(ROOT / "crates" / "engine")
    assert set(edges) == set(ENGINE_LAYERS)
    for layer, others in edges.items():
        assert others <= set(ENGINE_LAYERS[: ENGINE_LAYERS.index(layer)]), layer


def driver_folders() -> set[str]:
    """Return the modules of the drivers in the list of all drivers."""
    text = (ROOT / "crates" / "drivers" / "src" / "lib.rs").read_text()
    return set(re.findall(r"^ +\w+: \$crate::(\w+)::\w+ = ", text, re.MULTILINE))


def test_no_driver_imports_another():
    drivers = driver_folders()
    assert {"mongodb", "redis", "search"} <= drivers
    edges = folder_imports(ROOT / "crates" / "drivers")
    assert not {driver: edges[driver] & drivers for driver in drivers if edges[driver] & drivers}


def test_every_driver_folder_implements_the_trait_and_reads_operations():
    source = ROOT / "crates" / "drivers" / "src"
    for driver in driver_folders() - {"null", "several"}:
        assert "Driver for" in (source / driver / "mod.rs").read_text(), driver
        assert (source / driver / "operation.rs").exists() or (source / driver / "operation" / "mod.rs").exists(), (
            driver
        )


def test_every_way_to_name_a_module_of_rust_is_seen(tmp_path):
    for name, text in {
        "lib": "mod a;",
        "a": "use crate::b::{C, d::{E, F}};\nfn f() { crate::g::h() }",
        "b/mod": "use super::i::J; // use crate::a::K;\n#[cfg(test)]\nmod tests { use crate::a::L; }",
        "b/d": "use super::M; use crate::{g, i::N};",
        "g": "mod o;",
        "i": "",
    }.items():
        file = tmp_path / "src" / f"{name}.rs"
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    assert rust_imports(tmp_path) == {
        (): set(),
        ("a",): {("b",), ("b", "d"), ("g",)},
        ("b",): {("i",)},
        ("b", "d"): {("g",), ("i",)},
        ("g",): set(),
        ("i",): set(),
    }


def test_files_of_tests_have_different_names():
    # pytest puts each folder on the path and imports files by their base name.
    names = [file.name for file in (ROOT / "tests").rglob("*.py") if file.name not in ("conftest.py", "__init__.py")]
    assert sorted(names) == sorted(set(names))
