"""The two ports of a whole node."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import orjson
import pytest

PUBLIC, ADMIN = 0, 1


async def exchange(port: int, request: bytes) -> tuple[bytes, bytes]:
    """Head and body of one answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(request)
        answer = await reader.read()
    finally:
        writer.close()
        await writer.wait_closed()
    head, _, body = answer.partition(b"\r\n\r\n")
    return head, body


def get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()


def post(method: str) -> bytes:
    body = orjson.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": []})
    head = "POST / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


@pytest.fixture
def ports(served: Any) -> tuple[int, int]:
    return served.ports("both")  # type: ignore[no-any-return]


@pytest.mark.parametrize("port", [PUBLIC, ADMIN])
def test_the_status_is_served_on_both_ports(served: Any, ports: tuple[int, int], port: int) -> None:
    head, body = served.run(exchange(ports[port], get("/status")))
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert body == b"OK"


@pytest.mark.parametrize("port", [PUBLIC, ADMIN])
def test_what_a_port_can_do_can_be_fetched_with_get(served: Any, ports: tuple[int, int], port: int) -> None:
    head, body = served.run(exchange(ports[port], get("/openrpc.json")))
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"\r\nContent-Type: application/json; charset=utf-8" in head
    assert b"\r\nAccess-Control-Allow-Origin: *" in head
    _, answer = served.run(exchange(ports[port], post("rpc.discover")))
    assert orjson.loads(body) == orjson.loads(answer)["result"]
    head, _ = served.run(exchange(ports[port], get("/openrpc.json").replace(b"GET", b"DELETE", 1)))
    assert head.startswith(b"HTTP/1.1 405 ")
    head, body = served.run(exchange(ports[port], get("/openrpc.json").replace(b"GET", b"HEAD", 1)))
    assert (head.startswith(b"HTTP/1.1 200 OK\r\n"), body) == (True, b"")


def test_who_has_the_document_already_is_told_that_it_holds(served: Any, ports: tuple[int, int]) -> None:
    head, _ = served.run(exchange(ports[PUBLIC], get("/openrpc.json")))
    [tag] = re.findall(rb'\r\nETag: (W/"[0-9a-f]+")', head)
    assert b"\r\nCache-Control: private, no-cache" in head
    for known, status in ((tag, b"304"), (b'"x", ' + tag, b"304"), (b'W/"other"', b"200")):
        asked = get("/openrpc.json").replace(b"Host:", b"If-None-Match: " + known + b"\r\nHost:", 1)
        head, body = served.run(exchange(ports[PUBLIC], asked))
        assert head.startswith(b"HTTP/1.1 " + status)
        assert (body == b"") is (status == b"304")
    other, _ = served.run(exchange(ports[ADMIN], get("/openrpc.json")))
    assert tag not in other


@pytest.mark.parametrize(
    ("port", "older", "newer"),
    [(PUBLIC, "node_getBlockNumber", "aztec_getBlockNumber"), (ADMIN, "nodeAdmin_getConfig", "aztecAdmin_getConfig")],
)
def test_methods_are_answered_by_their_newer_names_too(
    served: Any, ports: tuple[int, int], port: int, older: str, newer: str
) -> None:
    answers = [orjson.loads(served.run(exchange(ports[port], post(name)))[1]) for name in (older, newer)]
    assert answers[0] == answers[1]
    assert "result" in answers[0]
    _, body = served.run(exchange(ports[port], get("/openrpc.json")))
    names = {method["name"] for method in orjson.loads(body)["methods"]}
    assert (older in names, newer in names) == (True, False)


@pytest.mark.parametrize("port", [PUBLIC, ADMIN])
def test_every_answer_names_the_chain_that_is_served(served: Any, ports: tuple[int, int], port: int) -> None:
    for request in (get("/status"), get("/nothing"), post("node_nothing")):
        head, _ = served.run(exchange(ports[port], request))
        lines = {line.lower() for line in head.split(b"\r\n")}
        assert {
            b"x-aztec-l1chainid: 31337",
            b"x-aztec-rollupversion: 3658137161",
            b"x-aztec-l1rollupaddress: 0x322813fd9a801c5507c9de605d63cea4f2ce6c44",
            b"x-aztec-l2protocolcontractshash: 0x2672340d9a0107a7b81e6d10d25b854debe613f3272e8738e8df0ca2ff297141",
            b"x-aztec-l2circuitsvktreeroot: 0x1dd2644a17d1ddd8831287a78c5a1033b7ae35cdf2a3db833608856c062fc2ba",
            b"x-aztec-packageversion: 4.1.2",
        } <= lines


def test_node_methods_are_on_the_public_port_only(served: Any, ports: tuple[int, int]) -> None:
    _, body = served.run(exchange(ports[PUBLIC], post("node_getBlockNumber")))
    assert orjson.loads(body)["result"] == 106
    _, body = served.run(exchange(ports[ADMIN], post("node_getBlockNumber")))
    assert orjson.loads(body)["error"]["code"] == -32601


def test_admin_methods_are_not_on_the_public_port(served: Any, ports: tuple[int, int]) -> None:
    _, body = served.run(exchange(ports[PUBLIC], post("nodeAdmin_getConfig")))
    assert orjson.loads(body)["error"]["code"] == -32601


def test_everything_is_found_under_the_prefix_too(start_node: Any, short_chain: Any) -> None:
    node = start_node("--chain-file", short_chain, "--api-prefix", "/a/b/", "--disable-admin-api-key")
    node.wait_until_serving()
    node.wait_for_line("chain file loaded")

    def asked(port: int, request: bytes) -> tuple[bytes, bytes]:
        head, body = asyncio.run(exchange(port, request))
        return head.split(b" ")[1], body

    for port, method in ((node.port, "node_getVersion"), (node.admin_port, "nodeAdmin_getConfig")):
        at_root = asked(port, post(method))
        assert at_root[0] == b"200"
        for path in (b"/a/b", b"/a/b/", b"/a/b?x=1"):
            assert asked(port, post(method).replace(b"POST /", b"POST " + path)) == at_root
        for path in ("/a/b/status", "/status"):
            assert asked(port, get(path)) == (b"200", b"OK")
        for path in ("/a/status", "/a/bb/status", "/a/b/nothing", "/b/status"):
            assert asked(port, get(path))[0] == b"404"
        # The admin port has a page there.
        assert asked(port, get("/a/b"))[0] == (b"405" if port == node.port else b"200")
