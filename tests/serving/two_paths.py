"""One stream of bytes, given to the fast path and to the strict path: everything that can be seen of both."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

from tests.clock import Clock

from fastnode.api import chain as chain_methods
from fastnode.http.allowance import MemoryBudget
from fastnode.http.connection import HttpConnection
from fastnode.http.limits import Limits
from fastnode.http.messages import ResponseWriter
from fastnode.http.meters import CallMeters
from fastnode.http.stream import WRITTEN_BYTES
from fastnode.http.turns import Turns
from fastnode.jsonrpc.engine import Engine
from fastnode.jsonrpc.methods import Context, Method, MethodTable, Parameter, common
from fastnode.kernels import simple_request
from fastnode.serving.application import RpcApplication
from fastnode.serving.fast_path import FastPath
from fastnode.values.numbers import Integer
from fastnode.view import View

DATA = Path(__file__).parent.parent / "data"
#: Low, so that a random stream meets them.
LIMITS = Limits(
    body_bytes_max=2_000, head_bytes_max=600, headers_max=12, json_depth_max=8, response_bytes_max=1_000_000,
    batch_calls_max=5, pipelined_calls_max=3,
)  # fmt: skip


def corpus(name: str) -> list[bytes]:
    """The lines of a data file behind its comment."""
    lines = (DATA / f"{name}.txt").read_text().splitlines()
    texts = [line for line in lines if not line.startswith("# ")]
    return [line.encode("latin-1").decode("unicode_escape").encode("latin-1") for line in texts]


BODY = b'{"method":"node_getVersion","id":1,"x":"y"}'
JSON_ODDITIES = corpus("rpc_oddities_json")
HTTP_ODDITIES = [request.replace(b"@", BODY) for request in (*corpus("rpc_oddities_http"), *corpus("http_requests"))]
#: Verdict of RFC 8259 on a text (y, n, i), and the text.
JSON_TEXTS = [(line[:1].decode(), line[2:]) for line in corpus("json_texts")]


# ---- what is served -----------------------------------------------------------------------------


def _fill(context: Context, size: int) -> bytes:
    return b'"%b"' % (b"field " * (size // 6))


def _double(context: Context, number: int) -> bytes:
    return b"%d" % (2 * number)


def _fail(context: Context) -> bytes:
    raise RuntimeError("as it does in the test")


_NUMBER = Parameter("number", Integer(minimum=0))
METHODS = [
    *chain_methods.METHODS,
    Method(name="test_fill", summary="", handler=_fill, **common("string", _NUMBER)),
    Method(name="test_fail", summary="", handler=_fail, **common("never")),
    Method(name="test_inThread", summary="", handler=_double, in_thread=True, **common("number", _NUMBER)),
]


class _AtOnce(Executor):
    """Runs in the thread that asks, so that both paths see the same order."""

    def submit(self, call: Callable[..., Any], /, *arguments: Any, **options: Any) -> Future[Any]:
        done: Future[Any] = Future()
        done.set_result(call(*arguments, **options))
        return done


class _Loop(Clock):
    """One whose time stands still."""

    def create_task(self, coroutine: Any) -> asyncio.Task[Any]:
        return asyncio.get_running_loop().create_task(coroutine)


class _Wire:
    """A transport whose other end takes nothing until it is told to."""

    def __init__(self) -> None:
        self.protocol: Any = None
        self.sent = bytearray()
        self.events: list[str] = []
        self.waiting = 0
        self.high = 0
        self.is_full = False
        self.reads = True
        self.is_closed = False

    def set_write_buffer_limits(self, high: int) -> None:
        self.high = high

    def get_extra_info(self, name: str) -> None:
        return None

    def get_write_buffer_size(self) -> int:
        return self.waiting

    def write(self, data: bytes) -> None:
        self.sent += data
        self.waiting += len(data)
        if self.waiting > self.high and not self.is_full:
            self.is_full = True
            self.protocol.pause_writing()

    def writelines(self, chunks: Sequence[bytes]) -> None:
        self.write(b"".join(chunks))

    def take(self) -> None:
        self.waiting = 0
        if self.is_full:
            self.is_full = False
            self.protocol.resume_writing()

    def is_closing(self) -> bool:
        return self.is_closed

    def is_reading(self) -> bool:
        return self.reads

    def pause_reading(self) -> None:
        self.reads = False

    def resume_reading(self) -> None:
        self.reads = True

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.events.append("eof")

    def close(self) -> None:
        self.events.append("close")
        self.is_closed = True

    def abort(self) -> None:
        self.events.append("abort")
        self.is_closed = True


class Side:
    """A server without a socket, of one of the paths."""

    def __init__(
        self, view: View | None, writer: ResponseWriter, table: MethodTable, *, is_fast: bool, omits_absent: bool
    ) -> None:
        self.limits = LIMITS
        self.views = simple_request.Published(view)
        self.table = table
        self.meters = CallMeters(method.name for method in self.table)
        self.engine = Engine(
            self.table,
            self.views,
            limits=LIMITS,
            executor=_AtOnce(),
            meters=self.meters,
            omits_absent=omits_absent,
        )
        self.traffic = self.engine.traffic
        self.application = RpcApplication(self.engine, headers=[("x-chain", "7")], error_status=400)
        self.application._executor = _AtOnce()
        self.writer = writer
        self.clock = _Loop(100.0)
        self.tasks: set[asyncio.Task[Any]] = set()
        # Long turns: nothing is left for a later one.
        self.turns = Turns(slice_ns=10**15, round_ns=10**15)
        self.turns.elapsed_s = lambda since_ns: 0.0  # type: ignore[method-assign]
        self.budget = MemoryBudget()
        self._fast = FastPath(self.engine, self.application, writer) if is_fast else None

    def register(self, connection: HttpConnection) -> None:
        pass

    def forget(self, connection: HttpConnection) -> None:
        pass

    def note_unread(self, connection: HttpConnection) -> None:
        pass

    def note_read(self, connection: HttpConnection) -> None:
        pass

    def keep_task(self, task: asyncio.Task[Any]) -> None:
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def connect(self) -> HttpConnection:
        loop: Any = self.clock
        self.wire = _Wire()
        self.connection = HttpConnection(self, loop, None, scanner=self._fast)
        self.wire.protocol = self.connection
        self.connection.connection_made(self.wire)  # type: ignore[arg-type]
        return self.connection

    async def settle(self) -> None:
        while self.tasks or self.turns.waiting_count:
            await asyncio.sleep(0)

    async def take_all(self) -> None:
        """The client reads until nothing comes any more."""
        await self.settle()
        while self.wire.waiting:
            self.wire.take()
            await self.settle()

    def seen(self) -> dict[str, Any]:
        connection, wire, stream = self.connection, self.wire, self.connection.stream
        connection._wake()
        reader, patience = stream.reader, connection.patience
        # The part of waiting data that has been read already depends on where the pieces that are read began.
        waits = bool(reader.arrived or stream.incoming_bytes)
        received = self.traffic.received_bytes + stream.incoming_bytes
        return {
            "sent": bytes(wire.sent),
            "wire": (wire.events, wire.reads, wire.is_full, wire.waiting),
            "reader": "waits" if waits else (reader.state, connection._begun_count(), reader.awaits_continue),
            "time": (patience.deadline, patience._awaited),
            "state": (stream.phase, stream.is_paused),
            "slots": (len(stream._slots), stream._unfinished, stream.corked_bytes),
            "unsent": connection._written_bytes(),
            "traffic": (received, self.traffic.sent_bytes, dict(self.traffic.rejected)),
            "batches": (self.meters.batch_counts, self.meters.batch_calls),
            "faults": self.engine.internal_fault_count,
        }

    def counted(self) -> dict[str | None, Any]:
        """Calls and errors of each method; looked at once a stream, as there are many."""
        calls = self.meters.calls
        return {name: (sum(calls.histogram(name)[0]), calls.errors(name)) for name in (None, *self.meters.names)}


class TwoPaths:
    """``table``: the methods of each side, of its own."""

    def __init__(
        self,
        view: View | None,
        table: Callable[[], MethodTable] = lambda: MethodTable(METHODS),
        *,
        omits_absent: bool = False,
    ) -> None:
        self.writer = ResponseWriter(65.0)
        self.fast = Side(view, self.writer, table(), is_fast=True, omits_absent=omits_absent)
        self.strict = Side(view, self.writer, table(), is_fast=False, omits_absent=omits_absent)

    def publish(self, view: View | None) -> None:
        self.fast.views.publish(view)
        self.strict.views.publish(view)

    async def compare(self, pieces: Sequence[bytes], *, is_slow: bool) -> bytes:
        """Give both the pieces on new connections; AssertionError where they differ.  The answers."""
        sides = (self.fast, self.strict)
        has_long_answer = False
        for side in sides:
            side.connect()
        for piece in pieces:
            for side in sides:
                side.clock.now += 0.25
                side.connection.data_received(piece)
            if max(side.wire.waiting for side in sides) > WRITTEN_BYTES:
                # The strict path writes a long answer in parts, the fast path as a whole: compare what arrives.
                has_long_answer = True
                for side in sides:
                    await side.take_all()
            # The fast path keeps results that a thread has made or compressed, and then answers before the strict one.
            if not self.strict.tasks and not any(name in piece for name in _IN_THREADS):
                self._require_same(pieces, has_long_answer)
            for side in sides:
                await side.settle()
                if not is_slow or not side.wire.reads:
                    await side.take_all()
            self._require_same(pieces, has_long_answer)
            if self.strict.wire.is_closed:
                break
        assert self.fast.counted() == self.strict.counted(), pieces
        answers = bytes(self.strict.wire.sent)
        for side in sides:
            side.connection.connection_lost(None)
        return answers

    def _require_same(self, pieces: Sequence[bytes], has_long_answer: bool) -> None:
        fast, strict = self.fast.seen(), self.strict.seen()
        if has_long_answer:  # since when it is counted depends on the parts
            del fast["unsent"], strict["unsent"]
        assert fast == strict, pieces


# ---- random streams -----------------------------------------------------------------------------

_NAMES = [
    b"node_getVersion", b"node_getBlockNumber", b"node_getL2Tips", b"node_getNodeInfo", b"node_getBlock",
    b"node_getBlockHeader", b"node_getCheckpointNumber", b"node_getTxReceipt", b"node_getEncodedEnr", b"test_fill",
    b"test_inThread", b"test_fail", b"no_such", b"node_getBlockNumbe",
]  # fmt: skip
_PARAMS = [
    b"[]", b"[]", b"[]", b"[ ]", b"[29]", b'["latest"]', b'["proven"]', b"[null]", b"[1,2,3]", b"[-1]",
    b'[{"number":3}]', b"[1500]", b"[70000]", b"[140000]", b"[1e3]", b'["0x00"]', b"[[[[[[[[[]]]]]]]]]", b"{}", b"null",
    b'["\\u0061"]', b"[nul]",
]  # fmt: skip
_IDS = [b"1", b"1", b"0", b"-0", b"-7", b'"a"', b'"\\n"', b"null", b"true", b"1.5", b"123456789012345678", b"[]", b'""']
_LINES = [
    b"Accept: */*", b"Accept-Encoding: gzip, deflate", b"accept-encoding: br", b"User-Agent: node",
    b"Connection: keep-alive", b"Connection: close", b"X: " + b"y" * 300,
    b"content-type: text/plain", b"Transfer-Encoding: chunked",
    b"Expect: 100-continue", b"sec-fetch-mode: cors", b"Host: b", b"Content-Encoding: gzip",
]  # fmt: skip
_BLANKS = [b"", b"", b"", b"", b" ", b"\n", b"\t \r\n"]
_INSERTED = [
    b"\r\n",
    b"\n",
    b" ",
    b"\x00",
    b'"',
    b"\\",
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"\xff",
    b"0",
    b"-",
    b"\r\n\r\n",
]


def random_body(rng: random.Random) -> bytes:
    if rng.random() < 0.15:
        return rng.choice(JSON_ODDITIES)
    members = [
        b'"method":%b"%b"' % (rng.choice(_BLANKS), rng.choice(_NAMES)),
        b'"id"%b:%b' % (rng.choice(_BLANKS), rng.choice(_IDS)),
    ]
    if rng.random() < 0.8:
        members.append(b'"jsonrpc":"2.0"')
    if rng.random() < 0.8:
        members.append(b'"params":%b%b' % (rng.choice(_PARAMS), rng.choice(_BLANKS)))
    if rng.random() < 0.05:
        members.append(rng.choice(members))
    if rng.random() < 0.05:
        members.pop(0)
    rng.shuffle(members)
    body = b"{" + (rng.choice(_BLANKS) + b"," + rng.choice(_BLANKS)).join(members) + b"}" + rng.choice(_BLANKS)
    if rng.random() < 0.15:
        calls = [body, *(random_call(rng) for _ in range(rng.choice([0, 1, 1, 2, 3, 4, 5])))]
        return rng.choice(_BLANKS) + b"[" + (b"," + rng.choice(_BLANKS)).join(calls) + b"]" + rng.choice(_BLANKS)
    return body


def random_call(rng: random.Random) -> bytes:
    """As clients put it into a batch."""
    if rng.random() < 0.1:
        return random_body(rng)
    names = _NAMES[: rng.choice([3, 3, 4, len(_NAMES)])]
    return b'{"jsonrpc":"2.0","method":"%b","params":[],"id":%b}' % (rng.choice(names), rng.choice(_IDS[:7]))


def random_request(rng: random.Random) -> bytes:
    if rng.random() < 0.1:
        return rng.choice(HTTP_ODDITIES)
    body = random_body(rng)
    lines = [b"Host: a", b"Content-Length: %d" % len(body), b"Content-Type: application/json"]
    if rng.random() < 0.5:
        lines += rng.sample(_LINES, rng.randrange(3))
    if rng.random() < 0.02:
        lines += [b"x-%d: y" % number for number in range(rng.randrange(8, 14))]
    if rng.random() < 0.3:
        rng.shuffle(lines)
    return b"POST / HTTP/1.1\r\n" + b"\r\n".join(lines) + b"\r\n\r\n" + body


def random_pieces(rng: random.Random) -> list[bytes]:
    """A stream of a few requests, most of them usual, in the pieces in which it is received."""
    repeated = rng.choice([1, 1, 1, 1, 2, 5, 40]) if rng.random() < 0.3 else 1
    requests = [random_request(rng) for _ in range(rng.choice([1, 1, 2, 3, 4]))] * repeated
    stream = b"".join(requests)
    while rng.random() < 0.25:
        place = rng.randrange(len(stream) + 1)
        stream = stream[:place] + rng.choice(_INSERTED) + stream[place + rng.choice([0, 0, 1, 2, 20]) :]
    pieces = requests if rng.random() < 0.3 else [stream]
    if rng.random() < 0.3:
        cuts = sorted(rng.randrange(len(stream) + 1) for _ in range(rng.choice([1, 1, 2, 5])))
        pieces = [stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    return [piece for piece in pieces if piece]


# ---- random calls of methods with usual parameters ----------------------------------------------

_ODD_VALUES = [
    b"-1", b"1e2", b"1.0", b"007", b"1000000000", b"99999999999999999999", b"null", b"true", b"{}", b"[]", b'""',
    b'"0x"', b'"0X1f"', b'"12"', b'"proven"', b'"proposed"', b'"finalized"', b'{"number":29}', b'{"tag":"latest"}',
    b"[1]", b'"0xg"',
    b'"\\u006catest"', b'"0x%b"' % (b"f" * 64), b'"0x%b"' % (b"0" * 65), b'"%b"' % (b"1" * 64), b'"latest "', b"nul",
]  # fmt: skip
_CODINGS = [b"gzip", b"gzip, deflate", b"gzip, deflate, br, zstd", b"deflate", b"zstd", b"identity", b"gzip;q=0"]
_IN_THREADS = [b"node_getBlocks", b"node_getCheckpoints", b"node_getCheckpointedBlocks"]
#: Calls without a usual form: answered from JSON here or in threads.  A batch of them stays below the bytes that are
#: written at a time, which the paths count in different steps.
_RANGES = [
    (b"node_getBlocks", b"[29,1]"), (b"node_getBlocks", b"[30,3]"), (b"node_getBlocks", b"[ 31, 4]"),
    (b"node_getBlocks", b"[1,0]"), (b"node_getCheckpoints", b"[12,1]"), (b"node_getCheckpoints", b"[12,3]"),
    (b"node_getCheckpointedBlocks", b"[30,2]"), (b"node_getL1ContractAddresses", b"[]"),
    (b"node_getBlock", b'["proven"]'), (b"node_getBlock", b'[{"number":29},{"includeTransactions":true}]'),
    (b"node_getNodeInfo", b"[]"), (b"node_getTxEffect", b"[7]"), (b"node_getBlockHeader", b"[]"),
    (b"node_noSuch", b"[]"),
]  # fmt: skip
_FIELD = re.compile(rb'"0x[0-9a-f]{64}"')


class HotCalls:
    """Random calls of the methods of a table that have a usual form, with values that the chain has."""

    def __init__(self, view: View, table: MethodTable) -> None:
        self._methods = [(method.name.encode(), method.shape) for method in table if method.shape is not None]
        self._hashes = [b'"0x%b"' % view.chain.block_id(number).hash.hex().encode() for number in range(1, 107)]
        bodies = [view.chain.body_json(number) or b"" for number in range(1, 107)]
        self._fields = [field for body in bodies for field in _FIELD.findall(body)]
        tx_hashes = [tx_hash for number in range(1, 107) for tx_hash in view.chain.tx_hashes(number) or []]
        self._tx_hashes = [b'"0x%b"' % tx_hash.hex().encode() for tx_hash in tx_hashes]

    def request(self, rng: random.Random) -> bytes:
        """A call, or a batch of several methods, of which some come twice."""
        body = self._call(rng)
        if rng.random() < 0.3:
            calls = [body, *(self._call(rng) for _ in range(rng.randrange(4)))]
            body = b"[%b]" % rng.choice([b",", b" , "]).join(rng.choices(calls, k=rng.randrange(1, 6)))
        coding = [b"Accept-Encoding: " + rng.choice(_CODINGS)] if rng.random() < 0.4 else []
        lines = [b"Host: a", b"Content-Length: %d" % len(body), *coding]
        return b"POST / HTTP/1.1\r\n" + b"\r\n".join(lines) + b"\r\n\r\n" + body

    def _call(self, rng: random.Random) -> bytes:
        if rng.random() < 0.2:
            name, params = rng.choice(_RANGES)
            return b'{"jsonrpc":"2.0","id":%b,"method":"%b","params":%b}' % (rng.choice(_IDS), name, params)
        name, shape = rng.choice(self._methods)
        required, _, optional = shape.decode().partition("|")
        letters = required + optional[: rng.randrange(len(optional) + 1)]
        values = [self._value(rng, letter) for letter in letters]
        if rng.random() < 0.05:
            values.append(rng.choice(_ODD_VALUES))
        if values and rng.random() < 0.05:
            values.pop()
        blank = rng.choice(_BLANKS)
        params = b"[%b%b]" % (blank, (blank + b"," + rng.choice(_BLANKS)).join(values))
        return b'{"jsonrpc":"2.0","id":%b,"method":"%b","params":%b}' % (rng.choice(_IDS), name, params)

    def _value(self, rng: random.Random, letter: str) -> bytes:
        if rng.random() < 0.15:
            return rng.choice(_ODD_VALUES)
        if letter == "b":
            number = b"%d" % rng.choice([0, 1, rng.randrange(110), 106, 107, 400])
            return rng.choice([b'"latest"', number, rng.choice(self._hashes), rng.choice(self._fields)])
        if letter == "n":
            return b"%d" % rng.randrange(7)
        if letter == "t":
            tags = [self._value(rng, "h") for _ in range(rng.randrange(6))]
            return b"[%b]" % rng.choice([b",", b" , "]).join(tags)
        if letter == "h" and rng.random() < 0.3:
            return rng.choice(self._tx_hashes)
        near = int(rng.choice(self._fields)[3:-1], 16) + rng.choice([-1, 1])
        return rng.choice([*rng.sample(self._fields, 3), b'"0x%064x"' % near, b'"0x%x"' % rng.randrange(1 << 20)])
