"""Hostile files are read or refused, without other errors, hangs or excessive memory."""

import resource
import signal
from pathlib import Path

import pytest

import fuzz
from loadframe.workload.importers.rally import isolated, template

pytestmark = pytest.mark.slow

HOSTILE = list(fuzz.hostile())
NAMES = list(dict.fromkeys(name for name, _, _ in HOSTILE))
#: Bytes of address space beyond the current use of the test process.
ROOM = 2 * 2**30


@pytest.fixture(autouse=True)
def bounded():
    """Limit time and memory, so that hangs and leaks fail the test."""
    used = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmSize"))
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (int(used.split()[1]) * 1024 + ROOM, before[1]))
    handler = signal.signal(signal.SIGALRM, fuzz.alarm)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, handler)
    resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.mark.parametrize("name", NAMES)
def test_a_hostile_file_is_read_or_refused_and_nothing_else(name, tmp_path, monkeypatch):
    files = [(target, content) for other, target, content in HOSTILE if other == name]
    if len(files) > 20:
        # In this process, for speed: none of these has a template.
        monkeypatch.setattr(isolated, "expand", lambda path, root, values, _: template.expand(path, root, values))
        monkeypatch.setattr(isolated, "locate", lambda path, root, values, _: template.locate(path, root, values))
    refused = []
    for target, content in files:
        signal.alarm(fuzz.PATIENCE)
        refused.append(fuzz.refuses(target, content, tmp_path))
    assert any(refused)


@pytest.mark.parametrize("target", fuzz.TARGETS)
def test_the_sound_file_that_is_damaged_is_sound(target, tmp_path):
    assert not fuzz.refuses(target, fuzz.SOUND[target].encode(), tmp_path)
