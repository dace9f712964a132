"""The engine against everything that a request body can hold."""

from __future__ import annotations

import gc
import json
import logging
import threading
import weakref
from collections.abc import Callable
from itertools import repeat
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastnode.errors import InvalidParams, ServerError
from fastnode.http.limits import Limits
from fastnode.jsonrpc.engine import Engine, Reply
from fastnode.jsonrpc.methods import UNASKED_BYTES_MAX, Context, Method, MethodTable, Parameter, Signature, common
from fastnode.values.numbers import Integer
from fastnode.values.texts import Text

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL_ERROR = -32700, -32600, -32601, -32602, -32603


class Recorder:
    """Methods that show what reached them."""

    def __init__(self) -> None:
        self.seen: list[int] = []
        self.threads: set[int] = set()

    def double(self, context: Context, number: int) -> bytes:
        self.seen.append(number)
        self.threads.add(threading.get_ident())
        return b"%d" % (2 * number)

    def nothing(self, context: Context) -> None:
        return None

    def refuse(self, context: Context) -> bytes:
        raise ServerError("not today", data={"code": "TUESDAY"})

    def break_(self, context: Context) -> bytes:
        raise KeyError("secret detail")

    def fill(self, context: Context, size: int) -> bytes:
        return b'"%b"' % (b"x" * size)

    def methods(self) -> list[Method]:
        number = Parameter("number", Integer(minimum=0, maximum=10**6))
        return [
            Method(name="test_double", summary="", handler=self.double, **common("number", number)),
            Method(name="test_doubleInThread", summary="", handler=self.double, in_thread=True, **common("n", number)),
            Method(name="test_nothing", summary="", handler=self.nothing, **common("number", may_be_absent=True)),
            Method(name="test_refuse", summary="", handler=self.refuse, **common("number")),
            Method(name="test_break", summary="", handler=self.break_, **common("number")),
            Method(name="test_breakInThread", summary="", handler=self.break_, in_thread=True, **common("number")),
            Method(name="test_fill", summary="", handler=self.fill, **common("string", number)),
        ]


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def client(recorder: Recorder, make_client: Callable[..., Any]) -> Any:
    return make_client(recorder.methods(), limits=Limits(batch_calls_max=5, json_depth_max=8, response_bytes_max=1000))


def answer_of(client: Any, body: bytes) -> Any:
    reply = client.send(body)
    assert reply.body is not None
    return orjson.loads(reply.text)


# ---- one call ---------------------------------------------------------------------------------


def test_a_call_is_answered_in_the_exact_form(client: Any) -> None:
    reply = client.send(b'{"jsonrpc":"2.0","id":7,"method":"test_double","params":[21]}')
    assert reply == Reply([b'{"jsonrpc":"2.0","id":7,"result":', b"42", b"}"])


def test_nothing_found_is_a_result_of_null(client: Any) -> None:
    assert client.send(b'{"id":7,"method":"test_nothing"}').text == b'{"jsonrpc":"2.0","id":7,"result":null}'


def test_a_refusal_does_not_hold_on_to_what_was_done_for_the_request() -> None:
    """Many refused at the same time would keep much memory, until the collector looks at it."""

    class Work:
        pass

    done: list[weakref.ref[Work]] = []

    def refuse(context: Context) -> bytes:
        work = Work()
        done.append(weakref.ref(work))
        raise ServerError("not today")

    engine = Engine(MethodTable([Method(name="test_refuse", summary="", handler=refuse, **common("n"))]), lambda: None)
    gc.disable()
    try:
        reply = engine.handle(b'[{"method":"test_refuse","params":[],"id":1}]')
        assert isinstance(reply, Reply)
        assert b"not today" in reply.text
        assert done[0]() is None
    finally:
        gc.enable()


def test_a_refusal_carries_code_text_and_data(client: Any) -> None:
    error = client.error("test_refuse")
    assert error == {"code": -32000, "message": "not today", "data": {"code": "TUESDAY"}}


