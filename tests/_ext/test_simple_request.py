"""The reader of simple requests: what it answers, and what it leaves alone."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest
from tests.serving.sockets import post

from fastnode.errors import ServerError
from fastnode.kernels import cached_responses, call_meter, calls, simple_request

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
            "coded_bytes_min": 1024,
            "omits_absent": False,
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


def results_of(result_bytes_max: int = 4000) -> Any:
    return cached_responses.CachedResponses(
        bytes_max=16_000,
        result_bytes_max=result_bytes_max,
        find_block=lambda view, block_hash: BLOCKS.get(block_hash),
    )


def everything_read(reader: Any, data: bytes, start: int = 0, bytes_max: int = 5000) -> tuple[Any, ...]:
    """Answers; of a request that is handed over its calls, how many have results, and what is accepted."""
    answers = reader.answer(data, start, bytes_max)
    seen = (answers, reader.position, reader.count, reader.size)
    if reader.calls is None:
        return seen
    asked, outcomes = reader.calls, reader.outcomes
    made = outcomes.next_pending()
    whole = calls.render(asked, outcomes) if made == len(asked) else None
    return (*seen, [asked[index] for index in range(len(asked))], made, whole, reader.end, reader.accepted)


def test_requests_are_answered_up_to_the_first_without_a_result() -> None:
    other = post(b'{"method":"other","params":[1],"id":"x"}', "Accept-Encoding: gzip")
    data = post(ASKED) * 2 + other + post(ASKED)
    answer = b'HEAD 35 END {"jsonrpc":"2.0","id":1,"result":7}'
    position = 2 * len(post(ASKED))
    read = (answer * 2, position, 2, 2 * len(answer))
    handed_over = ([("other", [1], b'"x"')], 0, None, position + len(other), b"gzip")
    assert everything_read(make_reader(), data) == read + handed_over


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


@pytest.mark.parametrize(("omits_absent", "member"), [(False, b',"result":null'), (True, b"")])
def test_an_absent_result_is_null_or_left_out(omits_absent: bool, member: bytes) -> None:
    results = results_of()
    reader = make_reader(results=results, omits_absent=omits_absent)
    results.keep("node_getVersion", None, b"")
    single = b'{"jsonrpc":"2.0","id":1%b}' % member
    assert reader.answer(post(ASKED), 0, 5000) == b"HEAD %d END %b" % (len(single), single)
    batch = b"[" + b",".join([single] * 3) + b"]"
    assert reader.answer(post(b"[" + b",".join([ASKED] * 3) + b"]"), 0, 5000) == b"HEAD %d END %b" % (len(batch), batch)
    mixed = b'[%b,{"id":"a","method":"node_getNodeInfo"}]' % ASKED
    head, _, packed = reader.answer(post(mixed, "Accept-Encoding: gzip"), 0, 5000).partition(b" END ")
    assert head == b"GZIP %d" % len(packed)
    assert gzip.decompress(packed) == b'[%b,{"jsonrpc":"2.0","id":"a","result":%b}]' % (
        single,
        RESULTS["node_getNodeInfo"],
    )


def test_a_body_in_a_coding_that_is_not_to_be_had_is_left_to_the_caller() -> None:
    reader = make_reader(choose_coding=lambda accepted: "deflate")
    asked = b'{"id":1,"method":"node_getNodeInfo"}'
    body = [b'{"jsonrpc":"2.0","id":1,"result":', b'"%b"' % (b"i" * 1200), b"}"]
    entry = ("node_getNodeInfo", [], b"1")
    request = post(asked, "Accept-Encoding: deflate")
    assert everything_read(reader, request) == (None, 0, 0, 0, [entry], 1, body, len(request), b"deflate")
    request = post(b"[%b]" % asked, "Accept-Encoding: deflate")
    batch = [b"[" + body[0], body[1], b"}]"]
    assert everything_read(reader, request) == (None, 0, 0, 0, [entry], 1, batch, len(request), b"deflate")
    assert everything_read(reader, post(asked))[2] == 1


def test_what_is_not_simple_is_left_alone() -> None:
    reader = make_reader()
    for request in (post(b"[1]"), post(ASKED)[:-1], post(ASKED, version="1.0"), b"", post(ASKED, "Expect: x")):
        assert everything_read(reader, request) == (None, 0, 0, 0)


def test_answered_calls_are_counted() -> None:
    reader = make_reader()
    meter = call_meter.CallMeter(["node_getVersion", "node_getNodeInfo"], [1000, 10**12])
    batches: list[int] = []
    reader.set_meters(meter, batches.append)
    reader.answer(post(ASKED) * 2 + post(b"[%b,%b]" % (ASKED, ASKED)), 0, 5000)
    counts, nanoseconds = meter.histogram("node_getVersion")
    assert (sum(counts), batches, meter.errors("node_getVersion")) == (4, [2], {})
    assert 0 < nanoseconds < 10**12
    assert sum(meter.histogram("node_getNodeInfo")[0]) == 0
    reader.set_meters(None, None)
    reader.answer(post(ASKED), 0, 5000)
    assert sum(meter.histogram("node_getVersion")[0]) == 4


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


# ---- what is handed over ----------------------------------------------------------------------------


def table_of(**handlers: Any) -> Any:
    results = results_of()
    for name, handler in handlers.items():
        results.add_method(name, keeps=False, shape=b"n", handler=handler, items_max=0, read=None)
    return results


def test_a_batch_is_handed_over_with_the_outcomes_that_it_has() -> None:
    asked: list[int] = []

    def double(view: Any, number: int) -> bytes:
        asked.append(number)
        if number == 7:
            raise ValueError("no seven")
        return b"%d" % (2 * number)

    reader = make_reader(results=table_of(double=double))
    batch = [call("double", text) for text in ("[1]", "[2]", "[7]", "[4]")]
    assert reader.answer(post(b"[" + b",".join(batch) + b"]"), 0, 5000, "view") is None
    handed, outcomes = reader.calls, reader.outcomes
    assert (len(handed), handed.is_batch, outcomes.next_pending(), asked) == (4, True, 2, [1, 2, 7])
    assert [handed[index] for index in range(4)] == [("double", [number], b"1") for number in (1, 2, 7, 4)]
    assert [outcomes.size(index) for index in range(4)] == [1, 1, 0, 0]
    assert str(outcomes.begin_call(2)) == "no seven"
    # What has run does not run again, and what comes behind it waits.
    handed.fill(outcomes, "view", 0)
    assert (outcomes.next_pending(), asked) == (2, [1, 2, 7])
    outcomes.set_error(2, ServerError("no seven"), b'{"code":7}')
    handed.fill(outcomes, "another view", 0)
    assert outcomes.next_pending() == 3
    handed.fill(outcomes, "view", 0)
    assert (outcomes.next_pending(), asked) == (4, [1, 2, 7, 4])
    answers = b"".join(calls.render(handed, outcomes) or ())
    assert [each.get("result", each.get("error")) for each in json.loads(answers)] == [2, 4, {"code": 7}, 8]


def test_a_batch_that_a_slice_is_too_short_for_goes_on_where_it_was_while_its_view_is_the_one_that_is_kept_of() -> None:
    results = table_of(double=lambda view, number: b"%d" % (2 * number))
    reader = make_reader(results=results, batch_calls_max=100)
    body = b"[" + b",".join(call("double", f"[{number}]") for number in range(9)) + b"]"
    assert reader.answer(post(body) + post(ASKED), 0, 5000, "view", 1) is None
    handed, outcomes = reader.calls, reader.outcomes
    assert (reader.position, reader.end, outcomes.next_pending()) == (0, len(post(body)), 1)
    handed.fill(outcomes, "view", 1)  # one at least
    assert outcomes.next_pending() == 2
    # The data that it came in may be overwritten.
    assert handed.text == body
    reader.answer(post(ASKED), 0, 5000, "view")
    handed.fill(outcomes, "view", 2**62)
    assert outcomes.next_pending() == 9
    assert reader.answer(post(body), 0, 5000, "view", 1) is None
    results.forget(107)
    reader.calls.fill(reader.outcomes, "view", 2**62)
    assert reader.outcomes.next_pending() == 1


@pytest.mark.parametrize("params", [b"[nul]", b"[1,]", b'["\\x"]', b"[01]"])
def test_a_batch_with_parameters_that_are_no_json_is_left_before_anything_has_run(params: bytes) -> None:
    asked: list[int] = []
    reader = make_reader(results=table_of(double=lambda view, number: asked.append(number)))
    for name in ("double", "other"):
        body = b"[%b,%b]" % (call("double", "[1]"), call(name, params.decode()))
        assert reader.answer(post(body), 0, 5000, "view") is None
        assert (reader.calls, reader.position, asked) == (None, 0, [])
