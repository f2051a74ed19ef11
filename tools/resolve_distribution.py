"""Developer tool: resolve a store's distribution and write its list of files into the package.

    python tools/resolve_distribution.py opensearch 3.8.0

Not used at run time: users' machines only download the files of the list.
"""

import hashlib
import json
import sys
import tempfile
import zipfile
from collections.abc import Container, Iterable
from pathlib import Path
from typing import Any

from jgo.maven import Dependency, MavenContext, PythonResolver

import loadframe.store

#: Artifacts on the class path of each node. log4j-core is added in the version of log4j-api.
_LIBRARY = ("org.opensearch:opensearch", "org.opensearch:opensearch-plugin-classloader")
#: From version 3 on, this agent replaces the JVM's security manager, which Java 24 removed.
_AGENT = "org.opensearch:opensearch-agent-bootstrap"
#: Folder name -> module. Without analysis-common: it loads Thai segmentation data that the embedded Java runtime lacks,
#: and then index creation fails.
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
#: Classifiers to keep: none, the shaded client, and native code for Linux.
_CASSANDRA_CLASSIFIERS = {"", None, "shaded", "native", "linux-x86_64", "linux-aarch_64"}


def resolve_opensearch(version: str, cache: Path) -> dict[str, Any]:
    """Return the distribution list of an OpenSearch version: jars with their folders, and modules."""
    context = MavenContext(repo_cache=cache, resolver=PythonResolver())
    agent = int(version.split(".", maxsplit=1)[0]) >= 3
    names = (*_LIBRARY, _AGENT) if agent else _LIBRARY
    library = _with_dependencies(context, [f"{name}:{version}" for name in names])
    log4j = next(d.version for d in library if d.artifactId == "log4j-api")
    library += _with_dependencies(context, [f"org.apache.logging.log4j:log4j-core:{log4j}"])
    jars = _placed(library, "lib")
    in_library = {jar["coordinates"].rsplit(":", 1)[0] for jar in jars}
    modules = []
    for folder, artifact in sorted(_MODULES.items()):
        dependencies = _with_dependencies(context, [f"org.opensearch.plugin:{artifact}:{version}"])
        jars += _placed(dependencies, f"modules/{folder}", taken=in_library)
        modules.append({"name": folder, "class": _plugin_class(dependencies[0].artifact.resolve())})
    java = {"java": 21} if agent else {"java": 11, "java_most": 23}
    return {"store": "opensearch", "version": version, **java, "modules": modules, "jars": jars}


def resolve_cassandra(version: str, cache: Path) -> dict[str, Any]:
    """Return the distribution list of a Cassandra version: the server and its dependencies, on one class path."""
    context = MavenContext(repo_cache=cache, resolver=PythonResolver())
    dependencies = _resolved(context, [f"org.apache.cassandra:cassandra-all:{version}"])
    # Drop libraries for other systems; clusters run on Linux.
    dependencies = [dependency for dependency in dependencies if dependency.classifier in _CASSANDRA_CLASSIFIERS]
    # Cassandra needs the security manager, which Java 24 removed.
    java = {"java": 17, "java_most": 23}
    return {"store": "cassandra", "version": version, **java, "modules": [], "jars": _placed(dependencies, "lib")}


def _resolved(context: MavenContext, coordinates: list[str]) -> list[Dependency]:
    given, transitive = context.resolver.resolve([context.create_dependency(name) for name in coordinates])
    return [*given, *transitive]


def _with_dependencies(context: MavenContext, coordinates: list[str]) -> list[Dependency]:
    # Drop native QUIC libraries (17 MB), which no node uses.
    return [dependency for dependency in _resolved(context, coordinates) if not dependency.classifier]


def _placed(
    dependencies: Iterable[Dependency], place: str, taken: Container[str] = frozenset()
) -> list[dict[str, Any]]:
    entries = {}
    for dependency in dependencies:
        name = f"{dependency.groupId}:{dependency.artifactId}"
        if name in taken:
            continue
        content = dependency.artifact.resolve().read_bytes()
        coordinates = f"{name}:{dependency.version}" + (f":{dependency.classifier}" if dependency.classifier else "")
        entries[coordinates] = {
            "coordinates": coordinates,
            "place": place,
            "size": len(content),
            "sha256": hashlib.sha256(content).hexdigest(),
        }
    return [entries[coordinates] for coordinates in sorted(entries)]


def _plugin_class(jar: Path) -> str:
    with zipfile.ZipFile(jar) as archive:
        names = [name for name in archive.namelist() if name.endswith("Plugin.class") and "$" not in name]
    # Before version 3, the names of some plugin classes do not end with ModulePlugin.
    classes = [name for name in names if name.endswith("ModulePlugin.class")] or names
    if len(classes) != 1:
        raise SystemExit(f"{jar.name} must contain one plugin class; found {classes}")
    return classes[0].removesuffix(".class").replace("/", ".")


_RESOLVERS = {"cassandra": resolve_cassandra, "opensearch": resolve_opensearch}


def main() -> None:
    """Write the list of the store and version given on the command line into the package."""
    if len(sys.argv) != 3 or sys.argv[1] not in _RESOLVERS:
        raise SystemExit(f"usage: python tools/resolve_distribution.py {'|'.join(_RESOLVERS)} VERSION")
    store, version = sys.argv[1:]
    with tempfile.TemporaryDirectory() as cache:
        distribution = _RESOLVERS[store](version, Path(cache))
    target = Path(loadframe.store.__path__[0]) / f"{store}-{version}.json"
    target.write_text(json.dumps(distribution, indent=1) + "\n")
    print(f"{target}: {len(distribution['jars'])} jars, {sum(jar['size'] for jar in distribution['jars'])} bytes")


if __name__ == "__main__":
    main()
