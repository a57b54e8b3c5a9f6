"""Consoles and notes: nothing in the input controls the terminal, while our own colours do."""

import io

import pytest
from rich.table import Table

from trimtab.clients.cli.output import SafeConsole, note


def test_a_name_in_a_table_cannot_control_the_terminal_but_colours_can() -> None:
    stream = io.StringIO()
    console = SafeConsole(file=stream, force_terminal=True, color_system="standard", width=80, highlight=False)
    table = Table("node")
    table.add_row("\x1b[2J\x9bevil")
    console.print("[red]\x1b]0;title[/red]")
    console.print(table)
    text = stream.getvalue()
    assert "\x1b[31m\\x1b]0;title\x1b[0m" in text
    assert "\\x1b[2J\\x9bevil" in text
    assert "\x1b[2J" not in text


def test_a_name_in_a_note_cannot_control_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    note("node \x1b[2J")
    assert capsys.readouterr().err == "note: node \\x1b[2J\n"