@pytest.mark.parametrize("method", ["test_break", "test_breakInThread"])
def test_an_internal_fault_is_logged_with_its_traceback_and_answered_without(
    client: Any, method: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR, "fastnode.rpc"):
        error = client.error(method)
    assert error == {"code": INTERNAL_ERROR, "message": "Internal error"}
    [record] = caplog.records
    assert method in record.getMessage()
    assert record.exc_info is not None
    assert "secret detail" in caplog.text
    assert client.engine.internal_fault_count == 1


def test_a_fault_while_decoding_is_internal_too(
    make_client: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(Integer):
        def from_json(self, value: object) -> int:
            raise RuntimeError("bug")

    signature = common("number", Parameter("number", Broken()))
    client = make_client([Method(name="test_x", summary="", handler=lambda context, number: b"1", **signature)])
    with caplog.at_level(logging.ERROR, "fastnode.rpc"):
        assert client.error("test_x", 1)["code"] == INTERNAL_ERROR
    assert "bug" in caplog.text


def test_methods_without_a_chain_say_that_it_is_not_loaded(make_client: Callable[..., Any]) -> None:
    def read(context: Context) -> bytes:
        return context.view.chain.tips_json

    client = make_client([Method(name="test_read", summary="", handler=read, **common("number"))])
    assert client.error("test_read") == {"code": -32000, "message": "The node has not loaded its chain yet"}


def test_long_work_runs_in_another_thread_and_short_work_does_not(client: Any, recorder: Recorder) -> None:
    client.result("test_double", 1)
    assert recorder.threads == {threading.get_ident()}
    client.result("test_doubleInThread", 1)
    assert len(recorder.threads) == 2


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", PARSE_ERROR),
        (b"   ", PARSE_ERROR),
        (b'{"jsonrpc":', PARSE_ERROR),
        (b'{"id":1,"method":"test_nothing"} x', PARSE_ERROR),
        (b"{'id':1}", PARSE_ERROR),
        (b'{"id":NaN,"method":"test_nothing"}', PARSE_ERROR),
        (b'{"id":1,"method":"test_nothing\xff"}', PARSE_ERROR),
        (b'{"id":1,"method":"test_nothing\xed\xa0\x80"}', PARSE_ERROR),
        ('{"id":1,"method":"test_nothing"}'.encode("utf-16"), PARSE_ERROR),
        (b'{"id":1e999,"method":"test_nothing"}', PARSE_ERROR),
        (b'{"id":1,"method":"test_nothing"\x00}', PARSE_ERROR),
        (b"5", INVALID_REQUEST),
        (b'"x"', INVALID_REQUEST),
        (b"null", INVALID_REQUEST),
        (b"{}", INVALID_REQUEST),
        (b"[]", INVALID_REQUEST),
        (b'{"id":1,"method":5}', INVALID_REQUEST),
        (b'{"id":1,"method":""}', INVALID_REQUEST),
        (b'{"id":1,"method":null}', INVALID_REQUEST),
        (b'{"jsonrpc":2.0,"id":1,"method":"test_nothing"}', INVALID_REQUEST),
        (b'{"id":1,"method":"test_nope"}', METHOD_NOT_FOUND),
        (b'{"id":1,"method":"test_double_x","params":[1]}', METHOD_NOT_FOUND),
        (b'{"id":1,"method":"__class__"}', METHOD_NOT_FOUND),
        (b'{"id":1,"method":"test_double","params":{"number":1}}', INVALID_PARAMS),
        (b'{"id":1,"method":"test_double","params":null}', INVALID_PARAMS),
        (b'{"id":1,"method":"test_double","params":"1"}', INVALID_PARAMS),
        (b'{"id":1,"method":"test_double"}', INVALID_PARAMS),
    ],
)
def test_what_is_not_a_call_gets_its_own_code(client: Any, body: bytes, code: int) -> None:
    reply = client.send(body)
    answer = orjson.loads(reply.text)
    assert answer["error"]["code"] == code
    assert reply.error_code == code
    assert answer["jsonrpc"] == "2.0"


def test_a_byte_order_mark_is_skipped(client: Any) -> None:
    assert answer_of(client, b'\xef\xbb\xbf{"id":1,"method":"test_double","params":[1]}')["result"] == 2


