"""What commands print."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fastnode.cli.output import say

CLI = Path(__file__).parents[2] / "src" / "fastnode" / "cli"


def test_control_characters_of_others_do_not_reach_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    say("a folder \x1b[2J of \u202eanother\nline")
    say("\x9b2J", err=True)
    printed = capsys.readouterr()
    assert printed.out == "a folder \\u001b[2J of \\u202eanother\nline\n"
    assert printed.err == "\\u009b2J\n"


def test_commands_print_by_no_other_way() -> None:
    """But for the coloured help and coloured JSON, which is escaped before."""
    found = [
        f"{path.name}: {line.strip()}"
        for path in sorted(CLI.glob("*.py"))
        for line in path.read_text(encoding="utf-8").splitlines()
        if re.search(r"\bprint\(|\becho\(|(?<!formatter)\.write\(", line) and path.name != "output.py"
    ]
    assert found == [
        "options.py: click.echo(context.get_help(), color=context.color)",
        "rpc.py: Console(file=stream).print(coloured(text))",
    ]
