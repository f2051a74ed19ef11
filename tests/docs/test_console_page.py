"""The runner of documentation pages: it runs the commands of a page, and refuses a wrong page."""

import contextlib
import os
import time
from pathlib import Path

import psutil
import pytest
from console_page import Command, File, Missing, WrongPage, difference, free_ports, read_page, run_page


def carry_out(tmp_path: Path, text: str) -> None:
    run_page(read_page(Path("page.md"), text), tmp_path)


@pytest.mark.parametrize(
    ("shown", "output"),
    [
        ("3 runs in 12.5 s", "4 runs in 980 ms"),
        ("reads\n...\nend", "reads\n1\n2\nend"),
        ("results/... is done", "results/20261126-0510 is done"),
        ("a long line that the page breaks", "a long line\nthat the page breaks\n"),
        ("name   runs\n----   ----\na      1", "name         runs\n---------    ----\na      1000"),
        ("run 4f3a9c12", "run 00ab12ff34"),
        ("a ████▌ 3", "a █ 17"),
        ("p99 12 ms*", "p99 unknown"),
        ("...\nend", "end"),
        ("first\n...", "first"),
    ],
)
def test_words_are_compared_and_measured_numbers_are_not(shown, output):
    assert difference(shown, output) is None


@pytest.mark.parametrize(
    ("shown", "output", "words"),
    [
        ("3 runs passed", "3 runs failed", ">>passed<<"),
        ("one two", "one", ">>two<<"),
        ("one", "one two", "continues"),
        ("begin\n...\nend", "begin\nmiddle", ">>end<<"),
        ("p99 in ms", "p99 in us", ">>ms<<"),
        ("", "one", "continues"),
    ],
)
def test_other_words_are_a_difference(shown, output, words):
    assert words in (difference(shown, output) or "")


PAGE = """\
```yaml title="a/nodes.yaml"
nodes: 1
```

<!-- setup: touch x -->
1. Do it:

    ```console
    $ cat \\
      a
    one
    $ true
    ```

```python
print()
```
<!-- not run: needs Slurm -->

```console
$ sbatch
```
<!-- exit: 2 -->
```console
$ wrong
```
<!-- teardown: rm x -->
"""

SHELL = """\
```text title="names"
Eve
Ada
```
```console
$ export WORD=hello; mkdir x; cd x
$ sort ../names
Ada
Eve
$ echo $WORD $(basename $PWD)
hello x
$ false
$ echo $?
1
$ cat > y <<'END'
> inside
> END
$ cat y
inside
$ sleep 60 &
[1] 4711
$ kill %1
```
"""

SERVER = """\
```console
$ python -c "import time; print('serving'); time.sleep(60)" 2>/dev/null
serving
^C
$ echo on
on
```
"""

PORTS = """\
```text title="hosts"
127.0.0.1:9200
```
```console
$ grep :9200 hosts || echo none
none
$ sed s/:.*/:/ hosts
127.0.0.1:
```
"""


def test_a_page_is_read_as_files_and_commands():
    page = read_page(Path("page.md"), PAGE)
    assert page.steps == [
        File(1, "a/nodes.yaml", "nodes: 1\n"),
        Command(5, "touch x"),
        Command(9, "cat \\\n  a", "one"),
        Command(12, "true"),
        Command(25, "wrong", None, (2,)),
    ]
    assert page.teardown == [Command(27, "rm x")]


@pytest.mark.parametrize(
    ("command", "heavy"),
    [
        ("loadframe stores", False),
        ("loadframe bench ycsb/a", True),
        ("cat x | loadframe ingest a.yaml", True),
        ("ls", False),
    ],
)
def test_pages_that_start_stores_are_marked(command, heavy):
    assert read_page(Path("page.md"), f"```console\n$ {command}\n```\n").heavy == heavy


def test_a_page_runs_in_one_shell_and_folder(tmp_path):
    carry_out(tmp_path, SHELL)


@pytest.mark.parametrize(
    ("block", "message"),
    [
        ("```console\n$ echo one\ntwo\n```\n", "line 2: .*words differ.*>>two<<"),
        ("```console\n$ true\n$ (exit 3)\n```\n", "line 3: .*exit code 3 instead of 0"),
        ("```console\n$ (exit 3)\n$ echo $?\n4\n```\n", "the page shows exit code 4"),
        ("<!-- exit: 2 -->\n```console\n$ true\n```\n", "exit code 0 instead of 2"),
        ("```console\nouput\n```\n", "begins with"),
        ('```text title="../x"\n```\n```console\n$ true\n```\n', "outside the page's folder"),
        ("```console\n$ exit 1\n```\n", "the shell ended"),
        ("<!-- setup: false -->\n", "line 1: .*exit code 1"),
        ("<!-- teardown: false -->\n", "line 1: .*exit code 1"),
    ],
)
def test_a_wrong_page_fails(tmp_path, block, message):
    with pytest.raises(WrongPage, match=f"(?s){message}"):
        carry_out(tmp_path, block)