@pytest.mark.parametrize("member", [b"", b'"jsonrpc":"2.0",', b'"jsonrpc":"2\\u002e0",'])
def test_calls_of_version_2_0_and_without_a_version_are_answered(client: Any, member: bytes) -> None:
    answer = answer_of(client, b'{%b"id":1,"method":"test_double","params":[1]}' % member)
    assert answer == {"jsonrpc": "2.0", "id": 1, "result": 2}


@pytest.mark.parametrize("version", [b'"1.0"', b'"3"', b'"2"', b'""', b'"2.00"', b"2.0", b"2", b"null", b"[]", b"true"])
def test_calls_of_another_version_are_rejected(client: Any, version: bytes) -> None:
    call = b'{"jsonrpc":%b,"id":1,"method":"test_double","params":[1]}' % version
    error = answer_of(client, call)["error"]
    assert error["code"] == INVALID_REQUEST
    assert error["message"].startswith('Invalid request: jsonrpc must be "2.0" or missing, got ')
    right = b'{"id":2,"method":"test_double","params":[1]}'
    answers = orjson.loads(client.send(b"[%b,%b]" % (call, right)).text)
    assert [each.get("result", each.get("error", {}).get("code")) for each in answers] == [INVALID_REQUEST, 2]


def test_of_equal_keys_the_last_one_counts(client: Any) -> None:
    body = b'{"id":1,"method":"test_nope","params":[1],"method":"test_double","id":2,"params":[4]}'
    assert client.send(body).text == b'{"jsonrpc":"2.0","id":2,"result":8}'


def test_unknown_keys_of_a_request_are_ignored(client: Any) -> None:
    assert answer_of(client, b'{"id":1,"method":"test_double","params":[1],"x":{"id":5}}')["id"] == 1


def test_a_method_name_in_an_error_is_cut_and_made_printable(client: Any) -> None:
    message = answer_of(client, orjson.dumps({"id": 1, "method": "\x1b[31m" + "x" * 5000}))["error"]["message"]
    assert len(message) < 150
    assert message.isprintable()


# ---- ids --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        b"1",
        b"0",
        b"-0",
        b"-1",
        b"1.0",
        b"1e2",
        b"1E+2",
        b"0.1000",
        b"12345678901234567890123",
        b"-9223372036854775809",
        b"18446744073709551616",
        b"123456789.123456789123456789",
        b'""',
        b'"a"',
        b'"\\u0041\\n\\/"',
        b'"\\ud83d\\ude00"',
        b'"\\ud800"',
        '"ключ"'.encode(),
        b"null",
        b"true",
        b"false",
        b'{"a": [1,  2]}',
        b"[]",
        b'[1.50, "x"]',
    ],
)
def test_an_id_is_echoed_byte_for_byte(client: Any, text: bytes) -> None:
    call = b'{"jsonrpc":"2.0","id":  %b ,"method":"test_double","params":[1]}' % text
    assert client.send(call).text == b'{"jsonrpc":"2.0","id":%b,"result":2}' % text
    broken = b'{"id":%b,"method":"test_nope"}' % text
    assert client.send(broken).text.startswith(b'{"jsonrpc":"2.0","id":%b,"error":' % text)
    batch = b'[{"params":[{"id":9}],"id":%b,"method":"test_nothing"},7,{"method":"test_nothing","id":%b}]' % (
        text,
        text,
    )
    answers = client.send(batch).text
    assert answers.startswith(b'[{"jsonrpc":"2.0","id":%b,"error":' % text)
    assert answers.endswith(b',{"jsonrpc":"2.0","id":%b,"result":null}]' % text)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(), children, max_size=3),
    max_leaves=8,
)


