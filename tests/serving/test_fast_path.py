"""The fast path and the strict path of a connection: the same answers, states, counts and limits for every input."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import socket
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.serving import two_paths
from tests.serving.fixtures import ServedSets
from tests.serving.sockets import post
from tests.serving.two_paths import HTTP_ODDITIES, JSON_ODDITIES, JSON_TEXTS, HotCalls, TwoPaths, random_pieces

from fastnode.errors import LeftToStrictPath, ServerError
from fastnode.http.connection import INCOMING_BYTES_MAX
from fastnode.http.reader import RequestReader
from fastnode.jsonrpc.methods import METHOD_SETS, Context, Method, MethodTable, Parameter, common
from fastnode.values.numbers import Integer
from fastnode.view import View

IS_LONG = os.environ.get("FASTNODE_LONG") == "1"
RANDOM_INPUTS = 1_000_000 if IS_LONG else 4_000
#: Inputs that share the meters and the cached responses of one pair of servers.
INPUTS_PER_PAIR = 500


@pytest.fixture(autouse=True)
def unrecorded_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Handlers that fail are among the inputs; a million records of them with tracebacks take gigabytes."""
    monkeypatch.setattr(logging.getLogger("fastnode.rpc"), "disabled", True)


@pytest.fixture(scope="module")
def paths(view: View) -> TwoPaths:
    return TwoPaths(view)


