"""NOTICE lists all software of others that Loadframe downloads, requires or contains."""

import pytest

from notice import TOP, crates, listed, maven_files, maven_licence, python_packages

NOTICE = (TOP / "NOTICE").read_text()


SECTIONS = {2: set(maven_files()), 3: python_packages(), 4: crates()}


@pytest.mark.parametrize(("section", "names"), SECTIONS.items(), ids=["java", "python", "rust"])
def test_each_section_lists_the_software_that_is_used(section, names):
    assert listed(NOTICE, section) == names, "run: python -m tests.notice > NOTICE"


def test_each_java_file_has_a_licence():
    assert all(maven_licence(file) for file in maven_files())
