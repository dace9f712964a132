"""The server over real sockets: requests as they should be, and what the application says to others."""

from __future__ import annotations

import gzip
import time
import zlib
from collections.abc import Callable
from email.utils import parsedate_to_datetime

import orjson
import pytest
from tests.serving.sockets import RIGHT, SMALL, Connection, RunningServer, call, post, request, wait_until

# ---- one request ------------------------------------------------------------------------------


def test_a_call_is_answered_with_the_documented_headers(connection: Connection) -> None:
    answer = connection.ask(post(call()))
    assert (answer.status, answer.json) == (200, RIGHT)
    headers = answer.headers
    assert headers.pop("date")
    assert headers == {
        "vary": "Accept-Encoding, Origin",
        "access-control-allow-origin": "*",
        "access-control-expose-headers": "*",
        "content-type": "application/json; charset=utf-8",
        "x-aztec-packageversion": "4.1.2",
        "content-length": str(len(answer.body)),
        "connection": "keep-alive",
        "keep-alive": "timeout=65",
    }


def test_an_answer_names_its_time(connection: Connection) -> None:
    """The loop notes it again as soon as it can: a loop that is held up is late with it."""

    def is_now() -> bool:
        asked_at = int(time.time())
        sent_at = parsedate_to_datetime(connection.ask(post(call())).headers["date"])
        return asked_at - 1 <= sent_at.timestamp() <= time.time()

    wait_until(is_now)


@pytest.mark.parametrize("target", ["/", "//", "/?x=1", "/?", "http://node/", "http://node", "HTTP://node:80?x"])
def test_every_way_to_name_the_root_is_the_rpc_route(connection: Connection, target: str) -> None:
    assert connection.ask(post(call(), target=target)).json == RIGHT


@pytest.mark.parametrize("target", ["/foo", "/rpc/", "/status/x", "/%2f", "/..", "*", "/statuss"])
def test_other_paths_are_not_found(connection: Connection, target: str) -> None:
    for verb in ("GET", "POST", "DELETE", "OPTIONS"):
        answer = connection.ask(request(verb, target, "Content-Length: 0"))
        assert (answer.status, answer.body[:10]) == (404, b"Not Found:"), verb
        assert b"POST /;" in answer.body
        assert answer.headers["x-aztec-packageversion"] == "4.1.2"


def test_the_status_is_ok(connection: Connection) -> None:
    answer = connection.ask(request("GET", "/status"))
    assert (answer.status, answer.body) == (200, b"OK")
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    connection.send(request("HEAD", "/status"))
    answer = connection.read(of_head_request=True)
    assert (answer.status, answer.headers["content-length"]) == (200, "2")
    assert connection.ask(request("GET", "/status?verbose")).body == b"OK"


@pytest.mark.parametrize("verb", ["GET", "PUT", "DELETE", "PATCH", "PROPFIND"])
def test_other_verbs_on_the_root_are_not_allowed(connection: Connection, verb: str) -> None:
    answer = connection.ask(request(verb, "/"))
    assert (answer.status, answer.headers["allow"]) == (405, "POST")
    assert answer.body.startswith(b"Method Not Allowed: calls of JSON-RPC are POST; GET /status ")


@pytest.mark.parametrize("verb", ["POST", "PUT", "DELETE"])
def test_other_verbs_on_the_status_are_not_allowed(connection: Connection, verb: str) -> None:
    answer = connection.ask(request(verb, "/status", "Content-Length: 0"))
    assert (answer.status, answer.headers["allow"]) == (405, "HEAD, GET")


def test_a_head_request_to_the_root_has_no_body(connection: Connection) -> None:
    connection.send(request("HEAD", "/"))
    assert connection.read(of_head_request=True).status == 405
    assert connection.ask(post(call())).json == RIGHT


def test_a_notification_gets_204_without_content(connection: Connection) -> None:
    answer = connection.ask(post(b'{"method":"test_double","params":[1]}'))
    assert answer.status == 204
    assert "content-length" not in answer.headers
    assert "content-type" not in answer.headers
    assert connection.ask(post(call())).json == RIGHT