def test_both_paths_agree_on_random_streams(view: View, loop_runner: asyncio.Runner) -> None:
    async def compare(pair_seed: int) -> None:
        paths = TwoPaths(view if pair_seed % 10 else None, omits_absent=pair_seed % 3 == 0)
        for seed in range(pair_seed * INPUTS_PER_PAIR, (pair_seed + 1) * INPUTS_PER_PAIR):
            rng = random.Random(seed)
            await paths.compare(random_pieces(rng), is_slow=rng.random() < 0.2)

    for pair_seed in range(RANDOM_INPUTS // INPUTS_PER_PAIR):
        loop_runner.run(compare(pair_seed))


@pytest.mark.parametrize("method_set", METHOD_SETS)
def test_both_paths_agree_on_random_calls_with_usual_parameters(
    served: ServedSets, loop_runner: asyncio.Runner, method_set: str
) -> None:
    engine = served.client(method_set).engine
    view = engine.view_source()
    assert view is not None
    assert view.state is not None

    async def compare() -> None:
        calls = HotCalls(view, engine.table)
        paths = TwoPaths(view, lambda: engine.table)
        for seed in range(RANDOM_INPUTS // 12):
            rng = random.Random(seed)
            if seed % 100 == 0:
                paths.publish(rng.choice([view, view, View(view.chain, view.state), View(view.chain), None]))
            await paths.compare([calls.request(rng)] * rng.choice([1, 1, 2]), is_slow=False)

    loop_runner.run(compare())


@given(
    stream=st.lists(st.sampled_from([*HTTP_ODDITIES, *map(post, JSON_ODDITIES)]), max_size=4),
    cut=st.integers(min_value=0, max_value=1000),
    is_slow=st.booleans(),
)
@settings(max_examples=20_000 if IS_LONG else 150)
def test_both_paths_agree_on_oddities(
    paths: TwoPaths, loop_runner: asyncio.Runner, stream: list[bytes], cut: int, is_slow: bool
) -> None:
    joined = b"".join(stream)
    pieces = [piece for piece in (joined[:cut], joined[cut:]) if piece]
    loop_runner.run(paths.compare(pieces, is_slow=is_slow))


@pytest.mark.parametrize("body", JSON_ODDITIES)
def test_both_paths_agree_on_each_odd_body(paths: TwoPaths, loop_runner: asyncio.Runner, body: bytes) -> None:
    loop_runner.run(paths.compare([post(body) * 2], is_slow=False))


def test_a_result_is_kept_for_params_that_are_written_in_another_way(view: View, loop_runner: asyncio.Runner) -> None:
    async def ask() -> tuple[list[int], bytes]:
        side = TwoPaths(view).fast
        assert side._fast is not None
        side.connect()
        hits = []
        # So many blocks are read in a thread, whose results are handed over.
        for params in (b"[100,7]", b"[100, 7]", b"[100, 7]", b"[ 100,7 ]"):
            side.connection.data_received(post(b'{"method":"node_getBlocks","params":%b,"id":1}' % params))
            await side.take_all()
            hits.append(side._fast.results.hit_count)
        return hits, bytes(side.wire.sent)

    hits, sent = loop_runner.run(ask())
    assert hits == [0, 1, 2, 3]
    answers = sent.split(b"HTTP/1.1 200 OK")[1:]
    assert len(answers) == 4
    assert len(set(answers)) == 1


#: Places of a text of JSON in a request.
PLACES = [
    b"%b",
    b'{"method":"node_getVersion","id":1,"params":%b}',
    b'{"method":"node_getBlock","id":1,"params":[%b]}',
    b'{"method":"node_getBlockHeader","params":[%b,%b],"id":1}',
    b'{"method":"node_getVersion","id":%b}',
    b'{"jsonrpc":%b,"method":"node_getVersion","id":1}',
    b'{"id":1,"method":%b}',
    b'{"id":1,"method":"node_getVersion","extra":%b}',
    b'[{"method":"node_getVersion","id":1,"params":%b}]',
]


@pytest.mark.parametrize("place", PLACES)
def test_both_paths_agree_on_every_text_of_json(paths: TwoPaths, loop_runner: asyncio.Runner, place: bytes) -> None:
    async def compare() -> None:
        for _, text in JSON_TEXTS:
            await paths.compare([post(place.replace(b"%b", text))], is_slow=False)

    loop_runner.run(compare())


def test_what_is_json_is_what_the_standard_says(paths: TwoPaths, loop_runner: asyncio.Runner) -> None:
    async def ask() -> list[tuple[str, bytes, bytes]]:
        return [
            (verdict, text, await paths.compare([post(text)], is_slow=False))
            for verdict, text in JSON_TEXTS
            if verdict != "i"
        ]

    for verdict, text, answer in loop_runner.run(ask()):
        assert (b'"code":-32700' in answer) == (verdict == "n"), text


@pytest.mark.parametrize("request_bytes", HTTP_ODDITIES)
def test_both_paths_agree_on_each_odd_request(
    paths: TwoPaths, loop_runner: asyncio.Runner, request_bytes: bytes
) -> None:
    usual = post(b'{"method":"node_getVersion","id":1}')
    loop_runner.run(paths.compare([usual + request_bytes + usual], is_slow=False))


@pytest.mark.parametrize("every", [1, 2, 7, 50])
def test_both_paths_stop_at_the_same_answer_for_a_client_that_takes_none(
    paths: TwoPaths, loop_runner: asyncio.Runner, every: int
) -> None:
    kept = post(b'{"method":"node_getNodeInfo","id":1}')
    made = post(b'{"method":"test_fill","params":[3000],"id":2}')
    stream = b"".join(made if number % every == 0 else kept for number in range(600))
    answers = loop_runner.run(paths.compare([stream, kept], is_slow=True))
    assert answers.count(b"HTTP/1.1 200 OK") == 601


# ---- what takes the fast path ----------------------------------------------------------------------

USUAL = [
    b'{"jsonrpc":"2.0","id":1,"method":"node_getBlockNumber","params":[]}',
    b'{"method":"node_getBlockNumber","id":"a"}',
    b' { "params" : [ ] , "id" : null , "method" : "node_getL2Tips" } ',
    b'{"jsonrpc":"2.0","id":1,"method":"node_getBlock","params":[29]}',
    b'{"jsonrpc":"2.0","id":1,"method":"node_getBlock","params":[{"number":29},{"includeTransactions":true}]}',
    b'{"jsonrpc":"2.0","id":1,"method":"test_inThread","params":[7]}',
    b'{"jsonrpc":"2.0","id":1,"method":"no_such","params":["\\u0061"]}',
]


@pytest.mark.parametrize("body", USUAL)
def test_a_usual_request_does_not_reach_the_strict_path(
    view: View, loop_runner: asyncio.Runner, monkeypatch: pytest.MonkeyPatch, body: bytes
) -> None:
    paths = TwoPaths(view)
    requests = [post(body, "Accept-Encoding: gzip", "Connection: keep-alive"), post(body), post(body)]
    expected = loop_runner.run(paths.compare(requests, is_slow=False))

    def fail(reader: RequestReader, data: bytes) -> None:
        raise AssertionError("the strict path was taken")

    monkeypatch.setattr(RequestReader, "feed", fail)

    async def send_to_the_fast_one() -> bytes:
        connection = paths.fast.connect()
        for request in requests:
            connection.data_received(request)
            await paths.fast.settle()
        return bytes(paths.fast.wire.sent)

    assert loop_runner.run(send_to_the_fast_one()) == expected
    assert expected.count(b"HTTP/1.1 ") == 3


def test_a_batch_of_cached_responses_does_not_reach_the_engine(
    view: View, loop_runner: asyncio.Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = TwoPaths(view)
    one = b'{"method":"node_getBlockNumber","id":%d}'
    batch = post(b"[" + b" , ".join(one % number for number in range(5)) + b"]")
    answers = loop_runner.run(paths.compare([post(one % 1), batch, batch], is_slow=False))
    assert answers.count(b'"result":106') == 11

    def fail(body: bytes) -> None:
        raise AssertionError("the engine was asked")

    monkeypatch.setattr(paths.fast.engine, "handle", fail)
    connection = paths.fast.connect()
    connection.data_received(batch)
    assert paths.fast.wire.sent == answers[-len(paths.fast.wire.sent) :]


def test_a_cached_response_is_made_once_for_each_view(view: View, loop_runner: asyncio.Runner) -> None:
    numbers = iter(range(10))
    paths = TwoPaths(view)
    fast = paths.fast.table.get("node_getBlockNumber")
    assert fast is not None
    fast.handler = lambda call, tip=None: b"%d" % next(numbers)
    request = post(b'{"method":"node_getBlockNumber","id":1}')

    async def ask() -> bytes:
        connection = paths.fast.connect()
        connection.data_received(request)
        connection.data_received(request + request)
        return bytes(paths.fast.wire.sent)

    assert loop_runner.run(ask()).count(b'"result":0}') == 3
    paths.fast.views.publish(None)
    assert loop_runner.run(ask()).count(b'"result":') == 3


class Counting:
    """A method that says how often it was asked for each number, on the fast path or the strict one."""

    def __init__(self) -> None:
        self.asked: Counter[int] = Counter()

    def read(self, view: View, number: int, *, context: Context | None = None) -> bytes | None:
        if number == LONG and context is None:
            raise LeftToStrictPath("not on the loop")
        self.asked[number] += 1
        if number == REFUSED:
            raise ServerError("not this one")
        if number == FAULTY:
            raise RuntimeError("as it does in the test")
        if number == LARGE:
            return b"x" * (two_paths.LIMITS.response_bytes_max + 1)
        return None if number == MISSING else b"%d" % number

    def table(self) -> MethodTable:
        number = Parameter("number", Integer(minimum=0))
        method = Method(
            name="test_count",
            summary="",
            read=self.read,
            shape=b"n",
            in_thread=lambda values: values[0] == LONG,
            **common("number", number),
        )
        return MethodTable([*two_paths.METHODS, method])


PLAIN, REFUSED, FAULTY, LARGE, MISSING, LONG, OTHER = range(7)
COUNT = b'{"jsonrpc":"2.0","id":1,"method":"test_count","params":[%d]}'


@pytest.mark.parametrize("number", [PLAIN, REFUSED, FAULTY, LARGE, MISSING, LONG])
@pytest.mark.parametrize("neighbour", [b"", COUNT % OTHER, b'{"id":7,"method":"no_such"}', USUAL[4], USUAL[5]])
def test_a_handler_runs_once_for_a_request_whatever_it_says(
    view: View, loop_runner: asyncio.Runner, number: int, neighbour: bytes
) -> None:
    sides = [Counting(), Counting()]
    tables = iter(sides)
    paths = TwoPaths(view, lambda: next(tables).table())
    call = COUNT % number
    body = b"[%b,%b,%b]" % (call, neighbour, COUNT % OTHER) if neighbour else call
    loop_runner.run(paths.compare([post(body)], is_slow=False))
    loop_runner.run(paths.compare([post(body) + post(body)], is_slow=False))
    fast, strict = (side.asked for side in sides)
    assert fast == strict
    assert fast[number] == 3


# ---- turns -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("body", [*USUAL, b"[" + USUAL[0] + b"]"])
def test_a_connection_that_had_much_to_read_when_its_turn_came_is_read_again(
    view: View, loop_runner: asyncio.Runner, body: bytes
) -> None:
    side, request = TwoPaths(view).fast, post(body)
    count = INCOMING_BYTES_MAX // len(request) + 2

    async def send_while_others_wait() -> None:
        connection = side.connect()
        connection.data_received(request)  # the next ones are answered from what is cached
        await side.settle()
        side.turns.time.is_crowded = True
        connection.data_received(request * count)
        assert not side.wire.reads
        while side.turns.waiting_count or side.tasks:
            await asyncio.sleep(0)

    loop_runner.run(send_while_others_wait())
    assert bytes(side.wire.sent).count(b"HTTP/1.1 ") == count + 1
    assert side.wire.reads


def test_a_request_that_was_cut_when_it_had_to_wait_does_not_reach_the_strict_path(
    view: View, loop_runner: asyncio.Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    side, request = TwoPaths(view).fast, post(USUAL[0])
    requests = request * (INCOMING_BYTES_MAX // len(request) + 2)
    assert INCOMING_BYTES_MAX % len(request)

    def fail(reader: RequestReader, data: bytes) -> None:
        raise AssertionError("the strict path was taken")

    async def send_while_others_wait() -> int:
        client, server = socket.socketpair()
        server.setblocking(False)
        with client, server:
            connection = side.connect()
            connection.data_received(request)
            await side.settle()
            monkeypatch.setattr(RequestReader, "feed", fail)
            monkeypatch.setattr(side.wire, "get_extra_info", lambda name: server)
            side.turns.time.is_crowded = True
            connection.data_received(requests[:INCOMING_BYTES_MAX])
            assert not side.wire.reads
            client.sendall(requests[INCOMING_BYTES_MAX:])
            await side.settle()
        return bytes(side.wire.sent).count(b"HTTP/1.1 200")

    assert loop_runner.run(send_while_others_wait()) == 1 + len(requests) // len(request)
    assert side.wire.reads