@given(ids=st.lists(json_values, min_size=1, max_size=5), indent=st.booleans())
def test_every_id_of_a_batch_comes_back_as_it_was_written(ids: list[Any], indent: bool) -> None:
    engine = Engine(MethodTable(Recorder().methods()), lambda: None, limits=Limits(json_depth_max=60))
    texts = [json.dumps(value, indent=2 if indent else None) for value in ids]
    calls = ",".join(f'{{"id":{text},"method":"test_nope"}}' for text in texts)
    reply = engine.handle(f"[{calls}]".encode())
    assert isinstance(reply, Reply)
    assert reply.body is not None
    error = '"error":{"code":-32601,"message":"Method not found: test_nope"}}'
    expected = ",".join(f'{{"jsonrpc":"2.0","id":{text},{error}' for text in texts)
    assert reply.text.decode() == f"[{expected}]"


# ---- notifications ----------------------------------------------------------------------------


def test_a_notification_is_executed_and_not_answered(client: Any, recorder: Recorder) -> None:
    assert client.send(b'{"method":"test_double","params":[3]}').body is None
    assert client.send(b'{"method":"test_doubleInThread","params":[4]}').body is None
    assert recorder.seen == [3, 4]


@pytest.mark.parametrize("method", ["test_nope", "test_refuse", "test_double"])
def test_a_notification_that_fails_is_not_answered_either(client: Any, method: str) -> None:
    assert client.send(b'{"method":"%b"}' % method.encode()).body is None


def test_an_id_of_null_is_not_a_notification(client: Any) -> None:
    assert client.send(b'{"id":null,"method":"test_nothing"}').text == b'{"jsonrpc":"2.0","id":null,"result":null}'


def test_an_absent_result_is_null_or_left_out_if_the_engine_omits_it(client: Any) -> None:
    call, batch = b'{"id":1,"method":"test_nothing"}', b'[{"id":1,"method":"test_nothing"}]'
    assert client.send(call).text == b'{"jsonrpc":"2.0","id":1,"result":null}'
    assert client.send(batch).text == b'[{"jsonrpc":"2.0","id":1,"result":null}]'
    client.engine.omits_absent = True
    assert client.send(call).text == b'{"jsonrpc":"2.0","id":1}'
    assert client.send(batch).text == b'[{"jsonrpc":"2.0","id":1}]'


def test_an_object_that_is_no_request_is_answered_even_without_an_id(client: Any) -> None:
    assert answer_of(client, b'{"params":[]}') == {
        "jsonrpc": "2.0",
        "id": None,
        "error": {"code": INVALID_REQUEST, "message": "Invalid request: method is missing"},
    }


# ---- batches ----------------------------------------------------------------------------------


def test_a_batch_with_bad_calls_answers_the_others_in_order(client: Any) -> None:
    batch = b"""[
        {"id":1,"method":"test_double","params":[1]},
        {"id":2,"method":"test_double","params":["x"]},
        5,
        {"id":4,"method":"test_break"},
        {"id":5,"method":"test_doubleInThread","params":[5]}
    ]"""
    reply = client.send(batch)
    answers = orjson.loads(reply.text)
    assert [answer["id"] for answer in answers] == [1, 2, None, 4, 5]
    assert [answer.get("result") for answer in answers] == [2, None, None, None, 10]
    codes = [answer.get("error", {}).get("code") for answer in answers]
    assert codes == [None, INVALID_PARAMS, INVALID_REQUEST, INTERNAL_ERROR, None]
    assert reply.error_code is None


def test_calls_of_a_batch_take_effect_in_order_across_threads(client: Any, recorder: Recorder) -> None:
    names = ["test_double", "test_doubleInThread", "test_double", "test_doubleInThread", "test_double"]
    calls = [{"id": index, "method": name, "params": [index]} for index, name in enumerate(names)]
    answers = answer_of(client, orjson.dumps(calls))
    assert [answer["result"] for answer in answers] == [0, 2, 4, 6, 8]
    assert recorder.seen == [0, 1, 2, 3, 4]


def test_notifications_in_a_batch_are_left_out(client: Any) -> None:
    batch = b'[{"method":"test_double","params":[1]},{"id":2,"method":"test_double","params":[2]}]'
    assert client.send(batch).text == b'[{"jsonrpc":"2.0","id":2,"result":4}]'


