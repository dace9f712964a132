"""The strict path of HTTP: bytes of one connection in, requests out.

llhttp (through httptools) parses.  This class adds what a server must not leave to chance: limits on
the head and the body while they arrive, and the refusal of everything that another server on the
way could read differently.  It does no input or output and keeps no time, so that it can be tested
byte by byte and replaced by a faster reader.

Chunks are bounded in number: each takes its time, and what a client has sent of them before it goes is read after it
has gone.

After a :class:`Refusal`, and after a request that closes the connection, nothing more is read:
one ambiguous stretch of bytes never gets two answers.
"""

from __future__ import annotations

from collections import deque
from enum import Enum
from http import HTTPStatus
from typing import Any, Final

import httptools

from fastnode.errors import NodeBusy
from fastnode.http.allowance import Allowance, Party
from fastnode.http.guard import RequestGuard
from fastnode.http.limits import Limits
from fastnode.http.messages import Refusal, Request

__all__ = ["ReadState", "RequestReader"]

#: Counted for each header besides its name and value: colon, blank, CR, LF.
HEADER_OVERHEAD_BYTES: Final = 4
#: Bytes around the data of a chunk: the digits of a size within the limit, and CR LF twice.
CHUNK_LINE_BYTES: Final = 12
#: The memory of a body is taken in steps of this.
BODY_STEP_BYTES: Final = 16 * 1024
#: A smaller piece of a body is copied into a buffer.
PIECE_BYTES_MIN: Final = 4 * 1024


class ReadState(Enum):
    IDLE = "between requests"
    HEAD = "in a request line or headers"
    BODY = "in a body"
    ENDED = "nothing more will be read"


class _Refused(Exception):  # noqa: N818 - control flow out of the parser's callbacks
    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.reason)
        self.refusal = refusal


class _NotAdmitted(Exception):  # noqa: N818 - likewise
    """Nothing more of this client is read; the application says no."""


class RequestBody:
    """Body of a request while it arrives.

        add, add, ... ──► take: the body whole, and the memory that is its own until the answer is sent
             │
             └── drop: the memory is given back

    Large pieces are kept as they come and put together at the end; small ones go into one buffer, so that none costs
    more than its bytes.  These are taken from the memory budget as they come.  ``bytes_max``: size that no body
    exceeds; ``party`` pays for the memory, None: nobody does.
    """

    __slots__ = ("_bytes_max", "_party", "_pieces", "_small_pieces", "allowance", "chunk_count", "size")

    def __init__(self, bytes_max: int, party: Party | None) -> None:
        self._bytes_max = bytes_max
        self._party = party
        #: Memory that is taken; None before the first byte, and where nobody pays.
        self.allowance: Allowance | None = None
        self._forget()

    def _forget(self) -> None:
        self.size = 0
        self.chunk_count = 0
        self._pieces: list[bytes] = []
        self._small_pieces: bytearray | None = None  # behind the pieces

    def invariant(self) -> None:
        """AssertionError unless the size is that of the pieces, and they are paid for."""
        assert self.size == sum(map(len, self._pieces)) + len(self._small_pieces or b"")
        assert self._party is None or not self.size or self.allowance is not None

    def add(self, piece: bytes) -> None:
        """NodeBusy, and nothing is added, if there is no memory for it."""
        size = self.size + len(piece)
        if self._party is not None:
            self._take_memory(self._party, size)
        if len(piece) >= PIECE_BYTES_MIN or not self.size:
            self._end_small_pieces()
            self._pieces.append(piece)
        elif self._small_pieces is None:
            self._small_pieces = bytearray(piece)
        else:
            self._small_pieces += piece
        self.size = size

    def _take_memory(self, party: Party, size: int) -> None:
        if self.allowance is None:
            self.allowance = Allowance(party)
        missing = size - self.allowance.taken_bytes
        if missing > 0:
            self.allowance.take(max(missing, min(BODY_STEP_BYTES, self._bytes_max)))

    def _end_small_pieces(self) -> None:
        if self._small_pieces is not None:
            self._pieces.append(bytes(self._small_pieces))
            self._small_pieces = None

    def take(self) -> tuple[bytes, Allowance | None]:
        """The body, and its memory; an idle connection holds on to nothing."""
        self._end_small_pieces()
        body = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        allowance, self.allowance = self.allowance, None
        self._forget()
        return body, allowance

    def drop(self) -> None:
        """Give back all of it."""
        self._forget()
        if self.allowance is not None:
            self.allowance.give_back()
            self.allowance = None


