"""Answers of another server: which ones count, and what they may take in memory."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import orjson
import pytest

from fastnode.app.stages.derivation import DERIVING_THREADS
from fastnode.bus.upstream import CACHE_BYTES_MAX
from fastnode.errors import AnswerTooLarge, UpstreamFault, UpstreamRateLimited
from fastnode.outgoing.answer_room import LargeOnesByTurns, ahead_of_use
from fastnode.outgoing.client import RpcClient, _memory_of
from fastnode.outgoing.network import Answer, ClientLimits
from fastnode.sources.upstream import PAGES_AHEAD

MIB = 1 << 20


class Upstream:
    """A network whose other end says the same to everything."""

    def __init__(self, body: bytes, status: int = 200) -> None:
        self.body, self.status = body, status

    def post(self, url: str, body: bytes, limits: ClientLimits, headers: Mapping[str, str] | None = None) -> Answer:
        return Answer(self.status, self.body)


def ask(result: bytes, memory_bytes_max: int) -> Any:
    network: Any = Upstream(b'{"jsonrpc":"2.0","id":0,"result":%b}' % result)
    client = RpcClient("http://upstream", network, ClientLimits(memory_bytes_max=memory_bytes_max))
    return client.ask([("node_getBlocks", [1, 50])]).results()[0]


def test_an_answer_of_hex_is_read_and_one_of_containers_refused() -> None:
    """Of one length: texts take about three times their bytes, empty arrays thirty times."""
    texts = orjson.dumps([f"0x{number:064x}" for number in range(30_000)])
    arrays = b"[" + b"[]," * (len(texts) // 3) + b"0]"
    assert len(ask(texts, 16 * MIB)) == 30_000
    with pytest.raises(UpstreamFault, match=rf"would take more than {16 * MIB} bytes to read"):
        ask(arrays, 16 * MIB)


@pytest.mark.parametrize("status", [300, 301, 302, 303, 304, 307, 308])
def test_a_redirect_is_no_answer_whatever_stands_in_it(status: int) -> None:
    network: Any = Upstream(b'{"jsonrpc":"2.0","id":0,"result":1}', status)
    client = RpcClient("http://upstream", network)
    with pytest.raises(UpstreamFault, match=rf"HTTP status {status}: it redirects; name the address"):
        client.ask([("node_getBlockNumber", [])])
    network.status = 400
    assert client.ask([("node_getBlockNumber", [])]).results() == [1], "published nodes give errors with it"


def test_an_answer_that_is_fetched_ahead_of_its_use_may_take_less() -> None:
    texts = orjson.dumps([f"0x{number:064x}" for number in range(150_000)])
    with ahead_of_use(), pytest.raises(AnswerTooLarge, match=rf"would take more than {16 * MIB} bytes to read"):
        ask(texts, 256 * MIB)
    assert len(ask(texts, 256 * MIB)) == 150_000


def test_what_a_followed_node_and_a_bus_take_together_is_256_mib() -> None:
    limits = ClientLimits()
    with ahead_of_use():
        ahead = limits.here
    assert limits.memory_bytes_max + (PAGES_AHEAD - 1) * ahead.memory_bytes_max + CACHE_BYTES_MAX <= 256 * MIB


def test_what_l1_and_places_of_blobs_take_together_is_280_mib() -> None:
    """A thread looks at its newest block, one reads logs, and those that derive share one turn for what is large."""
    limits = ClientLimits.of_provider(1.0)
    usual = LargeOnesByTurns().run(lambda: limits.here)
    assert 3 * limits.memory_bytes_max + DERIVING_THREADS * usual.memory_bytes_max <= 280 * MIB


def test_large_answers_are_used_one_at_a_time_and_usual_ones_beside_them() -> None:
    turns, limits, count = LargeOnesByTurns(), ClientLimits.of_provider(1.0), 8
    using, all_small = Counter[str](), threading.Barrier(count)
    most = Counter[str]()

    def use(size: int) -> None:
        kind = "large" if limits.here.response_bytes_max == limits.response_bytes_max else "usual"
        if size > limits.here.response_bytes_max:
            raise AnswerTooLarge("it is too large")
        using[kind] += 1
        most[kind] = max(most[kind], using[kind])
        if kind == "usual":
            all_small.wait(30)
        else:
            time.sleep(0.002)
        using[kind] -= 1

    for size in (2 * MIB, 8 * MIB):
        with ThreadPoolExecutor(count) as threads:
            list(threads.map(lambda _, size=size: turns.run(lambda: use(size)), range(count)))
    assert most == {"usual": count, "large": 1}
    with pytest.raises(AnswerTooLarge):
        turns.run(lambda: use(100 * MIB))


#: A server in another thread, and how much the process grows by, at most, while the largest answer is read from it.
LARGEST = """
import http.server, orjson, threading
from fastnode.outgoing.client import RpcClient
from fastnode.outgoing.network import Network
body = orjson.dumps({"jsonrpc": "2.0", "id": 0, "result": [f"0x{each:064x}" for each in range(540_000)]})
class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *arguments):
        pass
