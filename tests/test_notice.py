"""Software of others: NOTICE lists all that Loadframe downloads, requires or contains; the stated Rust compiles it."""

import tomllib

import pytest

from notice import TOP, crate_metadata, crates, listed, maven_files, maven_licence, python_packages

NOTICE = (TOP / "NOTICE").read_text()


SECTIONS = {2: set(maven_files()), 3: python_packages(), 4: crates()}


@pytest.mark.parametrize(("section", "names"), SECTIONS.items(), ids=["java", "python", "rust"])
def test_each_section_lists_the_software_that_is_used(section, names):
    assert listed(NOTICE, section) == names, "run: python -m tests.notice > NOTICE"


def test_each_java_file_has_a_licence():
    assert all(maven_licence(file) for file in maven_files())


def test_the_stated_rust_version_compiles_each_crate():
    stated = tomllib.loads((TOP / "Cargo.toml").read_text())["workspace"]["package"]["rust-version"]
    newer = {crate["name"]: crate["rust_version"] for crate in crate_metadata() if _version(crate) > _numbers(stated)}
    assert not newer, f"Rust {stated} cannot compile these: cargo update --precise VERSION --package NAME"


def _version(crate):
    return _numbers(crate["rust_version"] or "0")


def _numbers(version):
    return tuple(int(number) for number in version.split(".")[:2])
