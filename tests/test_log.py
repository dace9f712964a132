"""Lines for people and lines for machines."""

from __future__ import annotations

import io
import json
import logging

import pytest

from fastnode.log import configure, log_facts, one_line, printable

logger = logging.getLogger("fastnode.tests.logs")


def test_a_line_has_time_level_logger_message_and_fields(capsys: pytest.CaptureFixture[str]) -> None:
    configure(level="info", as_json=False)
    logger.info("block applied", extra=log_facts(number=7, hash=b"\xab\xcd", source="a file"))
    line = capsys.readouterr().err
    date, time, rest = line.split(" ", 2)
    assert len(date) == len("2026-11-21")
    assert len(time) == len("07:16:00.123")
    assert rest == " info     fastnode.tests.logs  block applied  number=7 hash=0xabcd source=a file\n"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("no_colour", "is_coloured"), [("", True), ("1", False)])
def test_a_terminal_has_colours_unless_it_wants_none(
    monkeypatch: pytest.MonkeyPatch, no_colour: str, is_coloured: bool
) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", no_colour)
    configure(level="info", as_json=False)
    logging.getLogger("fastnode.test").warning("disk \x1b[31mfull")
    assert ("\x1b[33mwarning\x1b[0m" in terminal.getvalue().replace(" ", "")) is is_coloured
    assert "disk \\u001b[31mfull" in terminal.getvalue()


def test_a_json_line_carries_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    configure(level="info", as_json=True)
    logger.warning("block applied", extra=log_facts(number=7, hash=b"\xab\xcd", large=1 << 80, none=None))
    entry = json.loads(capsys.readouterr().err)
    assert entry.pop("time").endswith("Z")
    assert entry == {
        "level": "warning",
        "logger": "fastnode.tests.logs",
        "message": "block applied",
        "number": 7,
        "hash": "0xabcd",
        "large": str(1 << 80),
        "none": None,
    }


def test_the_level_is_a_threshold(capsys: pytest.CaptureFixture[str]) -> None:
    configure(level="warning", as_json=False)
    logger.info("quiet")
    logger.warning("loud")
    assert [line.split()[-1] for line in capsys.readouterr().err.splitlines()] == ["loud"]


@pytest.mark.parametrize("as_json", [False, True])
def test_an_event_is_one_line_for_any_value_of_a_field(as_json: bool, capsys: pytest.CaptureFixture[str]) -> None:
    configure(level="info", as_json=as_json)
    logger.info("open", extra=log_facts(path="a\nb\udcff", text="x" * 10_000))
    text = capsys.readouterr().err
    assert text.count("\n") == 1
    assert len(text) < 1000


@pytest.mark.parametrize("as_json", [False, True])
def test_an_exception_comes_with_its_traceback(as_json: bool, capsys: pytest.CaptureFixture[str]) -> None:
    configure(level="info", as_json=as_json)
    try:
        raise KeyError("missing")
    except KeyError:
        logger.exception("a fault")
    text = capsys.readouterr().err
    assert "a fault" in text
    assert "Traceback" in text
    assert "KeyError: 'missing'" in text


def test_a_field_cannot_take_the_place_of_the_message(capsys: pytest.CaptureFixture[str]) -> None:
    configure(level="info", as_json=True)
    logger.info("true", extra=log_facts(message="false", level="error"))
    entry = json.loads(capsys.readouterr().err)
    assert (entry["message"], entry["level"]) == ("true", "info")


def test_configuring_twice_does_not_double_the_lines(capsys: pytest.CaptureFixture[str]) -> None:
    configure(level="info", as_json=False)
    configure(level="info", as_json=False)
    logger.info("once")
    assert capsys.readouterr().err.count("once") == 1


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b]0;title\x07\x1b[2J", "\\u001b]0;title\\u0007\\u001b[2J"),
        ("a\x9b31mred", "a\\u009b31mred"),
        ("name\u202etxt.exe", "name\\u202etxt.exe"),
        ("back\x08\x7f", "back\\u0008\\u007f"),
        ("plain äöü 日本\ttab", "plain äöü 日本\ttab"),
    ],
)
def test_what_others_wrote_reaches_no_terminal_raw(text: str, shown: str) -> None:
    record = logging.LogRecord("fastnode.x", logging.INFO, "f", 1, "%s", (text,), None)
    record.facts = {"fact": text}
    assert one_line(record) == f"{shown}  fact={shown}"
    assert printable(text) == shown
