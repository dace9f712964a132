"""The reader of simple requests: what it answers, and what it leaves alone."""

from __future__ import annotations

import gzip
from typing import Any

import pytest
from tests.serving.sockets import post

from fastnode.kernels import cached_responses, call_meter, simple_request

RESULTS = {"node_getVersion": b"7", "node_getBlockNumber": b"106", "node_getNodeInfo": b'"%b"' % (b"i" * 1200)}
BLOCKS = {bytes(31) + b"\x07": 7}
ASKED = b'{"jsonrpc":"2.0","id":1,"method":"node_getVersion"}'


def make_reader(**options: Any) -> Any:
    results = options.setdefault("results", results_of())
    reader = simple_request.SimpleRequests(
        **{
            "head_bytes_max": 600,
            "headers_max": 12,
            "body_bytes_max": 2000,
            "depth_max": 8,
            "batch_calls_max": 5,
            "response_bytes_max": 4000,
            "coded_bytes_min": 1024,
            "source": lambda: None,
            "renew": lambda view: None,
            "choose_coding": lambda accepted: "gzip" if b"gzip" in accepted else None,
            **options,
        }
    )
    reader.set_head(b"HEAD ", b"GZIP ", b" END ")
    for name, result in RESULTS.items():
        results.add_method(name, keeps=True, shape=None, handler=None, items_max=0, read=None)
        results.keep(name, None, result)
    return reader


def results_of() -> Any:
    return cached_responses.CachedResponses(
        bytes_max=16_000,
        result_bytes_max=4000,
        find_block=lambda view, block_hash: BLOCKS.get(block_hash),
    )


def everything_read(reader: Any, data: bytes, start: int = 0, bytes_max: int = 5000) -> tuple[Any, ...]:
    answers = reader.answer(data, start, bytes_max)
    seen = (answers, reader.position, reader.count, reader.size, reader.method)
    if reader.body is not None:
        seen += (reader.body, reader.end, reader.accepted)
    if reader.method is not None:
        seen += (reader.end, reader.params, reader.id_text, reader.accepted)
    return seen


def test_requests_are_answered_up_to_the_first_without_a_result() -> None:
    other = post(b'{"method":"other","params":[1],"id":"x"}', "Accept-Encoding: gzip")
    data = post(ASKED) * 2 + other + post(ASKED)
    answer = b'HEAD 35 END {"jsonrpc":"2.0","id":1,"result":7}'
    position = 2 * len(post(ASKED))
    read = (answer * 2, position, 2, 2 * len(answer), "other", position + len(other), b"[1]", b'"x"', b"gzip")
    assert everything_read(make_reader(), data) == read


def test_a_cached_response_is_sent_packed_to_who_accepts_gzip() -> None:
    reader = make_reader()
    body = b'{"jsonrpc":"2.0","id":"a","result":"%b"}' % (b"i" * 1200)
    asked = post(b'{"id":"a","method":"node_getNodeInfo"}', "Accept-Encoding: gzip")
    for _ in range(2):
        answers = reader.answer(asked, 0, 5000)
        head, _, packed = answers.partition(b" END ")
        assert head == b"GZIP %d" % len(packed)
        assert gzip.decompress(packed) == body
    for_another = post(b'{"id":"a","method":"node_getNodeInfo"}', "Accept-Encoding: br")
    assert reader.answer(for_another, 0, 5000).startswith(b"HEAD ")


def test_a_body_in_a_coding_that_is_not_to_be_had_is_left_to_the_caller() -> None:
    reader = make_reader(choose_coding=lambda accepted: "deflate")
    asked = b'{"id":1,"method":"node_getNodeInfo"}'
    body = [b'{"jsonrpc":"2.0","id":1,"result":', b'"%b"' % (b"i" * 1200), b"}"]
    request = post(asked, "Accept-Encoding: deflate")
    assert everything_read(reader, request)[1:7] == (0, 0, 0, "node_getNodeInfo", body, len(request))
    request = post(b"[%b]" % asked, "Accept-Encoding: deflate")
    assert everything_read(reader, request)[1:7] == (0, 0, 0, None, [b"[", *body, b"]"], len(request))
    assert everything_read(reader, post(asked))[2] == 1