class RequestReader:
    """``feed`` bytes; take :class:`Request` and at most one final :class:`Refusal` from ``arrived``.

      .---- the request is complete ----.
      v                                 |
    IDLE ---- first byte ----> HEAD --- blank line ----> BODY
      |                          |                        |
      '---- refused, not admitted, the last request, close ----> ENDED
    """

    __slots__ = (
        "_body",
        "_chunk_line_bytes",
        "_guard",
        "_head_bytes",
        "_headers",
        "_is_http_1_0",
        "_keep_alive",
        "_limits",
        "_method",
        "_parser",
        "_refusal",
        "_target",
        "_unfinished_head_bytes",
        "_upgrade",
        "arrived",
        "awaits_continue",
        "begun_count",
        "held",
        "state",
    )

    def __init__(self, limits: Limits, guard: RequestGuard | None = None, party: Party | None = None) -> None:
        self._limits = limits
        self._guard = guard
        self._body = RequestBody(limits.body_bytes_max, party)
        self.arrived: deque[Request | Refusal] = deque()
        self.state = ReadState.IDLE
        #: Requests whose first byte has come; tells one open head or body from the next.
        self.begun_count = 0
        #: The client waits for "100 Continue" before it sends the body.
        self.awaits_continue = False
        #: None until there is something to read: it holds on to eight methods, and many connections never need it.
        self._parser: Any = None
        self._refusal: Refusal | None = None
        self._unfinished_head_bytes = 0
        #: Protocol that the request wants that is read again.
        self._upgrade: bytes | None = None
        #: Request for another protocol, until it is answered: the bytes behind it may be of that protocol.  Nothing is
        #: read meanwhile.
        self.held: Request | None = None
        self._reset()

    def _reset(self) -> None:
        self._method = b""
        self._target = b""
        self._headers: dict[bytes, bytes] = {}
        self._head_bytes = 0
        self._chunk_line_bytes = 0
        self._body.drop()
        self._is_http_1_0 = False
        self._keep_alive = True

    def close(self) -> None:
        """Let go of everything at once: the parser and this object hold each other."""
        self.state = ReadState.ENDED
        self._parser = self.held = None
        for item in self.arrived:
            if isinstance(item, Request) and item.allowance is not None:
                item.allowance.give_back()
        self.arrived.clear()
        self._body.drop()

    def invariant(self) -> None:
        """AssertionError unless a body is held in BODY alone, and nothing follows a refusal."""
        body = self._body
        body.invariant()
        if self.state is not ReadState.BODY:
            assert body.size == 0
            assert body.allowance is None
            assert not self.awaits_continue
        elif self.awaits_continue:
            assert body.size == 0
        assert self.held is None or self.state is ReadState.IDLE
        refusals = [place for place, item in enumerate(self.arrived) if isinstance(item, Refusal)]
        assert not refusals or (refusals == [len(self.arrived) - 1] and self.state is ReadState.ENDED)

    @property
    def is_chunked(self) -> bool:
        """True if the body comes in chunks, each of which takes its time however small it is."""
        return b"transfer-encoding" in self._headers

    # ---- feeding ---------------------------------------------------------------------------

    def feed(self, data: bytes | memoryview) -> bytes:
        """Read what has arrived on the socket; return the bytes behind a request that is held.  Never raises."""
        assert self.held is None
        if self._parser is None and self.state is not ReadState.ENDED:
            self._parser = httptools.HttpRequestParser(self)
        before, begun_before, body_before = self.state, self.begun_count, self._body.size
        pieces: deque[bytes | memoryview] = deque([data])
        while pieces and self.state is not ReadState.ENDED and self.held is None:
            piece = pieces.popleft()
            try:
                self._parser.feed_data(piece)
            except httptools.HttpParserUpgrade as upgrade:
                # The parser stops behind the head.  Read the request again without its wish to upgrade, which is handed
                # on beside it.
                pieces.append(self._head_without_upgrade())
                pieces.append(memoryview(piece)[upgrade.args[0] :])
                self._parser = httptools.HttpRequestParser(self)
                self._upgrade = self._headers.get(b"upgrade")
            except httptools.HttpParserCallbackError:
                self._end_with(self._refusal or Refusal(HTTPStatus.BAD_REQUEST, "malformed request"))
            except httptools.HttpParserError as error:
                self._end_with(Refusal(HTTPStatus.BAD_REQUEST, f"malformed request: {error}"))
        self._check_unfinished_head(len(data), before, begun_before)
        if before is ReadState.BODY and self.state is ReadState.BODY and self.begun_count == begun_before:
            self._check_chunk_lines(len(data) - (self._body.size - body_before))
        return b"" if self.held is None else b"".join(pieces)

    def read_on(self) -> None:
        """The request that is held has been answered in HTTP: what follows is the next request."""
        self.held = None

    def _head_without_upgrade(self) -> bytes:
        """The request just read, as it would have been sent by a client that does not ask for another protocol.

        A request that is answered without a change of protocol counts as it is (RFC 9110, section 7.8).
        """
        version = b"1.0" if self._is_http_1_0 else b"1.1"
        lines = [b"%b %b HTTP/%b\r\n" % (self._method, self._target, version)]
        lines += [b"%b: %b\r\n" % pair for pair in self._headers.items() if pair[0] != b"upgrade"]
        return b"".join((*lines, b"\r\n"))

    def refuse(self, status: HTTPStatus, reason: str) -> None:
        """End the reading from outside, for a time-out."""
        if self.state is not ReadState.ENDED:
            self._end_with(Refusal(status, reason))

    def _end_with(self, refusal: Refusal) -> None:
        # Bytes after a request that closes the connection are not a second request to answer.
        if self.state is not ReadState.ENDED:
            # Between requests the headers are those of the one before.
            origin = b"" if self.state is ReadState.IDLE else self._headers.get(b"origin", b"")
            self.arrived.append(refusal._replace(origin=origin))
        self.state = ReadState.ENDED
        self.awaits_continue = False
        self._body.drop()

    def _check_unfinished_head(self, fed: int, before: ReadState, begun_before: int) -> None:
        """A header that never ends reaches no callback: count what was fed while one head stayed open.

        ``before`` and ``begun_before`` were the state and the count until then.  A head that shares what was fed with
        other requests is counted from the next piece on.
        """
        begun = self.begun_count - begun_before
        if self.state is ReadState.HEAD and before is ReadState.HEAD and begun == 0:
            self._unfinished_head_bytes += fed
        elif self.state is ReadState.HEAD and before is ReadState.IDLE and begun == 1:
            self._unfinished_head_bytes = fed
        else:
            self._unfinished_head_bytes = 0
        if self._unfinished_head_bytes > self._limits.head_bytes_max:
            self._end_with(self._head_too_large())

    def _check_chunk_lines(self, fed: int) -> None:
        """Extensions of chunks reach no callback: count what was fed inside a body and is not of the body.

        A piece that has the beginning or the end of the request is not counted.
        """
        self._chunk_line_bytes += fed
        allowed = self._limits.head_bytes_max + CHUNK_LINE_BYTES * self._body.chunk_count
        if self._chunk_line_bytes > allowed:
            reason = f"chunk extensions and trailers exceed the limit of {self._limits.head_bytes_max} bytes"
            self._end_with(Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, reason))

    def _refuse(self, refusal: Refusal) -> None:
        """Leave the parser from inside a callback."""
        self._refusal = refusal
        raise _Refused(refusal)

    def _head_too_large(self) -> Refusal:
        return Refusal(
            HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
            f"the request line and headers exceed the limit of {self._limits.head_bytes_max} bytes",
        )

    # ---- callbacks of the parser -------------------------------------------------------------

    def on_message_begin(self) -> None:
        self._reset()
        self.begun_count += 1
        self.state = ReadState.HEAD

    def on_url(self, piece: bytes) -> None:
        self._target += piece
        self._count_head(len(piece))

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count_head(len(name) + len(value) + HEADER_OVERHEAD_BYTES)
        if self.state is ReadState.BODY:
            return  # a trailer of a chunked body: counted, not used
        name = name.lower()
        if name in self._headers:
            if name == b"host":
                self._refuse(Refusal(HTTPStatus.BAD_REQUEST, "two Host headers"))
            value = self._headers[name] + b", " + value
        self._headers[name] = value
        if len(self._headers) > self._limits.headers_max:
            reason = f"more than {self._limits.headers_max} headers"
            self._refuse(Refusal(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, reason))

    def on_headers_complete(self) -> None:
        self._method = self._parser.get_method()
        version = self._parser.get_http_version()
        self._is_http_1_0 = version == "1.0"
        # CONNECT turns the connection into something that is not HTTP any more.
        self._keep_alive = self._parser.should_keep_alive() and self._method != b"CONNECT"
        if self._guard is not None and not self._guard.admits(self._method, self._target, self._headers):
            self._end_with_unread_body()
        if version not in ("1.0", "1.1"):
            self._refuse(Refusal(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, f"HTTP/{version} is not spoken here"))
        if not self._is_http_1_0 and b"host" not in self._headers:
            self._refuse(Refusal(HTTPStatus.BAD_REQUEST, "no Host header"))
        self._check_framing()
        self.state = ReadState.BODY

    def _end_with_unread_body(self) -> None:
        """Pass on the head alone, for the application to refuse."""
        self.arrived.append(Request(self._method, self._target, self._headers, b"", self._is_http_1_0, False, None))
        self.state = ReadState.ENDED
        raise _NotAdmitted

    def _check_framing(self) -> None:
        """The body's length.  llhttp has refused conflicting and repeated lengths already."""
        headers = self._headers
        coding = headers.get(b"transfer-encoding")
        if coding is not None:
            if self._is_http_1_0:
                self._refuse(Refusal(HTTPStatus.BAD_REQUEST, "Transfer-Encoding in HTTP/1.0"))
            if coding.lower() != b"chunked":
                self._refuse(Refusal(HTTPStatus.NOT_IMPLEMENTED, "only the transfer coding chunked is understood"))
        length = int(headers.get(b"content-length", b"0"))
        if length > self._limits.body_bytes_max:
            self._refuse_body()
        expectation = headers.get(b"expect")
        if expectation is not None and not self._is_http_1_0:
            if expectation.lower() != b"100-continue":
                self._refuse(Refusal(HTTPStatus.EXPECTATION_FAILED, "unknown expectation"))
            self.awaits_continue = coding is not None or length > 0

    def on_chunk_header(self) -> None:
        self._body.chunk_count += 1
        if self._body.chunk_count > self._limits.body_chunks_max:
            reason = f"the request body comes in more than {self._limits.body_chunks_max} chunks"
            self._refuse(Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, reason))

    def on_body(self, piece: bytes) -> None:
        self.awaits_continue = False
        if self._body.size + len(piece) > self._limits.body_bytes_max:
            self._refuse_body()
        try:
            self._body.add(piece)
        except NodeBusy as error:
            self._refuse(Refusal(HTTPStatus.SERVICE_UNAVAILABLE, error.message))

    def on_message_complete(self) -> None:
        if self._parser.should_upgrade() and self._method != b"CONNECT":
            return  # its body has not been read; see feed
        asks_for_upgrade = self._upgrade is not None
        if self._upgrade is not None:
            self._headers[b"upgrade"], self._upgrade = self._upgrade, None
        body, allowance = self._body.take()
        request = Request(
            self._method, self._target, self._headers, body, self._is_http_1_0, self._keep_alive, allowance
        )
        self.arrived.append(request)
        self.awaits_continue = False
        self.state = ReadState.IDLE if self._keep_alive else ReadState.ENDED
        # One with a body ends somewhere in what was fed, and others behind it are read with it.
        if asks_for_upgrade and self._keep_alive and not self._has_body():
            self.held = request

    def _has_body(self) -> bool:
        return b"transfer-encoding" in self._headers or int(self._headers.get(b"content-length", b"0")) > 0

    def _count_head(self, size: int) -> None:
        self._head_bytes += size
        if self._head_bytes > self._limits.head_bytes_max:
            self._refuse(self._head_too_large())

    def _refuse_body(self) -> None:
        reason = f"the request body exceeds the limit of {self._limits.body_bytes_max} bytes"
        self._refuse(Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, reason))