def test_a_page_interrupts_a_command_after_its_first_lines(tmp_path):
    carry_out(tmp_path, SERVER)


def test_commands_in_the_background_are_compared_and_ended(tmp_path):
    with pytest.raises(WrongPage, match="differ"):
        text = "```console\n$ (echo started; sleep 300) &\n$ echo $! > pid\n$ echo two\nthree\n```\n"
        carry_out(tmp_path, text)
    number = int((tmp_path / "page" / "pid").read_text())
    assert not psutil.pid_exists(number) or psutil.Process(number).status() == psutil.STATUS_ZOMBIE


@pytest.mark.parametrize("words", ["setsid sleep 300", "env -i sleep 300"])
def test_processes_that_left_the_shell_are_ended(tmp_path, words):
    carry_out(tmp_path, f"```console\n$ ({words} & echo $! > pid)\n```\n")
    number = int((tmp_path / "page" / "pid").read_text())
    end = time.monotonic() + 5
    while psutil.pid_exists(number) and time.monotonic() < end:
        time.sleep(0.05)
    assert not psutil.pid_exists(number)


def test_named_ports_are_replaced_by_free_ones(tmp_path):
    ports = free_ports("curl localhost:9200 127.0.0.1:9201 --port 5000 documents: 5001")
    assert set(ports) == {"9200", "9201", "5000"}
    assert int(ports["9201"]) == int(ports["9200"]) + 1
    carry_out(tmp_path, PORTS)
    assert (tmp_path / "page" / "hosts").read_text() != "127.0.0.1:9200\n"


NOTES = """\
<!-- setup: touch always -->
Text.

<!-- trial: takes minutes -->
<!-- setup: touch only_trials -->
<!-- small: 60s => 1s -->
<!-- small: --fast => -->
```console
$ sleep 60s --fast
60s
```

<!-- exit: 0 or 4 -->
```console
$ (exit 4)
```
<!-- not run: takes hours -->
<!-- setup: touch never -->
<!-- teardown: touch never -->
```console
$ sleep 1h
```
"""


def test_notes_apply_to_the_block_after_them():
    page = read_page(Path("page.md"), NOTES)
    allowed = Command(15, "(exit 4)", None, (0, 4))
    assert page.steps == [Command(1, "touch always"), allowed]
    assert [command.text for command in page.skipped] == ["sleep 60s --fast", "sleep 1h"]
    assert page.has_trials
    whole = read_page(Path("page.md"), NOTES, trials=True)
    small = Command(9, "sleep 1s ", "1s")
    assert whole.steps == [Command(1, "touch always"), Command(5, "touch only_trials"), small, allowed]
    assert [command.text for command in whole.skipped] == ["sleep 1h"]
    assert page.teardown == whole.teardown == []


def test_a_replaced_text_must_occur_in_the_block():
    with pytest.raises(WrongPage, match="line 1: the block does not contain '60 s'"):
        read_page(Path("page.md"), "<!-- small: 60 s => 1s -->\n```console\n$ sleep 60s\n```\n")


NEEDS = """\
<!-- needs: greeter -->
<!-- small: hello.example => $GREETER -->
```console
$ echo to hello.example
to hello.example
```
<!-- needs: nobody -->
<!-- setup: false -->
<!-- teardown: false -->
```console
$ false
```
```console
$ echo again $GREETER
again hello, world
```
"""


def test_services_export_variables_and_without_one_its_blocks_are_skipped(tmp_path):
    running = []

    @contextlib.contextmanager
    def start(name):
        if name == "nobody":
            raise Missing("nobody is here")
        running.append(name)
        yield {"GREETER": "hello, world"}
        running.remove(name)

    assert run_page(read_page(Path("page.md"), NEEDS), tmp_path, start) == {"nobody": "nobody is here"}
    assert running == []


def test_the_state_folder_is_private_and_the_cache_is_not(tmp_path):
    carry_out(tmp_path, "```console\n$ echo $LOADFRAME_STATE > state; echo $LOADFRAME_CACHE > cache\n```\n")
    assert (tmp_path / "page" / "state").read_text().strip() == str(tmp_path / "state")
    assert (tmp_path / "page" / "cache").read_text().strip() == os.environ.get("LOADFRAME_CACHE", "")
