"""A start that waits: its ports answer the probes meanwhile, and the log says what it waits for."""

from __future__ import annotations

import asyncio
import gzip
import http.client
import json
import logging
import random
import threading
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.attacks import hasty_node
from tests.conftest import PATIENCE_S, NodeProcess
from tests.http_stand_in import HttpStandIn, answer
from tests.sources.made_chain import MadeChain, made_chain
from tests.sources.scripted_upstream import ScriptedUpstream

from fastnode.app.ground import start_wait as start_wait
from fastnode.app.ground.start_wait import Interruption, StartWait
from fastnode.app.process.node import Node
from fastnode.app.stages.ingestion import IngestionThread
from fastnode.config.settings import Settings
from fastnode.storage.database import databases_without_seal

Start = Callable[..., NodeProcess]


@pytest.fixture
def chain(tmp_path: Path) -> Iterator[MadeChain]:
    with made_chain(tmp_path / "made") as chain:
        chain.checkpoint(1)
        yield chain


def ask(port: int, path: str, body: bytes | None = None, **headers: str) -> tuple[int, str, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET" if body is None else "POST", path, body, headers)
        response = connection.getresponse()
        return response.status, response.read().decode(), response.headers
    finally:
        connection.close()


@pytest.mark.parametrize("seed", range(2))
def test_first_answers_that_make_no_sense_are_asked_for_again_like_later_ones(
    tmp_path: Path, start_node: Start, chain: MadeChain, seed: int
) -> None:
    """A proxy in front of the followed node has its bad moments, also between two questions of the start."""
    dice, upstream, spoiled = random.Random(seed), ScriptedUpstream(chain), 0
    upstream.start()

    def respond(handler: Any, body: bytes) -> None:
        nonlocal spoiled
        with urllib.request.urlopen(urllib.request.Request(upstream.url, body)) as response:
            content = response.read()
        if spoiled < 4 and dice.random() < 0.5:
            spoiled += 1
            content = dice.choice([b"<html>502 Bad Gateway</html>", content[: len(content) // 2], b"[]", b"{}", b""])
        answer(handler, content)

    try:
        with HttpStandIn(respond) as proxy:
            flags = ("--upstream-url", proxy.url, "--data-directory", tmp_path / "data")
            node = start_node(*flags, module=hasty_node.MODULE, PYTHONPATH=hasty_node.ROOT)
            node.wait_until_serving()
            assert spoiled > 0
            for entry in node.entries():  # there is no other one to follow: what is said of the pause holds
                assert entry.get("seconds_if_alone", 0) <= 5, entry
                assert "seconds_if_alone" in entry or not entry["message"].startswith("upstream put aside")
            assert node.stop() == 0
    finally:
        upstream.stop()


def test_the_ports_are_open_while_the_first_upstream_is_awaited(
    tmp_path: Path, start_node: Start, chain: MadeChain
) -> None:
    upstream = ScriptedUpstream(chain)
    node = start_node("--upstream-url", upstream.url, "--data-directory", tmp_path / "data", "--api-prefix=/aztec")
    listening = node.wait_for_line("listening")
    node.wait_for_line("upstream unavailable")
    reason = "it waits for an upstream: upstream 1 is unavailable: cannot connect"
    for port in (listening["port"], listening["admin_port"]):
        assert ask(port, "/livez")[:2] == (200, "OK")
        status, text, _ = ask(port, "/readyz")
        assert (status, reason in text) == (503, True)
        assert ask(port, "/aztec/readyz")[0] == 503
        assert json.loads(ask(port, "/status", Accept="application/json")[1])["components"]["start"]["ok"] is False
    question = b'{"jsonrpc":"2.0","id":1,"method":"node_getBlockNumber"}'
    status, text, headers = ask(listening["port"], "/", question)
    assert (status, headers["Retry-After"]) == (503, "1")
    answer = json.loads(text)
    error = answer.pop("error")
    assert answer == {"jsonrpc": "2.0", "id": 1}
    assert (error["code"], error["data"]) == (-32000, {"code": "STARTING"})
    assert reason in error["message"]
    assert "127.0.0.1" not in error["message"]
    require_one_envelope(listening["port"], question)
    require_a_page(listening["port"], listening["admin_port"])
    upstream.start()
    try:
        node.wait_until_serving()
        assert (node.port, node.admin_port) == (listening["port"], listening["admin_port"])
        assert ask(node.port, "/livez")[0] == 200
        assert "result" in node.call("node_getBlockNumber")
        assert node.stop() == 0
    finally:
        upstream.stop()


def require_a_page(port: int, admin_port: int) -> None:
    """A browser gets a page at the admin port, every other client the error."""
    for path in ("/", "/aztec/"):
        status, page, headers = ask(admin_port, path, Accept="text/html,application/xhtml+xml,*/*;q=0.8")
        assert (status, headers["Content-Type"], headers["Retry-After"]) == (503, "text/html; charset=utf-8", "1")
        assert "default-src 'none'" in headers["Content-Security-Policy"]
        assert "Stage 2 of 4" in page
        assert "Waiting for an upstream: upstream 1 is unavailable: cannot connect" in page
        assert 'http-equiv="refresh"' in page
    style = ask(admin_port, "/status-page/page.css")
    assert (style[0], style[2]["Content-Type"].partition(";")[0]) == (200, "text/css")
    for other in (ask(admin_port, "/"), ask(port, "/", Accept="text/html"), ask(admin_port, "/", b"{}")):
        assert other[0] == 503
        assert "error" in json.loads(other[1])


def test_a_fork_reports_how_much_is_copied(start_node: Start, chain: MadeChain) -> None:
    for _ in range(3):
        chain.checkpoint(1)
    upstream, is_asked, is_free = ScriptedUpstream(chain), threading.Event(), threading.Event()
    upstream.answers["node_getBlockNumber"] = lambda _: len(chain.blocks)
    upstream.start()

    def respond(handler: Any, body: bytes) -> None:
        if b"node_getCheckpoints" in body:
            is_asked.set()
            is_free.wait(PATIENCE_S)
        with urllib.request.urlopen(urllib.request.Request(upstream.url, body)) as response:
            answer(handler, response.read())

    try:
        with HttpStandIn(respond) as proxy:
            node = start_node("--local-network", "--no-test-accounts", "--fork-from", proxy.url)
            try:
                assert is_asked.wait(PATIENCE_S)
                port = node.wait_for_line("listening")["admin_port"]
                page = ask(port, "/", Accept="text/html")[1]
            finally:
                is_free.set()
            shown = f"Waiting for the copy of {proxy.url}: block 0 of 4 is stored"
            assert shown in page
            assert '<progress max="4" value="0">' in page
            node.wait_until_serving()
            assert node.stop() == 0
    finally:
        upstream.stop()


def require_one_envelope(port: int, question: bytes) -> None:
    """A node that starts answers calls one by one, in the envelope that they have later."""

    def codes(body: bytes, **headers: str) -> list[tuple[Any, Any]]:
        status, text, fields = ask(port, "/", body, **headers)
        assert (status, fields["Retry-After"]) == (503, "1")
        answers = json.loads(text)
        assert isinstance(answers, list) is body.startswith(b"[{")
        every = answers if isinstance(answers, list) else [answers]
        return [(each["id"], each["error"].get("data", {}).get("code", each["error"]["code"])) for each in every]

    notification = b'{"jsonrpc":"2.0","method":"node_getBlockNumber"}'
    assert codes(question) == [(1, "STARTING")]
    assert codes(question.replace(b'"id":1', b'"id":"\\u0061\\n"')) == [("a\n", "STARTING")]
    assert codes(b"[%b,%b,7]" % (question, notification)) == [(1, "STARTING"), (None, -32600)]
    assert codes(b"[%b]" % b",".join([question] * 100)) == [(1, "STARTING")] * 100
    assert codes(b"[]")[0] == (None, -32600)
    assert codes(b"{", **{"Content-Type": "application/json"})[0] == (None, -32700)
    assert codes(b'{"jsonrpc":"1.0","id":1,"method":"x"}') == [(1, -32600)]
    long = question.replace(b'"id":1', b'"id":2,"params":["\\n%b"]' % random.Random(0).randbytes(60_000).hex().encode())
    assert codes(long) == [(2, "STARTING")]
    assert codes(gzip.compress(question), **{"Content-Encoding": "gzip"}) == [(1, "STARTING")]
    assert codes(gzip.compress(long), **{"Content-Encoding": "gzip"}) == [(2, "STARTING")]
    for body in (notification, b"[%b,%b]" % (notification, notification)):
        status, text, fields = ask(port, "/", body)
        assert (status, text, fields["Content-Length"]) == (204, "", None)


def test_a_connection_that_was_opened_before_the_node_serves_is_kept_by_it(
    tmp_path: Path, start_node: Start, chain: MadeChain
) -> None:
    upstream = ScriptedUpstream(chain)
    node = start_node("--upstream-url", upstream.url, "--data-directory", tmp_path / "data")
    port = node.wait_for_line("listening")["port"]
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", "/readyz")
    assert connection.getresponse().read()
    opened_from = connection.sock.getsockname()[1]
    upstream.start()
    try:
        node.wait_until_serving()
        connection.request("POST", "/", b'{"jsonrpc":"2.0","id":1,"method":"node_getBlockNumber"}')
        assert "result" in json.loads(connection.getresponse().read())
        assert connection.sock.getsockname()[1] == opened_from, "it is the same one"
    finally:
        connection.close()
        upstream.stop()


def test_a_line_now_and_then_says_what_is_awaited(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(start_wait, "LINE_INTERVAL_S", 0.01)
    start = StartWait()

    async def run() -> None:
        telling = asyncio.ensure_future(start.tell())
        with start.waiting_for(lambda: "a snapshot"):
            while len(caplog.records) < 2:
                await asyncio.sleep(0.001)
        telling.cancel()

    with caplog.at_level(logging.INFO, "fastnode.app"):
        asyncio.run(asyncio.wait_for(run(), 60))
    assert {record.message for record in caplog.records} == {"still starting"}
    facts: Any = caplog.records[0]
    assert facts.facts["waiting_for"] == "a snapshot"
    assert start.reason() == "its databases"


def test_a_wait_that_logs_its_changes_itself_is_quiet(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(start_wait, "LINE_INTERVAL_S", 0.01)
    start, told = StartWait(), []
    monkeypatch.setattr(start_wait, "notify", told.append)

    async def run() -> None:
        telling = asyncio.ensure_future(start.tell())
        with start.waiting_for(lambda: "a rollup", lambda: True):
            while len(told) < 2:
                await asyncio.sleep(0.001)
            assert caplog.records == []
        while not caplog.records:
            await asyncio.sleep(0.001)
        telling.cancel()

    with caplog.at_level(logging.INFO, "fastnode.app"):
        asyncio.run(asyncio.wait_for(run(), 60))
    assert told[0].endswith("STATUS=waiting for a rollup"), "a service manager is told all the same"


def test_a_cancelled_start_interrupts_its_thread_and_waits_for_it() -> None:
    start, ended = StartWait(), []

    def work() -> None:
        while not start.interruption.is_set():
            pass
        ended.append(True)

    async def run() -> None:
        task = asyncio.ensure_future(start.in_thread(work))
        await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(run())
    assert ended == [True]


def test_a_stop_that_comes_as_the_start_ends_closes_the_node(
    tmp_path: Path, short_chain: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last thing that a start does is to begin with the chain."""
    settings = Settings(
        port=0,
        admin_port=0,
        metrics_port=0,
        data_directory=tmp_path / "data",
        chain_file=short_chain,
        disable_admin_api_key=True,
    )
    begin = IngestionThread.start

    async def run() -> None:
        starting = asyncio.ensure_future(Node.start(settings))

        def begin_and_stop(thread: IngestionThread) -> None:
            begin(thread)
            asyncio.get_running_loop().call_soon(starting.cancel)

        monkeypatch.setattr(IngestionThread, "start", begin_and_stop)
        await asyncio.wait((starting,))
        if not starting.cancelled():  # it was over before
            await starting.result().stop()

    asyncio.run(asyncio.wait_for(run(), PATIENCE_S))
    assert [path for path in databases_without_seal() if tmp_path in path.parents] == []
    assert "fastnode-ingestion" not in [thread.name for thread in threading.enumerate()]


def test_an_interruption_calls_what_is_registered_also_when_it_came_first() -> None:
    interruption, called = Interruption(), []
    with interruption.calls(lambda: called.append("under way")):
        interruption.set()
    with interruption.calls(lambda: called.append("too late")):
        pass
    interruption.set()
    assert called == ["under way", "too late"]
