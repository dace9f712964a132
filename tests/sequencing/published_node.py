"""The published node, booted by a command that the environment names.

FASTNODE_TEST_REFERENCE    ``start L1_PORT PORT ADMIN_PORT 0`` and ``stop PORT``; its settings come from the
                           environment, ROLE=sequencer and KEYS among them
FASTNODE_TEST_BLOBS        a folder for blobs; behind a colon how the published node sees it, if it does otherwise
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

from tests.ports import free_port

from fastnode.development.accepted_differences import documented_row

READY_S = 600.0
QUESTIONS = 1000
#: Until two nodes that follow a chain that stands still have seen the same of it.
SAME_S = 180.0
COMMAND = shlex.split(os.environ.get("FASTNODE_TEST_REFERENCE", ""))
_HERE, _, _THERE = os.environ.get("FASTNODE_TEST_BLOBS", "").partition(":")
#: Where nodes of this project, and the published one, find the folder of blobs; empty without one.
BLOBS_HERE, BLOBS_THERE = _HERE, _THERE or _HERE
IS_THERE = bool(COMMAND and BLOBS_HERE)


def ask(port: int, method: str, *params: Any) -> Any:
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    request = Request(f"http://127.0.0.1:{port}", body, {"Content-Type": "application/json"})
    with urlopen(request, timeout=READY_S) as answer:
        document = json.load(answer)
    assert "error" not in document, document
    return document.get("result")


def wait_for(is_so: Callable[[], Any]) -> None:
    deadline = time.monotonic() + READY_S
    while time.monotonic() < deadline:
        try:
            if is_so():
                return
        except (URLError, OSError, AssertionError):
            pass
        time.sleep(0.5)
    raise AssertionError("nothing answers")


@contextmanager
def published_node(l1_port: int, l1_slot_s: int, blobs: str = "", **environment: str) -> Iterator[int]:
    """Its port.  ``blobs``: a folder below the one that is named for them."""
    port, admin = free_port(), free_port()
    store = f"file://{BLOBS_THERE}" + (f"/{blobs}" if blobs else "")
    settings = {
        "L1_SLOT": str(l1_slot_s),
        "BLOB_ALLOW_EMPTY_SOURCES": "true",
        "BLOB_FILE_STORE_URLS": store,
        **environment,
    }
    start = [*COMMAND, "start", str(l1_port), str(port), str(admin), "0"]
    subprocess.run(start, env=os.environ | settings, check=False, stdout=subprocess.DEVNULL)
    try:
        wait_for(lambda: ask(port, "node_getL2Tips"))
        yield port
    finally:
        subprocess.run([*COMMAND, "stop", str(port)], check=True, stdout=subprocess.DEVNULL)


def require_same_answers(fastnode: int, published: int) -> None:
    """To questions about their newest blocks, once both have the same tips."""
    deadline = time.monotonic() + SAME_S
    while True:
        ours, theirs = (ask(port, "node_getL2Tips") for port in (fastnode, published))
        if ours == theirs or documented_row(("node_getL2Tips", []), ours, theirs):
            break
        assert time.monotonic() < deadline, (ours, theirs)
        time.sleep(0.5)
    urls = [f"http://127.0.0.1:{port}" for port in (fastnode, published)]
    command = [sys.executable, "-m", "fastnode.development.compare_nodes", *urls, "--queries", str(QUESTIONS)]
    compared = subprocess.run([*command, "--blocks", "300"], capture_output=True, text=True, check=False)
    print(compared.stdout)
    assert compared.returncode == 0, compared.stdout + compared.stderr