def test_what_is_not_simple_is_left_alone() -> None:
    reader = make_reader()
    for request in (post(b"[1]"), post(ASKED)[:-1], post(ASKED, version="1.0"), b"", post(ASKED, "Expect: x")):
        assert everything_read(reader, request) == (None, 0, 0, 0, None)


def test_answered_calls_are_counted() -> None:
    reader = make_reader()
    calls = call_meter.CallMeter(["node_getVersion", "node_getNodeInfo"], [1000, 10**12])
    batches: list[int] = []
    reader.set_meters(calls, batches.append)
    reader.answer(post(ASKED) * 2 + post(b"[%b,%b]" % (ASKED, ASKED)), 0, 5000)
    counts, nanoseconds = calls.histogram("node_getVersion")
    assert (sum(counts), batches, calls.errors("node_getVersion")) == (4, [2], {})
    assert 0 < nanoseconds < 10**12
    assert sum(calls.histogram("node_getNodeInfo")[0]) == 0
    reader.set_meters(None, None)
    reader.answer(post(ASKED), 0, 5000)
    assert sum(calls.histogram("node_getVersion")[0]) == 4


class Doubling:
    """A handler that says what it has prepared."""

    def __init__(self) -> None:
        self.prepared: list[list[tuple[Any, ...]]] = []

    def __call__(self, view: Any, number: int) -> bytes:
        return b"%d" % (2 * number)

    def prepare(self, calls: list[tuple[Any, ...]]) -> None:
        self.prepared.append(calls)


def call(name: str, params: str) -> bytes:
    return b'{"jsonrpc":"2.0","id":1,"method":"%b","params":%b}' % (name.encode(), params.encode())


def test_what_several_calls_of_a_batch_need_is_prepared_together() -> None:
    results, double = results_of(), Doubling()
    results.add_method("double", keeps=True, shape=b"n", handler=double, items_max=0, read=None)
    reader = make_reader(results=results, batch_calls_max=100, body_bytes_max=20_000)
    results.keep("double", b"[3]", b"6")
    # A kept result asks for nothing; params in another form are not looked at.
    batch = [call("double", text) for text in ("[3]", "[1]", "[2]")] + [ASKED, call("double", "[4]")]
    answers = reader.answer(post(b"[" + b",".join(batch) + b"]"), 0, 20_000, "view")
    assert [part.split(b"}")[0] for part in answers.split(b'"result":')[1:]] == [b"6", b"2", b"4", b"7", b"8"]
    assert double.prepared == [[("view", 1), ("view", 2), ("view", 4)]]
    double.prepared.clear()
    # One call alone, in a batch or not.
    for body in (
        call("double", "[5]"),
        b"[" + call("double", "[7]") + b"]",
        b"[" + ASKED + b"," + call("double", "[8]") + b"]",
    ):
        assert reader.answer(post(body), 0, 20_000, "view") is not None
    assert double.prepared == []
    # As many at a time as are worth it.
    numbers = range(100, 170)
    many = b"[" + b",".join(call("double", f"[{number}]") for number in numbers) + b"]"
    assert reader.answer(post(many), 0, 20_000, "view").count(b"result") == 70
    assert [len(calls) for calls in double.prepared] == [32, 32, 6]
    assert [number for calls in double.prepared for _, number in calls] == list(numbers)


@pytest.mark.parametrize("start", [-1, 2])
def test_a_start_outside_of_the_data_is_refused(start: int) -> None:
    with pytest.raises(ValueError, match="position"):
        make_reader().answer(b"P", start, 5000)