@pytest.mark.parametrize("body", [b'{"id":1,"method":"test_nope"}', b"{", b"[]"])
def test_an_rpc_error_is_http_200_unless_the_setting_says_400(serve: Callable[..., RunningServer], body: bytes) -> None:
    for options, status in (({}, 200), ({"error_status": 400}, 400)):
        with serve(**options).connect() as connection:
            assert connection.ask(post(body)).status == status


def test_errors_inside_a_batch_never_change_the_http_status(serve: Callable[..., RunningServer]) -> None:
    with serve(error_status=400).connect() as connection:
        answer = connection.ask(post(b'[{"id":1,"method":"test_nope"}]'))
        assert answer.status == 200
        assert connection.ask(post(call())).status == 200


def test_the_headers_of_a_later_chain_replace_the_first_ones(running: RunningServer, connection: Connection) -> None:
    running.server.set_headers([("x-aztec-rollupVersion", "7")])
    headers = connection.ask(post(call())).headers
    assert headers["x-aztec-rollupversion"] == "7"
    assert "x-aztec-packageversion" not in headers


def test_a_header_with_a_line_break_is_refused(running: RunningServer) -> None:
    with pytest.raises(ValueError, match="line break"):
        running.server.set_headers([("x-version", "1\r\nSet-Cookie: a=b")])


# ---- content types ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content_type",
    [
        "application/json",
        "application/json; charset=utf-8",
        "Application/JSON;charset=latin1",
        "application/vnd.api+json",
        "text/plain",
        "application/x-www-form-urlencoded",
        "nonsense",
        "",
    ],
)
def test_json_is_taken_under_any_content_type(connection: Connection, content_type: str) -> None:
    assert connection.ask(post(call(), f"Content-Type: {content_type}")).json == RIGHT


def test_json_is_taken_without_a_content_type(connection: Connection) -> None:
    body = call()
    assert connection.ask(request("POST", "/", f"Content-Length: {len(body)}") + body).json == RIGHT


def test_what_is_not_json_and_does_not_say_so_is_415(connection: Connection) -> None:
    for content_type in ("text/plain", "text/json-ish", "application/jsonp", "multipart/form-data"):
        answer = connection.ask(post(b"a=1&b=2", f"Content-Type: {content_type}"))
        assert answer.status == 415
        assert answer.json["error"]["code"] == -32700
        assert "line 1 column 1" in answer.json["error"]["message"]
    answer = connection.ask(post(b"a=1&b=2"))
    assert (answer.status, answer.json["error"]["code"]) == (200, -32700)


# ---- CORS -------------------------------------------------------------------------------------


def test_a_preflight_is_answered(connection: Connection) -> None:
    wanted = ["Origin: https://dapp.example", "Access-Control-Request-Method: POST"]
    answer = connection.ask(
        request("OPTIONS", "/", *wanted, "Access-Control-Request-Headers: content-type,x-foo, Authorization")
    )
    assert answer.status == 204
    assert answer.headers["access-control-allow-origin"] == "*"
    assert answer.headers["access-control-allow-methods"] == "GET,HEAD,POST"
    # Or a page would ask before each of its calls.
    assert answer.headers["access-control-max-age"] == "7200"
    assert answer.headers["access-control-allow-headers"] == "content-type,x-foo, Authorization"
    assert "access-control-allow-headers" not in connection.ask(request("OPTIONS", "/", *wanted)).headers


def test_only_header_names_are_sent_back_to_a_preflight(connection: Connection) -> None:
    lines = ["Origin: x", "Access-Control-Request-Method: POST", "Access-Control-Request-Headers: a b<script>"]
    answer = connection.ask(request("OPTIONS", "/", *lines))
    assert "access-control-allow-headers" not in answer.headers


def test_options_without_a_preflight_says_what_is_allowed(connection: Connection) -> None:
    answer = connection.ask(request("OPTIONS", "/"))
    assert (answer.status, answer.headers["allow"], answer.body) == (200, "POST", b"")


