"""For developers: resolve a store's distribution once, and write the list that users' machines download from.

    python -m loadframe.cluster.resolve 3.8.0

Nothing imports this at run time: a user's machine resolves nothing, it fetches the files of the list.
"""

import hashlib
import json
import sys
import tempfile
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from jgo.maven import Dependency, MavenContext, PythonResolver

import loadframe.store

#: What every node loads, from the class path. log4j-core is added at the version of the log4j-api that comes along.
_LIBRARY = ("org.opensearch:opensearch", "org.opensearch:opensearch-plugin-classloader")
#: Since version 3 an agent does what the JVM's security manager, which Java 24 has not any more, did before.
_AGENT = "org.opensearch:opensearch-agent-bootstrap"
#: Modules by the name of their folder. analysis-common is not here: it loads Thai segmentation data that the
#: embedded Java runtime has not, and then no index can be created.
_MODULES = {
    "aggs-matrix-stats": "aggs-matrix-stats-client",
    "geo": "geo",
    "lang-expression": "lang-expression",
    "lang-mustache": "lang-mustache-client",
    "lang-painless": "lang-painless",
    "mapper-extras": "mapper-extras-client",
    "parent-join": "parent-join-client",
    "reindex": "reindex-client",
    "transport-netty4": "transport-netty4-client",
}


def resolve_opensearch(version: str, cache: Path) -> dict[str, Any]:
    """Return the distribution list of one OpenSearch version: its jars with their places, and its modules."""
    context = MavenContext(repo_cache=cache, resolver=PythonResolver())
    agent = int(version.split(".", maxsplit=1)[0]) >= 3
    names = (*_LIBRARY, _AGENT) if agent else _LIBRARY
    library = _with_dependencies(context, [f"{name}:{version}" for name in names])
    log4j = next(d.version for d in library if d.artifactId == "log4j-api")
    library += _with_dependencies(context, [f"org.apache.logging.log4j:log4j-core:{log4j}"])
    jars = _placed(library, "lib", taken=set())
    in_library = {jar["coordinates"].rsplit(":", 1)[0] for jar in jars}
    modules = []
    for folder, artifact in sorted(_MODULES.items()):
        dependencies = _with_dependencies(context, [f"org.opensearch.plugin:{artifact}:{version}"])
        jars += _placed(dependencies, f"modules/{folder}", taken=in_library)
        modules.append({"name": folder, "class": _plugin_class(dependencies[0].artifact.resolve())})
    java = {"java": 21} if agent else {"java": 11, "java_most": 23}
    return {"store": "opensearch", "version": version, **java, "modules": modules, "jars": jars}


def _with_dependencies(context: MavenContext, coordinates: list[str]) -> list[Dependency]:
    given, transitive = context.resolver.resolve([context.create_dependency(name) for name in coordinates])
    # Native QUIC libraries, one per system, are 17 MB that no node uses.
    return [dependency for dependency in [*given, *transitive] if not dependency.classifier]


def _placed(dependencies: Iterable[Dependency], place: str, taken: set[str]) -> list[dict[str, Any]]:
    entries = {}
    for dependency in dependencies:
        name = f"{dependency.groupId}:{dependency.artifactId}"
        if name in taken:
            continue
        content = dependency.artifact.resolve().read_bytes()
        entries[name] = {
            "coordinates": f"{name}:{dependency.version}",
            "place": place,
            "size": len(content),
            "sha256": hashlib.sha256(content).hexdigest(),
        }
    return [entries[name] for name in sorted(entries)]


def _plugin_class(jar: Path) -> str:
    with zipfile.ZipFile(jar) as archive:
        names = [name for name in archive.namelist() if name.endswith("Plugin.class") and "$" not in name]
    # Before version 3 not all of them were called so.
    classes = [name for name in names if name.endswith("ModulePlugin.class")] or names
    if len(classes) != 1:
        raise SystemExit(f"{jar.name} should hold one plugin class, and holds {classes}")
    return classes[0].removesuffix(".class").replace("/", ".")


def main() -> None:
    """Write the list of the version given on the command line into the package."""
    if len(sys.argv) != 2:
        raise SystemExit("usage: python -m loadframe.cluster.resolve VERSION")
    version = sys.argv[1]
    with tempfile.TemporaryDirectory() as cache:
        distribution = resolve_opensearch(version, Path(cache))
    target = Path(loadframe.store.__path__[0]) / f"opensearch-{version}.json"
    target.write_text(json.dumps(distribution, indent=1) + "\n")
    print(f"{target}: {len(distribution['jars'])} jars, {sum(jar['size'] for jar in distribution['jars'])} bytes")


if __name__ == "__main__":
    main()
