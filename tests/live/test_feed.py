"""The feed of a command: followed while it is written, bounded, and known to be over however that comes about."""

import subprocess
import sys

import pytest
from feeds import command, feed

from commands import until
from loadframe.live.feed import FIGURES, Feed, Following, History, commands, folder

pytestmark = pytest.mark.usefixtures("state")


def load(second):
    return {"kind": "load", "time": float(second), "second": second, "requests": second}


def test_records_are_read_once_and_in_order():
    with feed(command()) as written, Following(written.path) as following:
        assert [record["kind"] for record in following.take()] == ["command"]
        assert following.take() == []
        written.append([load(1), load(2)])
        assert [record["second"] for record in following.take()] == [1, 2]
        assert not following.over


def test_a_write_that_takes_only_a_part_goes_on_with_the_rest():
    with feed(command()) as written, Following(written.path) as following:
        file = written._file

        class AlmostFull:
            tell, close = file.tell, file.close

            def write(self, data):
                return file.write(data[:7])

        written._file = AlmostFull()
        written.append([load(1), load(2)])
        assert [record["kind"] for record in following.take()] == ["command", "load", "load"]


def test_a_feed_that_ends_is_over_and_its_last_words_are_read():
    with feed(command()) as written:
        following = Following(written.path)
        written.append([{"kind": "over", "how": "done"}])
    with following:
        assert [record["kind"] for record in following.take()] == ["command", "over"]
        assert following.over
    assert commands() == []


def test_rewriting_a_long_feed_loses_or_repeats_no_record():
    with Feed(long=20_000) as written, Following(written.path) as following:
        written.append([command()])
        seen, size = [], 0
        for second in range(3 * FIGURES):
            written.append([load(second)])
            size = max(size, written.path.stat().st_size)
            if second % 50 == 0:
                seen += following.take()
        while more := following.take():
            seen += more
        # Several files may have been in its place since.
        seen += following.take()
        assert [record["second"] for record in seen if record["kind"] == "load"] == list(range(3 * FIGURES))
        assert size < 2.5 * len(written.path.read_bytes().splitlines()[-1]) * FIGURES
        with Following(written.path) as late:
            assert late.take()[0]["kind"] == "command", "a late reader learns the command first"


def test_a_feed_whose_command_was_killed_is_over_and_removed_by_the_next():
    write = (
        "from loadframe.live.feed import Feed\nimport sys\n"
        "with Feed() as feed:\n feed.append([{'kind': 'command', 'name': 'a', 'path': '/a', 'started': ''}])\n"
        " print('here', flush=True)\n sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", write], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        process.stdout.readline()
        ((path, _),) = commands()
        with Following(path) as following:
            following.take()
            assert not following.over
            process.kill()
            process.wait()
            until(lambda: following.take() or following.over)
    assert commands() == []
    assert path.exists()
    with feed(command()) as written:
        assert list(folder().iterdir()) == [written.path]


def test_commands_are_found_by_workload_or_path_with_the_newest_last():
    with feed(command("b", "2026-01-02")), feed(command("a", "2026-01-01")), feed(command("c", "2026-01-03")):
        assert [told["name"] for _, told in commands()] == ["a", "b", "c"]
        assert [told["name"] for _, told in commands("b")] == ["b"]
        assert [told["name"] for _, told in commands("c-1")] == ["c"]
        assert commands("d") == []


def test_the_figures_of_a_run_that_is_over_are_forgotten_and_its_verdict_is_kept():
    history = History()
    for record in (command(), {"kind": "run", "run": "r1"}, load(1), {"kind": "event", "event": {}},
                   {"kind": "finished", "run": "r1"}, {"kind": "run", "run": "r2"}, load(2)):  # fmt: skip
        history.add(record)
    number, records = history.after(0)
    assert [record["kind"] for record in records] == ["command", "finished", "run", "load"]
    assert history.after(number) == (number, [])
    assert history.after(number - 1) == (number, [load(2)])
