"""Statistics of event sources become rates."""

import os
import socket

import pytest

from loadframe.base.procfs import unread_of_pipe, unread_of_port
from loadframe.observe import SourcesSampler


def told(lines, waiting, cpu=()):
    return {
        "ads": {
            "lines": lines,
            "accepted": lines,
            "indexed": lines - waiting,
            "dead_letters": 0,
            "unacknowledged": waiting + 5,
            "waiting": waiting,
            "spilled": 0,
            "reader_cpu": cpu,
            "address": None,
            "stdin": False,
        }
    }


def sampled(sampler, now):
    return {sample.metric: sample.value for sample in sampler.sample(now)}


def test_totals_become_rates_and_queue_lengths_stay_levels():
    sampler = SourcesSampler()
    sampler.tell(told(100, 40))
    assert sampled(sampler, 1.0) == {"unacknowledged": 45, "waiting": 40, "spilled": 0}
    sampler.tell(told(300, 20))
    assert sampled(sampler, 3.0) == {
        "lines": 100.0,
        "accepted": 100.0,
        "indexed": 110.0,
        "dead_letters": 0.0,
        "unacknowledged": 25,
        "waiting": 20,
        "spilled": 0,
    }


def test_visible_events_are_a_rate_if_probed():
    sampler = SourcesSampler()
    for now, visible in ((1.0, 0), (2.0, 80)):
        sampler.tell({"ads": {**told(100, 0)["ads"], "visible": visible}})
        samples = sampled(sampler, now)
    assert samples["visible"] == 80.0


def test_a_source_that_is_read_again_restarts_its_rates():
    sampler = SourcesSampler()
    sampler.tell(told(100, 0))
    list(sampler.sample(1.0))
    sampler.tell({})
    assert list(sampler.sample(2.0)) == []
    sampler.tell(told(500, 0))
    assert sampled(sampler, 3.0) == {"unacknowledged": 5, "waiting": 0, "spilled": 0}


def test_the_busiest_reader_thread_of_a_source_is_reported():
    sampler = SourcesSampler()
    sampler.tell(told(0, 0, [0.5, 3.0]))
    assert "reader_cpu" not in sampled(sampler, 1.0)
    sampler.tell(told(0, 0, [2.0, 3.5]))
    assert sampled(sampler, 3.0)["reader_cpu"] == 0.75


@pytest.mark.parametrize(
    ("host", "bound", "sent_to"),
    [("127.0.0.1", "127.0.0.1", "127.0.0.1"), ("0.0.0.0", "0.0.0.0", "127.0.0.1"), ("[::1]", "::1", "::1")],
)
def test_bytes_that_no_thread_reads_from_a_port_are_reported(host, bound, sent_to):
    family = socket.AF_INET6 if ":" in bound else socket.AF_INET
    with socket.create_server((bound, 0), family=family) as listener:
        port = listener.getsockname()[1]
        sampler = SourcesSampler()
        sampler.tell({"ads": {**told(0, 0)["ads"], "address": f"{host}:{port}"}})
        assert sampled(sampler, 1.0)["unread"] == 0
        with socket.create_connection((sent_to, port)) as sender, listener.accept()[0] as connection:
            sender.sendall(b"x" * 5000)
            assert len(connection.recv(5000, socket.MSG_WAITALL | socket.MSG_PEEK)) == 5000
            assert sampled(sampler, 2.0)["unread"] == 5000
            # The sender's end has another port, and a listener elsewhere has other connections.
            assert unread_of_port(f"127.0.0.9:{port}") == 0
            sender.shutdown(socket.SHUT_WR)
            connection.recv(2000, socket.MSG_WAITALL)
            # Linux counts the end of the input as a byte.
            assert sampled(sampler, 3.0)["unread"] in (3000, 3001)


def test_bytes_that_wait_in_a_pipe_are_counted(tmp_path):
    reading, writing = os.pipe()
    try:
        os.write(writing, b"x" * 700)
        assert unread_of_pipe(reading) == 700
    finally:
        os.close(reading)
        os.close(writing)
    with (tmp_path / "file").open("w+") as file:
        file.write("no pipe")
        assert unread_of_pipe(file.fileno()) is None
