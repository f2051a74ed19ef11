"""How long a Java server stood still for its garbage collections, read from the counters of its virtual machine."""

import struct

import pytest

from loadframe.observe import process
from loadframe.observe.process import JvmSampler, seconds_stopped


def entry(name, value):
    """Return one counter as HotSpot lays it out: its head, its name, its value at a multiple of 8."""
    words = name.encode() + b"\0"
    name_at = 20
    data_at = -(-(name_at + len(words)) // 8) * 8
    head = struct.pack("=iiiBBBBi", data_at + 8, name_at, 0, ord("J"), 0, 1, 3, data_at)
    return (head + words).ljust(data_at, b"\0") + struct.pack("=q", value)


def counters(*ticks, frequency=1_000_000_000):
    entries = [entry("sun.os.hrt.frequency", frequency), entry("java.threads.live", 7)]
    entries += [entry(f"sun.gc.collector.{number}.time", value) for number, value in enumerate(ticks)]
    content = b"".join(entries)
    prologue = struct.pack("=IBBBBiiqii", 0xC0C0FECA, 1, 2, 0, 1, 32 + len(content), 0, 0, 32, len(entries))
    return prologue + content


def test_the_pauses_of_all_collectors_count():
    assert seconds_stopped(counters(1_500_000_000, 500_000_000)) == pytest.approx(2.0)
    assert seconds_stopped(counters(5_000, frequency=1_000)) == pytest.approx(5.0)


@pytest.mark.parametrize("length", [-1, 0, 19])
def test_an_entry_shorter_than_its_header_is_refused(length):
    content = bytearray(counters(1_500_000_000))
    struct.pack_into("=i", content, 32, length)
    with pytest.raises(ValueError, match="shorter than its header"):
        seconds_stopped(bytes(content))


def test_another_file_says_nothing():
    assert seconds_stopped(b"\0" * 64) is None


@pytest.fixture
def published(monkeypatch):
    """The files of processes by id, which tests change. Each process started at time 1."""
    files = {}
    monkeypatch.setattr(process, "published_by", files.get)
    monkeypatch.setattr(process, "stat_fields", lambda pid: stat(1))
    return files


def stat(started):
    return ["0"] * 19 + [str(started)]


def test_a_node_has_the_share_of_time_that_it_stood_still(tmp_path, published):
    file = published[42] = tmp_path / "42"
    sampler = JvmSampler(lambda: {"node-0": 42, "node-1": 43})
    file.write_bytes(counters(1_000_000_000))
    assert list(sampler.sample(10.0)) == []
    file.write_bytes(counters(1_250_000_000))
    (seen,) = sampler.sample(11.0)
    assert (seen.source, seen.metric, seen.value) == ("node:node-0", "jvm.gc", pytest.approx(0.25))


def test_a_file_that_is_gone_or_half_written_is_passed_over(tmp_path, published):
    file = published[42] = tmp_path / "42"
    sampler = JvmSampler(lambda: {"node-0": 42})
    assert list(sampler.sample(10.0)) == []
    file.write_bytes(counters(1)[:50])
    assert list(sampler.sample(11.0)) == []


def test_a_file_that_appears_after_the_first_sample_is_read(tmp_path, published):
    sampler = JvmSampler(lambda: {"node-0": 42})
    assert list(sampler.sample(10.0)) == []
    file = published[42] = tmp_path / "42"
    file.write_bytes(counters(1_000_000_000))
    assert list(sampler.sample(11.0)) == []
    file.write_bytes(counters(1_500_000_000))
    assert [seen.value for seen in sampler.sample(12.0)] == [pytest.approx(0.5)]


def test_a_process_without_a_file_is_searched_at_growing_intervals(monkeypatch, published):
    searched = []
    monkeypatch.setattr(process, "published_by", searched.append)
    sampler = JvmSampler(lambda: {"node-0": 42})
    for now in range(600):
        assert list(sampler.sample(float(now))) == []
    assert 10 <= len(searched) <= 20


@pytest.mark.parametrize("pid", [42, 43])
def test_a_restarted_process_has_its_own_file_and_its_counters_begin_at_zero(tmp_path, published, monkeypatch, pid):
    pids = {"node-0": 42}
    sampler = JvmSampler(lambda: pids)
    published[42] = tmp_path / "before"
    published[42].write_bytes(counters(1_000_000_000))
    assert list(sampler.sample(10.0)) == []
    pids["node-0"] = pid
    monkeypatch.setattr(process, "stat_fields", lambda pid: stat(2))
    # The process of another user has another folder.
    published[pid] = tmp_path / "after"
    published[pid].write_bytes(counters(2_000_000_000))
    assert list(sampler.sample(11.0)) == []
    published[pid].write_bytes(counters(2_250_000_000))
    assert [seen.value for seen in sampler.sample(12.0)] == [pytest.approx(0.25)]


def test_a_process_that_has_ended_has_no_figures(monkeypatch, published):
    def ended(pid):
        raise FileNotFoundError

    monkeypatch.setattr(process, "stat_fields", ended)
    assert list(JvmSampler(lambda: {"node-0": 42}).sample(10.0)) == []
