"""Budgets of clients over sockets: what is answered, what is refused, and how."""

from __future__ import annotations

import hashlib
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from tests.clock import Clock
from tests.conftest import PATIENCE_S, NodeProcess
from tests.serving.sockets import QUICK, RIGHT, SMALL, Connection, RunningServer, call, post, request

from fastnode.app.ground import method_documentation
from fastnode.http.limits import Limits
from fastnode.jsonrpc.rate_limit_rules import DEFAULT_COSTS, read_rate_limit_rules
from fastnode.jsonrpc.rate_limits import REFUSAL_DELAY_S, RateLimits

METHODS = ("test_double", "test_doubleInThread", "test_wait", "test_fill")
RULES = """
[address]
rate = 10
burst = 3
[keys.partner]
sha256 = "{partner}"
rate = 100
[methods]
deny = ["test_fill"]
[cors]
origins = ["https://wallet.example"]
"""
KEY = "x-api-key: partner"


Limited = Callable[..., RunningServer]


@pytest.fixture
def limited(serve: Callable[..., RunningServer], clock: Clock, tmp_path: Path) -> Limited:
    def start(text: str = RULES, limits: Limits = SMALL) -> RunningServer:
        file = tmp_path / "limits.toml"
        file.write_text(text.format(partner=hashlib.sha256(b"partner").hexdigest()))
        running = serve(limits)
        running.server.set_rate_limits(RateLimits(read_rate_limit_rules(file, METHODS), clock=clock))
        return running

    return start


@pytest.fixture
def running(limited: Limited) -> RunningServer:
    return limited()


@pytest.fixture
def connection(running: RunningServer) -> Iterator[Connection]:
    with running.connect() as connected:
        yield connected


def batch(*calls: bytes) -> bytes:
    return b"[" + b",".join(calls) + b"]"


# ---- keys ----------------------------------------------------------------------------------------


IN_PATH = RULES.replace("[keys.partner]", "[keys]\nin-path = true\n[keys.partner]", 1)
ASKS_FOR_KEYS = "requires-key = true\n" + IN_PATH


@pytest.mark.parametrize("target", ["/v1/partner", "/v1/partner/", "/v1/part%6eer", "/v1/partner?x=1"])
def test_a_key_may_be_in_the_path(limited: Limited, target: str) -> None:
    running = limited(ASKS_FOR_KEYS)
    with running.connect() as connection:
        for _ in range(2):  # the head is new, and known
            assert connection.ask(post(call(), target=target)).json == RIGHT
            assert connection.ask(post(batch(call(), call()), target=target)).json == [RIGHT, RIGHT]
        assert connection.ask(post(call(), target="/v1/another")).status == 401
        assert connection.ask(post(call(), target="/v1/")).status == 401
        assert connection.ask(post(call())).status == 401
        assert connection.ask(request("GET", "/v1/partner/livez")).status == 200
    limits = running.server.rate_limits
    assert limits is not None
    assert limits.usage["partner"].calls == 6


def test_a_key_in_the_path_is_none_unless_the_rules_say_so(running: RunningServer) -> None:
    with running.connect() as connection:
        assert connection.ask(post(call(), target="/v1/partner")).status == 404
    limits = running.server.rate_limits
    assert limits is not None
    assert limits.usage["partner"].calls == 0


