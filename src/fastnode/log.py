"""The log: one line per event on standard error, for people or, with ``LOG_JSON=1``, for machines.

Facts travel as fields beside a fixed message::

    logger.info("block applied", extra=log_facts(number=7, txs=3))

    2026-11-21 07:16:00.123  info     fastnode.app.node  block applied  number=7 txs=3
    {"number":7,"txs":3,"time":"2026-11-21T07:16:00.123Z","level":"info","logger":"fastnode.app.node","message":...}

Never log a request or response body, and never a key: fields are for numbers, hashes, names and addresses.
Long texts are cut.
"""

from __future__ import annotations

import logging
import os
import re
import sys
from datetime import UTC, datetime
from typing import Any, Final, TextIO

import orjson

from fastnode import trace

__all__ = ["configure", "json_event", "log_facts", "name_process", "one_line", "printable", "wants_colours"]

#: The logger every module's logger is below.
_ROOT = "fastnode"

#: Longest text of a field; enough for a path and an error, too short for a body.
_FIELD_TEXT_MAX = 500

#: Larger integers are logged as text.
_JSON_INTEGER_BITS = 63

_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


def log_facts(**facts: Any) -> dict[str, Any]:
    """The ``extra`` of a log call that carries facts."""
    return {"facts": facts}


#: Facts of every event of this process.
_OF_PROCESS: dict[str, Any] = {}


def name_process(name: str) -> None:
    """From now on every event says which process of the node it comes from."""
    _OF_PROCESS["process"] = name


def configure(*, level: str, as_json: bool) -> None:
    """Sends everything below the ``fastnode`` logger to standard error, in one of the two forms."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonFormatter() if as_json else _LineFormatter(has_colours=wants_colours(sys.stderr)))
    logger = logging.getLogger(_ROOT)
    logger.handlers[:] = [handler]
    logger.setLevel(_LEVELS[level])
    logger.propagate = False


def wants_colours(stream: TextIO) -> bool:
    """True if text on ``stream`` may be coloured: on a terminal, unless ``NO_COLOR`` is set or it knows no colours."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _facts_of(record: logging.LogRecord) -> dict[str, Any]:
    """With the ids of the request that is worked on, if it has some: handlers format in the thread that logs."""
    facts: dict[str, Any] = getattr(record, "facts", {})
    named = trace.current()
    if named is not None:
        facts = facts | named.facts()
    return {name: _short(value) for name, value in (_OF_PROCESS | facts).items()}


def _short(value: Any) -> Any:
    if value is None or isinstance(value, bool | float):
        return value
    if isinstance(value, int) and value.bit_length() < _JSON_INTEGER_BITS:
        return value
    text = "0x" + value.hex() if isinstance(value, bytes) else printable(str(value).replace("\r", "\\r"))
    return text if len(text) <= _FIELD_TEXT_MAX else text[:_FIELD_TEXT_MAX] + "..."


def printable(text: str) -> str:
    """``text`` as a terminal may have it: what others wrote must not move the cursor, hide lines or turn them around.

    Control characters but line break and tab, and those that change the direction of writing, become ``\\u001b`` and
    the like, which is also how JSON writes them.  Bytes that are no UTF-8 (in paths) do not break the output either.
    """
    return _CONTROL.sub(
        lambda found: f"\\u{ord(found[0]):04x}", text.encode("utf-8", "backslashreplace").decode("utf-8")
    )


_CONTROL: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def _time_of(record: logging.LogRecord) -> datetime:
    return datetime.fromtimestamp(record.created, UTC)


def one_line(record: logging.LogRecord) -> str:
    """Message and facts of an event, without line breaks; neither time nor traceback."""
    facts = " ".join(f"{name}={value}" for name, value in _facts_of(record).items())
    line = record.getMessage() + ("  " + facts if facts else "")
    return printable(line.replace("\r", "\\r").replace("\n", "\\n"))


def json_event(message: str, *, level: str, logger: str, **facts: Any) -> str:
    """A line of the log in JSON, for what is said where no logger is set up."""
    time = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
    entry = {name: _short(value) for name, value in (_OF_PROCESS | facts).items()}
    return orjson.dumps(
        entry | {"time": time, "level": level, "logger": logger, "message": printable(message)}
    ).decode()


#: Colours of a terminal by level, and of what stands beside a message.
_COLOURS: Final = {"DEBUG": "\033[2m", "INFO": "\033[32m", "WARNING": "\033[33m", "ERROR": "\033[31m"}
_FAINT: Final = "\033[2m"
_PLAIN: Final = "\033[0m"


class _LineFormatter(logging.Formatter):
    def __init__(self, *, has_colours: bool = False) -> None:
        super().__init__()
        self._has_colours = has_colours

    def format(self, record: logging.LogRecord) -> str:
        time = _time_of(record).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
        level, name = f"{record.levelname.lower():7}", record.name
        if self._has_colours:
            time, name = f"{_FAINT}{time}{_PLAIN}", f"{_FAINT}{name}{_PLAIN}"
            level = f"{_COLOURS.get(record.levelname, '')}{level}{_PLAIN}"
        # One event is one line for any text in it; only a traceback has more.
        line = f"{time}  {level}  {name}  {one_line(record)}"
        if record.exc_info:
            line += "\n" + printable(self.formatException(record.exc_info))
        return line


class _JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, Any] = {
            "time": _time_of(record).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": printable(record.getMessage()),
        }
        # The four names above cannot be taken over by a fact.
        entry = _facts_of(record) | entry
        if record.exc_info:
            entry["exception"] = printable(self.formatException(record.exc_info))
        return orjson.dumps(entry).decode()