server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
def resident(name):
    return int(next(line for line in open("/proc/self/status") if line.startswith(name)).split()[1]) * 1024
before = resident("VmRSS")
open("/proc/self/clear_refs", "w").write("5")
with Network() as network:
    [found] = RpcClient(f"http://127.0.0.1:{server.server_port}", network).ask([("node_getBlocks", [1, 50])]).results()
assert len(found) == 540_000
print(resident("VmHWM") - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="what a process grew by is read from /proc")
def test_the_largest_answer_of_a_server_takes_no_more_than_it_may() -> None:
    found = subprocess.run([sys.executable, "-c", LARGEST], capture_output=True, text=True, check=True, timeout=60)
    assert 37 * MIB < int(found.stdout) < ClientLimits().memory_bytes_max


#: Says how many bytes the process grew by, at most, while it read the text that ``sys.argv[1]`` makes.
GROWTH = """
import sys, orjson
text = eval(sys.argv[1])
def resident(name):
    return int(next(line for line in open("/proc/self/status") if line.startswith(name)).split()[1]) * 1024
before = resident("VmRSS")
open("/proc/self/clear_refs", "w").write("5")
value = orjson.loads(text)
print(resident("VmHWM") - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads the peak of memory from /proc")
@pytest.mark.parametrize(
    "text",
    [
        'b"[" + b"[]," * 300_000 + b"0]"',
        'b"[" + b"{}," * 300_000 + b"0]"',
        """b"[" + b'{"a":0},' * 200_000 + b"0]" """,
        """b"[" + b'{"a":0,"b":0,"c":0,"d":0,"e":0,"f":0},' * 50_000 + b"0]" """,
        'b"[" + b"0.5," * 500_000 + b"0]"',
        """b"[" + b'"ab",' * 400_000 + b"0]" """,
        """b"{" + b",".join(b'"%x":0' % number for number in range(200_000)) + b"}" """,
        """b'["' + "\\U0001f600".encode() + b"a" * 4_000_000 + b'"]' """,
        """b'["\\\\ud83d\\\\ude00' + b"a" * 4_000_000 + b'"]' """,
    ],
    ids=["arrays", "objects", "members", "six members", "numbers", "texts", "names", "wide", "escaped"],
)
def test_no_json_takes_more_than_it_is_taken_to_need(text: str) -> None:
    found = subprocess.run([sys.executable, "-c", GROWTH, text], capture_output=True, text=True, check=True)
    body: bytes = eval(text)
    assert int(found.stdout) <= _memory_of(body) - len(body) + MIB


# ---- tolerance, and quoting ------------------------------------------------------------------------


def answers_to(body: bytes, status: int = 200, calls: int = 1, url: str = "http://upstream") -> list[Any]:
    network: Any = Upstream(body, status)
    return RpcClient(url, network).ask([("eth_blockNumber", [])] * calls).answers


@pytest.mark.parametrize(
    "body",
    [
        b'{"jsonrpc":"2.0","id":0,"result":"0x1","error":null}',
        b'{"jsonrpc":"2.0","id":"0","result":"0x1"}',
        b'{"jsonrpc":"2.0","id":0.0,"result":"0x1"}',
        b'{"jsonrpc":"2.0","id":null,"result":"0x1"}',
        b'{"result":"0x1"}',
        b'\xef\xbb\xbf{"jsonrpc":"2.0","id":0,"result":"0x1"}',
        b'[{"jsonrpc":"2.0","id":0,"result":"0x1"}]',
        b'  \r\n{"jsonrpc":"2.0","id":0,"result":"0x1"}\r\n',
    ],
)
@pytest.mark.parametrize("status", [200, 201, 202])
def test_answers_that_other_clients_read_are_read(body: bytes, status: int) -> None:
    assert answers_to(body, status) == ["0x1"]


def test_ids_of_a_batch_may_be_texts_or_floats() -> None:
    body = b'[{"id":"1","result":"b","error":null},{"id":0.0,"result":"a"}]'
    assert answers_to(body, calls=2) == ["a", "b"]


@pytest.mark.parametrize(
    "body",
    [
        b"{}",
        b"[]",
        b'{"id":true,"result":1}',
        b'{"id":7,"result":1}',
        b'{"id":0.5,"result":1,"jsonrpc":"2.0"}x',
        b'[{"id":null,"result":1},{"id":null,"result":2}]',
    ],
)
def test_an_answer_that_may_be_to_another_call_is_refused(body: bytes) -> None:
    with pytest.raises(UpstreamFault):
        answers_to(body, calls=2 if body.count(b"null") == 2 else 1)


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (b'{"code":-32000,"message":"away"}', -32000, "away"),
        (b'{"code":"-32005","message":"away"}', -32005, "away"),
        (b'{"message":"away"}', -32000, "away"),
        (b'"away"', -32000, "away"),
        (b'{"code":-32000,"reason":"away"}', -32000, '{"code":-32000,"reason":"away"}'),
    ],
)
def test_errors_of_other_forms_are_errors(error: bytes, code: int, message: str) -> None:
    [answer] = answers_to(b'{"jsonrpc":"2.0","id":0,"error":%b}' % error)
    assert (answer.code, answer.message) == (code, message)


@pytest.mark.parametrize("status", [401, 403])
@pytest.mark.parametrize(
    "body",
    [
        b'{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"invalid project id"}}',
        b'{"message":"invalid project id"}',
        b'{"error":"invalid project id"}',
    ],
)
@pytest.mark.parametrize("calls", [1, 3])
def test_what_a_provider_says_about_a_wrong_key_is_quoted(body: bytes, status: int, calls: int) -> None:
    with pytest.raises(UpstreamFault, match=rf"^HTTP status {status}: invalid project id \(check the URL and its API"):
        answers_to(body, status, calls)


def test_the_beginning_of_an_answer_that_cannot_be_read_is_quoted_without_secrets() -> None:
    url = "https://user:pass-word@rpc.provider.example/v2/0123456789abcdef?token=s3cret"
    body = b"<html>rpc.provider.example has no key 0123456789abcdef, s3cret, pass-word " + b"x" * 1_000
    with pytest.raises(UpstreamFault) as caught:
        answers_to(body, url=url)
    text = str(caught.value)
    assert text.startswith("its answer is not JSON: b'<html>(its address) has no key (secret), (secret), (secret) xxx")
    assert 200 < len(text) < 260
    with pytest.raises(UpstreamFault, match=r"^HTTP status 404: b'no such route'$"):
        answers_to(b"no such route", 404)


def test_too_many_requests_is_an_error_of_its_own_with_the_reason_of_the_provider() -> None:
    body = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32005,"message":"15/second request limit reached"}}'
    for status in (429, 503, 403):
        with pytest.raises(UpstreamRateLimited, match=f"HTTP status {status}: 15/second request limit reached"):
            answers_to(body, status)