def test_a_batch_of_notifications_has_no_answer(client: Any) -> None:
    assert client.send(b'[{"method":"test_nothing"},{"method":"test_doubleInThread","params":[1]}]').body is None


def test_a_batch_at_the_limit_is_answered_and_one_above_is_refused_with_the_limit(client: Any) -> None:
    call = {"id": 1, "method": "test_double", "params": [1]}
    assert len(answer_of(client, orjson.dumps([call] * 5))) == 5
    reply = client.send(orjson.dumps([call] * 6))
    error = orjson.loads(reply.text)["error"]
    assert error["code"] == reply.error_code == INVALID_REQUEST
    assert "limit of 5" in error["message"]


def test_a_batch_in_a_batch_is_an_invalid_call(client: Any) -> None:
    [answer] = answer_of(client, b'[[{"id":1,"method":"test_nothing"}]]')
    assert answer["error"]["code"] == INVALID_REQUEST


def test_a_batch_reads_from_one_view() -> None:
    views = iter(range(100))

    def read(context: Context) -> bytes:
        return b"%d" % context.view  # type: ignore[str-format]

    table = MethodTable([Method(name="test_view", summary="", handler=read, **common("number"))])
    engine = Engine(table, lambda: next(views))  # type: ignore[arg-type, return-value]
    reply = engine.handle(b'[{"id":1,"method":"test_view"},{"id":2,"method":"test_view"}]')
    assert isinstance(reply, Reply)
    assert [answer["result"] for answer in orjson.loads(reply.text)] == [0, 0]


# ---- limits -----------------------------------------------------------------------------------


@pytest.mark.parametrize("opening", [b"[", b'{"a":'])
def test_a_nesting_deeper_than_the_limit_is_refused_with_the_limit(client: Any, opening: bytes) -> None:
    def nested(depth: int) -> bytes:
        closing = b"]" if opening == b"[" else b"}"
        return b'{"id":1,"method":"test_double","params":[1],"x":%b1%b}' % (opening * depth, closing * depth)

    assert answer_of(client, nested(7))["result"] == 2
    for depth in (8, 100, 1000, 100_000):
        error = answer_of(client, nested(depth))["error"]
        assert error["code"] == PARSE_ERROR
        assert "more than 8" in error["message"]


def test_a_nesting_that_never_closes_is_refused(client: Any) -> None:
    assert answer_of(client, b"[" * 500_000)["error"]["code"] == PARSE_ERROR


def test_lone_surrogates_do_not_get_around_the_depth_limit(client: Any) -> None:
    body = b'{"id":"\\ud800","x":%b%b}' % (b"[" * 50_000, b"]" * 50_000)
    assert answer_of(client, body)["error"]["code"] == PARSE_ERROR


@pytest.mark.parametrize("number", [b"1" * 5000, b"-" + b"9" * 400, b"1e400", b"1." + b"7" * 100_000])
def test_huge_numbers_are_refused_and_never_echoed_whole(client: Any, number: bytes) -> None:
    reply = client.send(b'{"id":1,"method":"test_double","params":[%b]}' % number)
    assert orjson.loads(reply.text)["error"]["code"] in (PARSE_ERROR, INVALID_PARAMS)
    assert len(reply.text) < 500


def test_an_answer_above_the_limit_is_refused_with_the_limit(client: Any) -> None:
    assert len(client.result("test_fill", 900)) == 900
    error = client.error("test_fill", 1000)
    assert error["code"] == -32000
    assert error["data"] == {"code": "RESPONSE_TOO_LARGE", "limit": 1000}
    assert "limit of 1000 bytes" in error["message"]


def test_a_batch_shares_one_limit_of_answer_bytes(client: Any) -> None:
    calls = [{"id": index, "method": "test_fill", "params": [400]} for index in range(4)]
    answers = answer_of(client, orjson.dumps(calls))
    assert ["result" in answer for answer in answers] == [True, True, False, False]


