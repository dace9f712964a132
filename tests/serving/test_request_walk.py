"""The way of a request on the strict path: the modules that run lines for it, and no others, are those of the docs."""

import asyncio
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from tests.serving.two_paths import METHODS, Side

import fastnode
from fastnode.http.messages import ResponseWriter
from fastnode.jsonrpc.methods import MethodTable
from fastnode.view import View

PACKAGE = Path(fastnode.__file__).parent
PAGE = PACKAGE.parent.parent / "docs" / "architecture.md"
BODY = b'{"jsonrpc":"2.0","id":1,"method":%b}'
#: No usual head: the target has a query.
REQUEST = b"POST /? HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"


def modules_run_by(action: Callable[[], None]) -> set[str]:
    """Modules of the package, kernels and their twins left out."""
    seen = set()

    def note(frame: FrameType, event: str, argument: Any) -> None:
        file = Path(frame.f_code.co_filename)
        if file.is_relative_to(PACKAGE) and file.parent.name != "_twins":
            seen.add(file.relative_to(PACKAGE).as_posix())

    before = sys.gettrace()
    sys.settrace(note)
    try:
        action()
    finally:
        sys.settrace(before)
    return seen


def walk_of(view: View, loop_runner: asyncio.Runner, call: bytes) -> tuple[set[str], bytes]:
    """The modules that run lines for a call that is asked for the second time, and its answer."""
    side = Side(view, ResponseWriter(65.0), MethodTable(METHODS), is_fast=True, omits_absent=False)
    connection = side.connect()
    body = BODY % call
    request = REQUEST % (len(body), body)
    connection.data_received(request)  # what is imported or made once
    side.wire.take()
    before = len(side.wire.sent)
    ran = modules_run_by(lambda: connection.data_received(request))
    return ran, bytes(side.wire.sent[before:])


def test_a_request_runs_the_modules_that_the_walk_names(view: View, loop_runner: asyncio.Runner) -> None:
    ran, answer = walk_of(view, loop_runner, b'"node_getBlock","params":[5]')
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    walk = re.search(r"\*\*A request\*\*.*?:\n(`.*?)\.$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    assert walk is not None
    assert ran == set(re.findall(r"`([\w/]+\.py)`", walk[1]))
