"""Printed text contains no control characters from stores or run folders."""

import ast
import io
import os
import select
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.table import Table
from rich.text import Text

from commands import within
from loadframe.analyze.finding import Rule
from loadframe.analyze.gate import Gate
from loadframe.base.untrusted import outlet, printable
from loadframe.cli import output
from loadframe.report.gate import print_gate


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain\ttext\nof two lines", "plain\ttext\nof two lines"),
        ("größer 日本 ✅", "größer 日本 ✅"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b[2J\x1b[1;1Hgone", "gone"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;https://evil.example\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1bP1$r0m\x1b\\text", "text"),
        ("\x9b31mred\x9d0;title\x9ctext", "redtext"),
        ("over\rwritten\x08\x07\x00\x7f\x85", "overwritten"),
        ("\x1b", ""),
        ("\x1b]never ends\nnext line", "\nnext line"),
        ("file\u202etxt.exe\u2066a\u2069\u200f", "filetxt.exea"),
        ("half \ud83d of a pair", "half  of a pair"),
    ],
)
def test_terminal_control_sequences_are_removed_and_other_text_stays(text: str, shown: str):
    assert printable(text) == shown
    assert printable(printable(text)) == shown


def test_every_way_of_printing_on_the_console_is_safe():
    evil = "a\x1b[2Jb\x9b1mc\u202ed\re"
    table = Table(evil, title=evil)
    table.add_row(evil, style="red")
    with io.StringIO() as stream:
        console = type(output.out)(file=stream, force_terminal=True, width=60)
        console.print(evil, Text(evil, style="bold"), table)
        console.rule(evil)
        with console.status(evil):
            pass
        shown = stream.getvalue()
    assert "\x1b[1m" in shown, "its own styles stay"
    assert not {"\x1b[2J", "\x9b", "\u202e"} & {part for part in ("\x1b[2J", "\x9b", "\u202e") if part in shown}
    assert "d\re" not in shown


def test_a_message_about_a_name_is_safe(tmp_path):
    status, _, said = within("report", str(tmp_path / "a\x1b[2Jb\x9b1m\u202e"))
    assert status == 2
    assert "ab" in said
    assert not {"\x1b", "\x9b", "\u202e"} & set(said)


ODD = Rule("odd", "of a\x1b[2Jb\x9b1mc\u202ed", "nothing")


def test_a_report_without_a_console_of_its_own_prints_no_control_characters(capsys):
    print_gate(Gate("new", (), (ODD(),), None, False))
    shown = capsys.readouterr().out
    assert "of abcd" in shown
    assert not {"\x1b", "\x9b", "\u202e"} & set(shown)


@pytest.mark.slow
def test_no_module_prints_past_the_safe_console():
    package = Path(output.__file__).parents[1]
    for module in package.rglob("*.py"):
        if module.name == "terminal.py" and module.parent == package:
            continue
        for node in ast.walk(ast.parse(module.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module == "rich.console" and "cli" not in module.parts:
                calls = [
                    call.lineno
                    for call in ast.walk(ast.parse(module.read_text()))
                    if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "Console"
                ]
                assert not calls, f"{module}:{calls}: use PrintableConsole"
            if (
                module.parent.name == "ranks"
                and isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id == "print"
            ):
                assert "printable(" in ast.unparse(node), f"{module}:{node.lineno}: print past printable()"


def test_a_full_non_blocking_stream_is_waited_for_without_a_busy_loop(monkeypatch):
    """A terminal is non-blocking if another program that shares it made it so."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    waits, received = [], []

    def wait(reads, writes, others):
        # The reader empties the pipe, so the next attempt can write.
        waits.append(writes)
        received.append(os.read(reader, 2**20))
        return select.select(reads, writes, others)

    monkeypatch.setattr("loadframe.base.untrusted.select", SimpleNamespace(select=wait))
    text = "x" * 2**18 + "\n"
    with os.fdopen(writer, "w") as stream:
        outlet(stream).write(text)
    with os.fdopen(reader, "rb") as rest:
        received.append(rest.read())
    assert b"".join(received).decode() == text
    # One for each time that the pipe was full, of 64 KiB.
    assert 1 <= len(waits) <= 8