def test_every_answer_may_be_read_by_a_browser(connection: Connection) -> None:
    for sent in (post(b"{"), request("GET", "/nope"), post(b"x", "Content-Type: text/plain"), b"GARBAGE\r\n\r\n"):
        assert connection.ask(sent).headers["access-control-allow-origin"] == "*"


# ---- content codings --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("coding", "pack"),
    [
        ("gzip", gzip.compress),
        ("GZIP", gzip.compress),
        ("x-gzip", gzip.compress),
        ("deflate", zlib.compress),
        ("identity", bytes),
        ("gzip", lambda data: gzip.compress(data[:10], mtime=0) + gzip.compress(data[10:])),
    ],
)
def test_a_request_body_may_be_compressed(connection: Connection, coding: str, pack: Callable[[bytes], bytes]) -> None:
    assert connection.ask(post(pack(call()), f"Content-Encoding: {coding}")).json == RIGHT


@pytest.mark.parametrize("coding", ["br", "zstd", "gzip, gzip", "compress", "x"])
def test_an_unknown_request_coding_is_415(connection: Connection, coding: str) -> None:
    answer = connection.ask(post(gzip.compress(call(), mtime=0), f"Content-Encoding: {coding}"))
    assert answer.status == 415
    assert "gzip" in answer.json["error"]["message"]


@pytest.mark.parametrize(
    "damaged",
    [
        b"",
        b"not gzip",
        gzip.compress(call(), mtime=0)[:-4],
        gzip.compress(call(), mtime=0) + b"tail",
        gzip.compress(call(), mtime=0)[:12] + b"\0" * 20,
    ],
)
def test_a_damaged_gzip_body_is_refused(connection: Connection, damaged: bytes) -> None:
    answer = connection.ask(post(damaged, "Content-Encoding: gzip"))
    assert answer.json["error"]["code"] in (-32600, -32700)
    assert answer.status == (400 if damaged else 200)
    assert connection.ask(post(call())).json == RIGHT


def test_a_gzip_bomb_is_refused_without_inflating_it(connection: Connection) -> None:
    bomb = gzip.compress(gzip.compress(b" " * 50_000_000, 9), 9)
    assert len(bomb) < SMALL.body_bytes_max
    for data in (bomb, gzip.compress(b" " * 5_000_000)):
        answer = connection.ask(post(data, "Content-Encoding: gzip"))
        assert answer.status == 413
        assert "limit of 10000 bytes" in answer.json["error"]["message"]
    members = gzip.compress(b"[" * 4_000) * 3
    assert connection.ask(post(members, "Content-Encoding: gzip")).status == 413


@pytest.mark.parametrize(
    ("accepted", "coding"),
    [
        ("gzip", "gzip"),
        ("gzip, deflate, br", "gzip"),
        ("deflate", "deflate"),
        ("*", "gzip"),
        ("gzip;q=0.1, deflate;q=0.9", "deflate"),
        ("gzip; q=0, *", "deflate"),
        ("GZIP", "gzip"),
        ("br", None),
        ("identity", None),
        ("gzip;q=0", None),
        ("gzip;q=nonsense", None),
        ("", None),
        (None, None),
    ],
)
@pytest.mark.parametrize("size", [2_000, 200_000])
def test_an_answer_is_compressed_as_the_client_accepts(
    serve: Callable[..., RunningServer], accepted: str | None, coding: str | None, size: int
) -> None:
    with serve().connect() as connection:
        lines = [] if accepted is None else [f"Accept-Encoding: {accepted}"]
        answer = connection.ask(post(call("test_fill", size), *lines))
    assert answer.headers.get("content-encoding") == coding
    unpack = {"gzip": gzip.decompress, "deflate": zlib.decompress, None: bytes}[coding]
    assert len(orjson.loads(unpack(answer.body))["result"]) == size // 6 * 6
    assert (len(answer.body) < size / 10) == (coding is not None)


def test_a_short_answer_is_not_compressed(connection: Connection) -> None:
    assert "content-encoding" not in connection.ask(post(call(), "Accept-Encoding: gzip")).headers