def test_a_handler_can_ask_whether_its_answer_may_grow(make_client: Callable[..., Any]) -> None:
    def collect(context: Context) -> bytes:
        for count in range(100):
            context.require_bytes(count * 100)
        raise AssertionError

    method = Method(name="test_collect", summary="", handler=collect, **common("string"))
    client = make_client([method], limits=Limits(response_bytes_max=1000))
    assert client.error("test_collect")["data"]["code"] == "RESPONSE_TOO_LARGE"


def test_an_array_without_end_is_given_up(make_client: Callable[..., Any]) -> None:
    method = Method(name="test_all", summary="", handler=lambda context: repeat(b"0" * 1000), **common("string[]"))
    client = make_client([method], limits=Limits(response_bytes_max=3 * UNASKED_BYTES_MAX))
    assert client.error("test_all")["data"]["code"] == "RESPONSE_TOO_LARGE"


# ---- anything ---------------------------------------------------------------------------------


@given(body=st.binary(max_size=200))
def test_no_bytes_break_the_engine(body: bytes) -> None:
    engine = Engine(MethodTable(Recorder().methods()), lambda: None)
    reply = engine.handle(body)
    assert isinstance(reply, Reply)
    if reply.body is not None:
        orjson.loads(reply.text)


@given(body=json_values)
def test_no_json_breaks_the_engine(body: Any) -> None:
    engine = Engine(MethodTable(Recorder().methods()), lambda: None)
    reply = engine.handle(json.dumps(body).encode())
    assert isinstance(reply, Reply)


@given(
    params=st.lists(json_values, max_size=3),
    identifier=json_values,
    name=st.sampled_from(["test_double", "test_nothing", "test_refuse", "test_fill", "x"]),
)
def test_every_call_gets_an_answer_of_the_right_form(params: list[Any], identifier: Any, name: str) -> None:
    engine = Engine(MethodTable(Recorder().methods()), lambda: None)
    reply = engine.handle(json.dumps({"id": identifier, "method": name, "params": params}).encode())
    assert isinstance(reply, Reply)
    assert reply.body is not None
    answer = json.loads(reply.text)
    assert answer["jsonrpc"] == "2.0"
    assert answer["id"] == identifier
    assert set(answer) <= {"jsonrpc", "id", "result", "error"}


# ---- the table --------------------------------------------------------------------------------


def test_a_method_exists_only_in_the_sets_that_declare_it(make_client: Callable[..., Any]) -> None:
    def handler(context: Context, *arguments: Any) -> bytes:
        return b"1"

    methods = [
        Method(name="test_r", summary="", handler=handler, release=Signature("number")),
        Method(name="test_d", summary="", handler=handler, development=Signature("number")),
    ]
    for method_set, names in {"release": {"test_r"}, "development": {"test_d"}, "both": {"test_r", "test_d"}}.items():
        client = make_client(methods, method_set=method_set)
        assert {method.name for method in client.engine.table} == names
        for name in ("test_r", "test_d"):
            assert ("result" in client.call(name)) == (name in names)


def test_declaring_a_method_twice_is_a_mistake() -> None:
    method = Method(name="test_x", summary="", handler=lambda context: b"1", **common("number"))
    with pytest.raises(ValueError, match="test_x is declared twice"):
        MethodTable([method, method])


def test_null_stands_for_an_optional_parameter_and_trailing_nulls_are_no_parameters(
    make_client: Callable[..., Any],
) -> None:
    seen = []

    def handler(context: Context, *arguments: Any) -> bytes:
        seen.append(arguments)
        return b"1"

    signature = common(
        "number", Parameter("a", Text()), Parameter("b", Text(), optional=True), Parameter("c", Text(), optional=True)
    )
    client = make_client([Method(name="test_x", summary="", handler=handler, **signature)])
    for params in (["x"], ["x", None], ["x", None, None, None, None], ["x", None, "z"]):
        client.result("test_x", *params)
    assert seen == [("x", None, None)] * 3 + [("x", None, "z")]
    assert client.error("test_x", None)["message"].startswith("Invalid params: a (parameter 1) must be text")
    too_many = client.error("test_x", "x", None, None, "y")
    assert too_many == {
        "code": InvalidParams.code,
        "message": "Invalid params: test_x takes at most 3 parameters, got 4",
    }
