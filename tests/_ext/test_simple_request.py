"""The reader of simple requests and its twin: the same requests, the same answers."""

from __future__ import annotations

import gzip
import random
from typing import Any

import pytest
from tests.serving.sockets import post
from tests.serving.two_paths import HTTP_ODDITIES, JSON_ODDITIES, random_pieces

from fastnode._twins import cached_responses as twin_results
from fastnode._twins import call_meter as twin_meter
from fastnode._twins import simple_request as twin
from fastnode.kernels import cached_responses as kernel_results
from fastnode.kernels import call_meter as kernel_meter
from fastnode.kernels import simple_request as kernel

MODULES = [kernel, twin]
RESULTS = {"node_getVersion": b"7", "node_getBlockNumber": b"106", "node_getNodeInfo": b'"%b"' % (b"i" * 1200)}
BLOCKS = {bytes(31) + b"\x07": 7}
ASKED = b'{"jsonrpc":"2.0","id":1,"method":"node_getVersion"}'


def make_reader(module: Any, **options: Any) -> Any:
    results = options.setdefault("results", results_of(module))
    reader = module.SimpleRequests(
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


def results_of(module: Any) -> Any:
    return (kernel_results if module is kernel else twin_results).CachedResponses(
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


@pytest.mark.parametrize("module", MODULES)
def test_requests_are_answered_up_to_the_first_without_a_result(module: Any) -> None:
    other = post(b'{"method":"other","params":[1],"id":"x"}', "Accept-Encoding: gzip")
    data = post(ASKED) * 2 + other + post(ASKED)
    answer = b'HEAD 35 END {"jsonrpc":"2.0","id":1,"result":7}'
    position = 2 * len(post(ASKED))
    read = (answer * 2, position, 2, 2 * len(answer), "other", position + len(other), b"[1]", b'"x"', b"gzip")
    assert everything_read(make_reader(module), data) == read


@pytest.mark.parametrize("module", MODULES)
def test_a_cached_response_is_sent_packed_to_who_accepts_gzip(module: Any) -> None:
    reader = make_reader(module)
    body = b'{"jsonrpc":"2.0","id":"a","result":"%b"}' % (b"i" * 1200)
    asked = post(b'{"id":"a","method":"node_getNodeInfo"}', "Accept-Encoding: gzip")
    for _ in range(2):
        answers = reader.answer(asked, 0, 5000)
        head, _, packed = answers.partition(b" END ")
        assert head == b"GZIP %d" % len(packed)
        assert gzip.decompress(packed) == body
    for_another = post(b'{"id":"a","method":"node_getNodeInfo"}', "Accept-Encoding: br")
    assert reader.answer(for_another, 0, 5000).startswith(b"HEAD ")


@pytest.mark.parametrize("module", MODULES)
def test_a_body_in_a_coding_that_is_not_to_be_had_is_left_to_the_caller(module: Any) -> None:
    reader = make_reader(module, choose_coding=lambda accepted: "deflate")
    asked = b'{"id":1,"method":"node_getNodeInfo"}'
    body = [b'{"jsonrpc":"2.0","id":1,"result":', b'"%b"' % (b"i" * 1200), b"}"]
    request = post(asked, "Accept-Encoding: deflate")
    assert everything_read(reader, request)[1:7] == (0, 0, 0, "node_getNodeInfo", body, len(request))
    request = post(b"[%b]" % asked, "Accept-Encoding: deflate")
    assert everything_read(reader, request)[1:7] == (0, 0, 0, None, [b"[", *body, b"]"], len(request))
    assert everything_read(reader, post(asked))[2] == 1


@pytest.mark.parametrize("module", MODULES)
def test_what_is_not_simple_is_left_alone(module: Any) -> None:
    reader = make_reader(module)
    for request in (post(b"[1]"), post(ASKED)[:-1], post(ASKED, version="1.0"), b"", post(ASKED, "Expect: x")):
        assert everything_read(reader, request) == (None, 0, 0, 0, None)


@pytest.mark.parametrize("meters", [kernel_meter, twin_meter])
def test_answered_calls_are_counted(meters: Any) -> None:
    module = kernel if meters is kernel_meter else twin
    reader = make_reader(module)
    calls = meters.CallMeter(["node_getVersion", "node_getNodeInfo"], [1000, 10**12])
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


@pytest.mark.parametrize("module", MODULES)
def test_what_several_calls_of_a_batch_need_is_prepared_together(module: Any) -> None:
    results, double = results_of(module), Doubling()
    results.add_method("double", keeps=True, shape=b"n", handler=double, items_max=0, read=None)
    reader = make_reader(module, results=results, batch_calls_max=100, body_bytes_max=20_000)
    results.keep("double", b"[3]", b"6")
    # What is kept asks for nothing; what is not in the usual form is not looked at.
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
    # Of many, as many at a time as are worth it.
    numbers = range(100, 170)
    many = b"[" + b",".join(call("double", f"[{number}]") for number in numbers) + b"]"
    assert reader.answer(post(many), 0, 20_000, "view").count(b"result") == 70
    assert [len(calls) for calls in double.prepared] == [32, 32, 6]
    assert [number for calls in double.prepared for _, number in calls] == list(numbers)


@pytest.mark.parametrize("module", MODULES)
@pytest.mark.parametrize("start", [-1, 2])
def test_a_start_outside_of_the_data_is_refused(module: Any, start: int) -> None:
    with pytest.raises(ValueError, match="position"):
        make_reader(module).answer(b"P", start, 5000)


@pytest.mark.parametrize("start", [0, 7])
def test_kernel_and_twin_read_random_streams_alike(start: int) -> None:
    for seed in range(4000):
        rng = random.Random(seed)
        limits = {"depth_max": rng.choice([3, 8]), "headers_max": rng.choice([2, 12])}
        readers = [make_reader(module, **limits) for module in MODULES]
        for piece in random_pieces(rng):
            data = b"x" * start + piece
            first, second = (everything_read(reader, data, start, 900) for reader in readers)
            assert first == second, data


def test_kernel_and_twin_read_oddities_alike() -> None:
    readers = [make_reader(module) for module in MODULES]
    for request in (*HTTP_ODDITIES, *map(post, JSON_ODDITIES)):
        first, second = (everything_read(reader, request * 2) for reader in readers)
        assert first == second, request