def test_a_key_in_the_path_is_not_in_the_log(
    limited: Limited, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = limited(IN_PATH)

    async def fail(*_values: Any, **_named: Any) -> Any:
        raise RuntimeError("a bug")

    monkeypatch.setattr(running.server._rpc, "_read_call", fail)
    with running.connect() as connection:
        assert connection.ask(post(call("test_wait"), "x-request-id: 5", target="/v1/partner")).status == 500
    assert "answering a request failed" in caplog.text
    assert "partner" not in caplog.text


def test_a_path_key_wins_over_a_header(limited: Limited) -> None:
    with limited(ASKS_FOR_KEYS).connect() as connection:
        assert connection.ask(post(call(), "x-api-key: wrong", target="/v1/partner")).json == RIGHT
        assert connection.ask(post(call(), KEY, target="/v1/wrong")).status == 401


@pytest.mark.parametrize(
    "line", [KEY, "x-aztec-api-key: partner", "X-Aztec-Api-Key:partner", "Authorization: Bearer partner"]
)
def test_a_key_may_be_in_several_headers(limited: Limited, line: str) -> None:
    with limited(ASKS_FOR_KEYS).connect() as connection:
        assert connection.ask(post(call(), line)).json == RIGHT


def test_pages_may_read_all_headers(connection: Connection) -> None:
    assert connection.ask(post(call())).headers["access-control-expose-headers"] == "*"


def test_a_refusal_says_what_the_budget_is(connection: Connection) -> None:
    for _ in range(3):
        connection.ask(post(call()))
    headers = connection.ask(post(call())).headers
    assert (headers["ratelimit-policy"], headers["ratelimit"]) == ('"cost";q=3;w=1', '"cost";r=0')


# ---- budgets -------------------------------------------------------------------------------------


def test_a_request_over_the_budget_is_refused_until_there_is_some(connection: Connection, clock: Clock) -> None:
    for _ in range(3):
        assert connection.ask(post(call())).json == RIGHT
    answer = connection.ask(post(call(identifier=7)))
    assert answer.status == 429
    assert answer.headers["retry-after"] == "1"
    assert answer.headers["content-type"] == "application/json; charset=utf-8"
    assert answer.json == {
        "jsonrpc": "2.0",
        "id": 7,
        "error": {
            "code": -32005,
            "message": "Rate limit exceeded: test_double costs 1; try again in 0.1 s",
            "data": {"code": "RATE_LIMITED", "retryAfterMs": 100},
        },
    }
    clock.now += 0.1
    assert connection.ask(post(call())).json == RIGHT


def test_a_refusal_comes_a_moment_late_and_in_order(connection: Connection) -> None:
    connection.ask(post(batch(call(), call(), call())))
    started = time.monotonic()
    connection.send(post(call()) + request("GET", "/status"))
    assert connection.read().status == 429
    assert time.monotonic() - started >= REFUSAL_DELAY_S * 0.9
    assert connection.read().body == b"OK"


def test_the_calls_of_a_batch_are_counted_one_by_one(connection: Connection) -> None:
    answer = connection.ask(post(batch(*(call(identifier=number) for number in range(5)))))
    assert answer.status == 200
    assert [each.get("result") for each in answer.json] == [42, 42, 42, None, None]
    assert [each["id"] for each in answer.json] == [0, 1, 2, 3, 4]
    assert [each["error"]["code"] for each in answer.json[3:]] == [-32005, -32005]


def test_a_batch_of_which_nothing_can_be_answered_is_refused(connection: Connection) -> None:
    connection.ask(post(batch(call(), call(), call())))
    answer = connection.ask(post(batch(call(identifier=1), call(identifier=2))))
    assert answer.status == 429
    assert int(answer.headers["retry-after"]) >= 1
    assert [(each["id"], each["error"]["code"]) for each in answer.json] == [(1, -32005), (2, -32005)]


def test_a_notification_over_the_budget_is_refused_too(connection: Connection) -> None:
    connection.ask(post(batch(call(), call(), call())))
    answer = connection.ask(post(b'{"jsonrpc":"2.0","method":"test_double","params":[1]}'))
    assert answer.status == 429
    assert answer.json["error"]["code"] == -32005


def test_calls_in_threads_are_counted_too(connection: Connection) -> None:
    answer = connection.ask(post(batch(*[call("test_doubleInThread")] * 4)))
    assert ["result" in each for each in answer.json] == [True, True, True, False]


def test_what_cannot_be_understood_is_charged(connection: Connection) -> None:
    assert connection.ask(post(b"{")).json["error"]["code"] == -32700
    assert connection.ask(post(b"[]")).json["error"]["code"] == -32600
    assert connection.ask(post(b"[5]")).json[0]["error"]["code"] == -32600
    assert connection.ask(post(b"{")).status == 429


def test_a_large_body_over_the_budget_is_refused_unread(connection: Connection, running: RunningServer) -> None:
    connection.ask(post(batch(call(), call(), call())))
    answer = connection.ask(post(b" " * 5000 + b"no JSON"))
    assert answer.status == 429
    assert answer.json["id"] is None
    assert running.server.engine.traffic.rejected["rate"] == 1


def test_connections_of_an_address_share_its_budget(connection: Connection, running: RunningServer) -> None:
    connection.ask(post(batch(call(), call(), call())))
    with running.connect() as second:
        assert second.ask(post(call())).status == 429
        assert second.ask(post(call(), KEY)).json == RIGHT


def test_pipelined_requests_are_answered_in_order(connection: Connection) -> None:
    connection.send(b"".join(post(call(identifier=number)) for number in range(6)))
    assert [connection.read().status for _ in range(6)] == [200, 200, 200, 429, 429, 429]


def test_other_paths_and_probes_cost_nothing(connection: Connection) -> None:
    for _ in range(10):
        assert connection.ask(request("GET", "/status")).status == 200
        assert connection.ask(request("OPTIONS", "/")).status == 200
    assert connection.ask(post(call())).json == RIGHT


# ---- keys and methods ------------------------------------------------------------------------------


def test_a_wrong_key_is_unauthorized(connection: Connection, running: RunningServer) -> None:
    answer = connection.ask(post(call(), "x-api-key: wrong"))
    assert answer.status == 401
    assert answer.json["error"] == {"code": -32000, "message": "Unauthorized: invalid or missing API key"}
    assert running.server.engine.traffic.rejected["key"] == 1
    assert connection.ask(post(call(), "Authorization: Bearer partner")).json == RIGHT


def test_where_keys_are_required_only_probes_go_without(limited: Limited) -> None:
    with limited("requires-key = true\n" + RULES).connect() as connection:
        assert connection.ask(post(call())).status == 401
        assert connection.ask(request("GET", "/readyz")).status == 200
        assert connection.ask(post(call(), KEY)).json == RIGHT


def test_a_denied_method_is_not_available(connection: Connection, running: RunningServer) -> None:
    error = connection.ask(post(call("test_fill"))).json["error"]
    assert error == {"code": -32601, "message": "Method not available: test_fill is not offered to this client"}
    assert running.workshop.filled == 0
    assert connection.ask(post(call("test_nothing"))).json["error"]["message"] == "Method not found: test_nothing"
    assert running.server.engine.traffic.rejected == {"method": 1}


def test_new_rules_hold_on_open_connections(connection: Connection, running: RunningServer, tmp_path: Path) -> None:
    for _ in range(4):
        connection.ask(post(call()))
    (tmp_path / "none.toml").write_text("")
    running.server.set_rate_limits(RateLimits(read_rate_limit_rules(tmp_path / "none.toml", METHODS)))
    assert connection.ask(post(call())).json == RIGHT
    assert connection.ask(post(call("test_fill", 0))).status == 200


# ---- origins ----------------------------------------------------------------------------------------

ALLOW_ORIGIN = "access-control-allow-origin"


@pytest.mark.parametrize("number", [1, 4])  # answered, refused
def test_only_origins_of_the_list_may_read_answers(connection: Connection, number: int) -> None:
    for _ in range(number - 1):
        connection.ask(post(call()))
    good = connection.ask(post(call(), "Origin: https://wallet.example"))
    assert good.headers[ALLOW_ORIGIN] == "https://wallet.example"
    assert ALLOW_ORIGIN not in connection.ask(post(call(), "Origin: https://other.example")).headers
    assert ALLOW_ORIGIN not in connection.ask(post(call())).headers


def test_a_preflight_of_another_origin_gets_no_permission(connection: Connection) -> None:
    lines = ("Access-Control-Request-Method: POST", "Access-Control-Request-Headers: x-api-key")
    good = connection.ask(request("OPTIONS", "/", "Origin: https://wallet.example", *lines))
    assert (good.status, good.headers[ALLOW_ORIGIN]) == (204, "https://wallet.example")
    assert good.headers["access-control-allow-headers"] == "x-api-key"
    bad = connection.ask(request("OPTIONS", "/", "Origin: https://other.example", *lines))
    assert (bad.status, ALLOW_ORIGIN in bad.headers) == (204, False)


#: Beginnings of a request line and a head that are not read to their end.
UNREAD = {
    413: "Content-Length: 10001\r\n\r\n",
    431: "".join(f"X-{number}: 1\r\n" for number in range(25)),
    400: "Host: other\r\nX: 1\r\n",
}


@pytest.mark.parametrize("status", UNREAD)
def test_only_origins_of_the_list_may_read_why_a_request_was_not_read(running: RunningServer, status: int) -> None:
    for line, allowed in (
        ("Origin: https://wallet.example\r\n", "https://wallet.example"),
        ("Origin: https://other.example\r\n", None),
        ("Origin: https://wallet.example\r\nOrigin: https://other.example\r\n", None),
        ("", None),
    ):
        with running.connect() as connection:
            answer = connection.ask(f"POST / HTTP/1.1\r\nHost: node\r\n{line}{UNREAD[status]}".encode())
            assert (answer.status, answer.headers.get(ALLOW_ORIGIN)) == (status, allowed), line


def test_what_came_too_slowly_is_refused_to_the_origin_that_was_read(limited: Limited) -> None:
    running = limited(limits=QUICK)
    for head, allowed in (
        ("Origin: https://wallet.example\r\nContent-Length: 9\r\n\r\n{", "https://wallet.example"),
        ("Origin: https://wallet.exam", None),
    ):
        with running.connect() as connection:
            answer = connection.ask(f"POST / HTTP/1.1\r\nHost: node\r\n{head}".encode())
            assert (answer.status, answer.headers.get(ALLOW_ORIGIN)) == (408, allowed)


def test_the_origin_of_a_request_is_not_that_of_what_follows(connection: Connection) -> None:
    connection.send(post(call(), "Origin: https://wallet.example") + b"\0")
    assert connection.read().headers[ALLOW_ORIGIN] == "https://wallet.example"
    answer = connection.read()
    assert (answer.status, ALLOW_ORIGIN in answer.headers) == (400, False)


def test_a_connection_too_many_is_refused_to_every_origin(limited: Limited) -> None:
    running = limited(limits=replace(SMALL, connections_max=1))
    with running.connect() as first:
        assert first.ask(post(call())).json == RIGHT
        with running.connect() as second:
            answer = second.read()
            assert (answer.status, ALLOW_ORIGIN in answer.headers) == (503, False)


def test_without_a_list_every_origin_may_read(limited: Limited) -> None:
    with limited("").connect() as connection:
        assert connection.ask(post(call(), "Origin: https://a.example")).headers[ALLOW_ORIGIN] == "*"
        assert connection.ask(post(b" " * 10_001)).headers[ALLOW_ORIGIN] == "*"


# ---- the node ----------------------------------------------------------------------------------------


def test_default_costs_are_those_of_methods_that_exist() -> None:
    assert set(DEFAULT_COSTS) <= {method.name for method in method_documentation.all_methods()}


def test_what_may_need_a_thread_costs_more_than_a_look_up() -> None:
    public = (method for method in method_documentation.all_methods() if not method.name.startswith("nodeAdmin_"))
    assert [method.name for method in public if method.in_thread and DEFAULT_COSTS.get(method.name, 1) <= 1] == []


def status_of(node: NodeProcess, method: str = "node_getVersion", *lines: str) -> int:
    with Connection(node.port) as connection:
        body = orjson.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": []})
        return connection.ask(post(body, *lines)).status


DISCOVERY_RULES = f"""
[keys.partner]
sha256 = "{hashlib.sha256(b"partner").hexdigest()}"
deny = ["node_getL2Tips"]
[methods]
deny = ["node_sendTx", "node_isValid*"]
"""


def test_a_client_is_told_of_the_methods_that_it_may_call(
    start_node: Callable[..., NodeProcess], short_chain: Path, tmp_path: Path
) -> None:
    file = tmp_path / "limits.toml"
    file.write_text(DISCOVERY_RULES)
    node = start_node("--chain-file", short_chain, "--rpc-limits", file).wait_until_serving()

    discover = b'{"jsonrpc":"2.0","id":1,"method":"rpc.discover","params":[]}'

    def hidden_from(*lines: str, body: bytes = discover) -> set[str]:
        with Connection(node.port) as connection:
            answer = connection.ask(post(body, *lines)).json
        (one,) = answer if isinstance(answer, list) else [answer]
        return everything - {method["name"] for method in one["result"]["methods"]}

    served = (method for method in method_documentation.all_methods() if method.signature("both") is not None)
    names = {method.name for method in served}
    # The document does not describe the method that gives it, nor what the admin port alone has on such a node.
    elsewhere = {"rpc.discover", "fastnode_registerArtifact"}
    elsewhere |= {"fastnode_traceBlock", "fastnode_traceCall", "fastnode_traceTransaction"}
    everything = {name for name in names if not name.startswith("nodeAdmin_")} - elsewhere
    for body in (discover, batch(discover), discover):
        assert hidden_from(body=body) == {"node_sendTx", "node_isValidTx"}
        assert hidden_from(KEY, body=body) == {"node_sendTx", "node_isValidTx", "node_getL2Tips"}
    with Connection(node.port) as connection:
        for lines, hidden in (((), set()), ((KEY,), {"node_getL2Tips"})):
            document = connection.ask(request("GET", "/openrpc.json", *lines)).json
            offered = {method["name"] for method in document["methods"]}
            assert everything - offered == {"node_sendTx", "node_isValidTx"} | hidden
    file.write_text("")
    node.process.send_signal(signal.SIGHUP)
    deadline = time.monotonic() + PATIENCE_S
    while hidden_from():
        assert time.monotonic() < deadline


def test_a_node_reads_its_limits_again_on_a_signal(
    start_node: Callable[..., NodeProcess], short_chain: Path, tmp_path: Path
) -> None:
    file = tmp_path / "limits.toml"
    file.write_text("[address]\nrate = 0.001\nburst = 50\n[costs]\nnode_getVersion = 30\n")
    node: Any = start_node("--chain-file", short_chain, "--rpc-limits", file)
    node.wait_until_serving()
    assert [status_of(node), status_of(node)] == [200, 429]
    file.write_text("[address]\nrate = 0.001\nburst = 50\n[costs]\nnode_getVersion = 51\n")
    node.process.send_signal(signal.SIGHUP)
    entry = node.wait_for_line("the limits of clients stay as they were")
    assert "51" in entry["reason"]
    assert status_of(node) == 429
    file.write_text("")
    node.process.send_signal(signal.SIGHUP)
    deadline = time.monotonic() + PATIENCE_S
    while status_of(node) != 200:
        assert time.monotonic() < deadline
    assert node.stop() == 0


def test_a_bad_file_stops_the_start(start_node: Callable[..., NodeProcess], short_chain: Path, tmp_path: Path) -> None:
    file = tmp_path / "limits.toml"
    file.write_text("[address]\nrate = -1\n")
    node = start_node("--chain-file", short_chain, "--rpc-limits", file)
    entry = node.wait_for_line("rpc-limits:")
    assert f"{file}: address.rate: must be a number" in entry["message"]
    assert node.process.wait(30) == 78


COSTLY_DOCUMENT = """
[address]
rate = 1
burst = 60
[costs]
"rpc.discover" = 50
"""


def test_the_document_costs_as_much_with_get_as_with_a_call(
    start_node: Callable[..., NodeProcess], short_chain: Path, tmp_path: Path
) -> None:
    file = tmp_path / "limits.toml"
    file.write_text(COSTLY_DOCUMENT)
    node = start_node("--chain-file", short_chain, "--rpc-limits", file).wait_until_serving()
    with Connection(node.port) as connection:
        assert connection.ask(request("GET", "/openrpc.json")).status == 200
        refused = connection.ask(request("GET", "/openrpc.json"))
        assert (refused.status, "retry-after" in refused.headers) == (429, True)
        assert connection.ask(request("GET", "/livez")).status == 200


ONE_VERSION = """
[address]
rate = 0.001
burst = 60
[costs]
node_getVersion = 50
[methods]
deny = ["node_getChainId"]
"""


def test_a_newer_name_of_a_method_is_under_the_same_budget_and_list(
    start_node: Callable[..., NodeProcess], short_chain: Path, tmp_path: Path
) -> None:
    file = tmp_path / "limits.toml"
    file.write_text(
        '[address]\nrate = 0.001\nburst = 60\n[costs]\nnode_getVersion = 50\n[methods]\ndeny = ["node_getChainId"]\n'
    )
    node = start_node("--chain-file", short_chain, "--rpc-limits", file).wait_until_serving()
    with Connection(node.port) as connection:

        def code_of(method: bytes) -> int | None:
            answer = connection.ask(post(b'{"jsonrpc":"2.0","id":1,"method":"%b","params":[]}' % method)).json
            code: int | None = answer.get("error", {}).get("code")
            return code

        assert [code_of(name) for name in (b"node_getChainId", b"aztec_getChainId")] == [-32601, -32601]
        assert code_of(b"aztec_getVersion") is None
        assert [code_of(name) for name in (b"aztec_getVersion", b"node_getVersion")] == [-32005, -32005]


@pytest.mark.parametrize(("namespaces", "answered"), [("node", [True, False]), ("aztec", [False, True])])
def test_one_of_the_namespaces_can_be_left_out(
    start_node: Callable[..., NodeProcess], short_chain: Path, namespaces: str, answered: list[bool]
) -> None:
    node = start_node("--chain-file", short_chain, "--namespaces", namespaces).wait_until_serving()
    assert ["result" in node.call(f"{prefix}_getVersion") for prefix in ("node", "aztec")] == answered
    assert "result" in node.call("rpc.discover")
