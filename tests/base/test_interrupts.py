"""Interrupts: none is lost, and none breaks an atomic section."""

import contextlib
import signal
import subprocess
import sys

import pytest

from loadframe.base import interrupts


def interrupt():
    signal.raise_signal(signal.SIGINT)


@pytest.fixture
def listening():
    """Interrupts as a command hears them."""
    interrupts.listen()


def test_an_interrupt_is_raised_at_the_end_of_an_atomic_section():
    done = []
    with pytest.raises(KeyboardInterrupt), interrupts.deferred():
        with interrupts.deferred():
            interrupt()
            done.append("inner")
        assert interrupts.pending()
        done.append("outer")
    assert done == ["inner", "outer"]
    assert not interrupts.pending()
    with pytest.raises(KeyboardInterrupt):
        interrupt()


def test_an_interrupt_that_made_something_fail_is_still_one():
    with pytest.raises(KeyboardInterrupt), interrupts.deferred():
        interrupt()
        raise OSError("a child heard it first")


def test_an_interrupt_in_a_destructor_is_not_lost(listening, monkeypatch):
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)

    class Gone:
        def __del__(self):
            interrupt()

    gone = Gone()
    del gone
    assert interrupts.pending()
    with pytest.raises(KeyboardInterrupt):
        interrupts.check()


#: A library may make something else of it.
TURNED = """\
try:
    signal.raise_signal(signal.SIGINT)
except KeyboardInterrupt as interrupt:
    raise ImportError("no") from interrupt
"""


@pytest.mark.parametrize(
    ("what", "status"),
    [
        ("signal.raise_signal(signal.SIGINT)", 130),
        (TURNED, 130),
        ("raise ImportError('no')", 1),
        ("raise SystemExit(2)", 2),
        ("pass", 0),
    ],
)
def test_the_command_ends_as_interrupted_for_any_form_of_interrupt(what, status):
    body = "".join(f"\n    {line}" for line in what.splitlines())
    program = (
        "import signal, sys, types\n"
        f"def app(**_):{body}\n"
        "command = types.ModuleType('loadframe.cli.app')\n"
        "command.app = app\n"
        "import loadframe.cli\n"
        "loadframe.cli.__path__ = []\n"
        "sys.modules['loadframe.cli.app'] = command\n"
        "loadframe.cli.main()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == status, done.stderr
    assert ("Traceback" in done.stderr) == (status == 1)
    assert ("loadframe: interrupted" in done.stderr) == (status == 130)


def test_the_command_imports_nothing_that_takes_time_before_it_listens():
    program = (
        "import sys; import loadframe.cli; print(*(name for name in sys.modules if name in {'typer', 'rich', 'numpy'}))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "\n"


def test_an_interrupt_while_python_takes_itself_down_changes_no_status():
    # The object goes when modules are cleared, behind all that a program can catch.
    program = (
        "import os, signal, sys, types\n"
        "class Last:\n"
        "    def __del__(self, kill=os.kill, pid=os.getpid()):\n"
        "        kill(pid, 2)\n"
        "sys.modules['last'] = types.ModuleType('last')\n"
        "sys.modules['last'].last = Last()\n"
        "command = types.ModuleType('loadframe.cli.app')\n"
        "command.app = lambda **_: None\n"
        "import loadframe.cli\n"
        "loadframe.cli.__path__ = []\n"
        "sys.modules['loadframe.cli.app'] = command\n"
        "loadframe.cli.main()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


#: A command that prints a line to a pipe without a reader, or fails to write to another program.
UNREAD = """\
import os, sys, types
def app(**_):
    {what}
command = types.ModuleType('loadframe.cli.app')
command.app = app
import loadframe.cli
loadframe.cli.__path__ = []
sys.modules['loadframe.cli.app'] = command
sys.stdin.read()
loadframe.cli.main()
"""


@pytest.mark.parametrize(
    ("what", "status"), [("print('x' * 100, flush=True)", 141), ("raise BrokenPipeError('a node is gone')", 1)]
)
def test_a_command_with_a_closed_output_does_not_end_as_done(what, status):
    with subprocess.Popen(
        [sys.executable, "-c", UNREAD.format(what=what)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as command:
        if status == 141:
            command.stdout.close()
        command.stdin.close()
        said = command.stderr.read()
    assert command.returncode == status, said


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_request_to_end_is_an_interrupt_and_repeating_it_changes_nothing(listening, number):
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(number)
    signal.raise_signal(number)
    assert interrupts.pending()
    with pytest.raises(KeyboardInterrupt):
        interrupt()
    # Not either after an answer, as while an ingestion sends its last events.
    interrupts.answer()
    with interrupts.deferred():
        signal.raise_signal(number)
    assert not interrupts.pending()
    assert interrupts.hung_up() == (number == signal.SIGHUP)
    with pytest.raises(KeyboardInterrupt), interrupts.deferred():
        interrupt()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_closed_terminal_after_a_request_to_end_is_no_second_request(listening, number):
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(number)
    interrupts.answer()
    signal.raise_signal(signal.SIGHUP)
    with interrupts.deferred():
        signal.raise_signal(signal.SIGHUP)
    assert not interrupts.pending()
    assert not interrupts.hung_up()
    with pytest.raises(KeyboardInterrupt), interrupts.deferred():
        interrupt()


@pytest.mark.parametrize("number", interrupts.SIGNALS)
def test_only_a_hangup_is_no_normal_end(listening, number):
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(number)
    with pytest.raises(KeyboardInterrupt) if number == signal.SIGHUP else contextlib.nullcontext():
        interrupts.finish()
    assert not interrupts.pending()


def test_a_request_to_end_is_heard_again_after_the_call_that_it_ended(monkeypatch):
    before = signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt), interrupts.deferred():
                signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)
