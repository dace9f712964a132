"""The clients against a node, and against servers that misbehave."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from tests.http_stand_in import HttpStandIn, answer
from tests.ports import free_port

from fastnode import AsyncClient, AsyncClient5, Client, Client5
from fastnode.app.ground.method_documentation import all_methods
from fastnode.client import Call, prepared, prepared5
from fastnode.development import client_code
from fastnode.errors import CallRejected, ClientError, NoAnswer
from fastnode.protocol.header import BlockHeader
from fastnode.values.namespaces import newer_name

PROJECT = Path(__file__).parents[2]


def test_the_methods_of_the_clients_are_those_of_the_table() -> None:
    for name, text in client_code.render().items():
        assert (PROJECT / "src" / "fastnode" / "client" / name).read_text() == text, "run scripts/make-docs"


@pytest.mark.parametrize(
    ("module", "method_sets", "clients"),
    [(prepared, ("both",), (Client, AsyncClient)), (prepared5, ("5.x", "6.x"), (Client5, AsyncClient5))],
)
def test_every_method_can_be_prepared_and_called_under_one_name(module: Any, method_sets: Any, clients: Any) -> None:
    functions = prepared_functions(module)
    made = {call.method for call in map(call_of, functions)}
    names = {method.name for method in all_methods() if any(map(method.signature, method_sets))}
    assert made == ({newer_name(name) or name for name in names} if "5.x" in method_sets else names)
    for kind in clients:
        assert all(hasattr(kind, function.__name__) for function in functions)


def test_the_client_of_5_x_asks_its_methods(start_node: Callable[..., Any], short_chain: Path) -> None:
    node = start_node("--chain-file", short_chain, "--metrics-port=0", "--method-set", "5.x").wait_until_serving()
    node.wait_for_line("chain file loaded")
    with Client5(node.url) as client:
        tip = client.get_chain_tips()["proposed"]["number"]
        block = client.get_block(tip, {"includeTransactions": True})
        assert block is not None
        tx_hash = next(effect["txHash"] for effect in block["body"]["txEffects"])
        receipt = client.get_tx_receipt(tx_hash, {"includeTxEffect": True})
        assert receipt["status"] != "dropped"
        assert client.get_private_logs_by_tags({"tags": ["0x" + "1" * 64]}) == [[]]
        with pytest.raises(CallRejected, match="aztec_getBlock"):
            client.get_block(-1)
    with Client(node.url) as older, pytest.raises(CallRejected, match="use getChainTips"):
        older.get_l2_tips()


def prepared_functions(module: Any) -> list[Callable[..., Call[Any]]]:
    return [item for item in vars(module).values() if getattr(item, "__module__", "") == module.__name__]


def call_of(function: Callable[..., Call[Any]]) -> Call[Any]:
    return function(*[None] * function.__code__.co_argcount)


# ---- a node ----------------------------------------------------------------------------------------------


@pytest.fixture
def url(start_node: Callable[..., Any], short_chain: Path) -> str:
    node = start_node("--chain-file", short_chain, "--metrics-port=0").wait_until_serving()
    node.wait_for_line("chain file loaded")
    address: str = node.url
    return address


def test_a_node_is_asked_from_plain_code(url: str) -> None:
    with Client(url.removeprefix("http://")) as client:
        tip = client.get_block_number()
        header = client.get_block_header(tip)
        assert header is not None
        assert int(header["globalVariables"]["blockNumber"]) == tip
        assert client.get_block(tip + 1000) is None
        record = client.call(prepared.get_block_header(1).into(BlockHeader))
        assert record is not None
        assert record.global_variables.block_number == 1
        # Bytes may be given where a field is asked for.
        assert client.get_block_by_hash(record.hash()) == client.get_block_by_hash("0x" + record.hash().hex())
        with pytest.raises(CallRejected, match=r"node_getBlock: Invalid params: .* \(code -32602\)") as refused:
            client.get_block(-1)
        assert refused.value.code == -32602


@pytest.mark.parametrize("form", ["null", "omit"])
def test_both_forms_of_an_absent_result_are_read_alike(
    start_node: Callable[..., Any], short_chain: Path, form: str
) -> None:
    node = start_node("--chain-file", short_chain, "--absent-results", form).wait_until_serving()
    node.wait_for_line("chain file loaded")
    with Client(node.url) as client:
        assert client.get_block(10**6) is None
        assert client.register_contract_function_signatures([]) is None
        assert client.call(prepared.get_block_header(10**6).into(BlockHeader)) is None
        assert client.batch([prepared.get_block(10**6)] * 3) == [None] * 3

    async def ask() -> Any:
        async with AsyncClient(node.url) as client:
            return await client.get_block(10**6), await client.batch([prepared.get_block(10**6)])

    assert asyncio.run(ask()) == (None, [None])


def test_calls_of_a_batch_come_back_in_order_and_errors_in_their_places(url: str) -> None:
    calls = [prepared.get_block_header(number % 3 + 1) for number in range(250)]  # three requests
    with Client(url) as client:
        headers = client.batch(calls)
        numbers = [header["globalVariables"]["blockNumber"] for header in headers if header is not None]
        assert numbers == [number % 3 + 1 for number in range(250)]
        answers = client.try_batch([prepared.get_block(1), prepared.get_block(-1), prepared.get_block(10**6)])
        assert isinstance(answers[1], CallRejected)
        assert (isinstance(answers[0], dict), answers[2]) == (True, None)
        with pytest.raises(CallRejected):
            client.batch([prepared.get_block(-1)])
        assert client.batch([]) == []


def test_a_node_is_asked_from_asyncio(url: str) -> None:
    async def ask() -> None:
        async with AsyncClient(url) as client:
            numbers = await asyncio.gather(*(client.get_block_number() for _ in range(5)))
            assert len(set(numbers)) == 1
            headers = await client.batch([prepared.get_block_header(1).into(BlockHeader)] * 2)
            assert headers[0] == headers[1] is not None
            with pytest.raises(CallRejected):
                await client.get_block(-1)

    asyncio.run(ask())


# ---- servers that misbehave ------------------------------------------------------------------------------


class Server(HttpStandIn):
    """Answers what it is told, in order, then the block number 7; keeps the calls and keys.  Status 0: it hangs up."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, bytes, dict[str, str]]] = []
        self.calls: list[Any] = []
        self.keys: list[str | None] = []
        super().__init__()

    def respond(self, handler: BaseHTTPRequestHandler, body: bytes) -> None:
        self.calls.append(json.loads(body))
        self.keys.append(handler.headers["x-api-key"])
        right = json.dumps({"jsonrpc": "2.0", "id": 0, "result": 7}).encode()
        status, content, headers = self.answers.pop(0) if self.answers else (200, right, {})
        if status == 0:
            handler.close_connection = True
        else:
            answer(handler, content, status, **headers)


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        yield server


#: Asks with one of the clients.
Ask = Callable[..., Any]


def ask_plainly(url: str, method: str = "get_block_number", **options: Any) -> Any:
    with Client(url, **options) as client:
        return getattr(client, method)()


def ask_in_a_loop(url: str, method: str = "get_block_number", **options: Any) -> Any:
    async def run() -> Any:
        async with AsyncClient(url, **options) as client:
            answer: Awaitable[Any] = getattr(client, method)()
            return await answer

    return asyncio.run(run())


@pytest.fixture(params=[ask_plainly, ask_in_a_loop])
def ask(request: pytest.FixtureRequest) -> Ask:
    asked: Ask = request.param
    return asked


BUSY = (503, b"", {})


def test_a_busy_node_is_asked_again_when_it_says(server: Server, ask: Ask) -> None:
    server.answers = [(429, b"", {"Retry-After": "0"}), (503, b"", {"Retry-After": "0"})]
    assert ask(server.url, api_key="key") == 7
    assert len(server.calls) == 3
    assert set(server.keys) == {"key"}
    assert server.calls[0] == {"jsonrpc": "2.0", "id": 0, "method": "node_getBlockNumber", "params": []}


def test_a_connection_that_breaks_is_opened_again(server: Server, ask: Ask) -> None:
    server.answers = [(0, b"", {})]
    assert ask(server.url) == 7
    assert len(server.calls) == 2


def test_a_node_that_stays_busy_is_given_up(server: Server, ask: Ask) -> None:
    server.answers = [BUSY] * 3
    with pytest.raises(NoAnswer, match="answered HTTP 503 without JSON"):
        ask(server.url, retries=0)
    assert len(server.calls) == 1


def test_what_changes_a_node_is_asked_once(server: Server, ask: Ask) -> None:
    server.answers = [BUSY]
    with pytest.raises(NoAnswer):
        ask(server.url, "pause_sync")
    server.answers = [(0, b"", {})]
    with pytest.raises(NoAnswer):
        ask(server.url, "pause_sync")
    assert len(server.calls) == 2


@pytest.mark.parametrize("body", [b"<html>", b"[]x", b"7", b'{"result":7}', b'{"jsonrpc":"2.0","id":5,"result":7}'])
def test_what_is_no_answer_of_a_node_is_named(server: Server, ask: Ask, body: bytes) -> None:
    server.answers = [(200, body, {})]
    with pytest.raises(NoAnswer, match=server.url):
        ask(server.url)


def test_an_error_for_the_whole_request_is_that_of_its_call(server: Server, ask: Ask) -> None:
    error = {"code": -32000, "message": "Unauthorized: invalid or missing API key"}
    server.answers = [(401, json.dumps({"jsonrpc": "2.0", "id": None, "error": error}).encode(), {})]
    with pytest.raises(CallRejected, match="node_getBlockNumber: Unauthorized"):
        ask(server.url)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_takes_calls_and_keys_to_no_other_server(server: Server, ask: Ask, status: int) -> None:
    with Server() as other:
        server.answers = [(status, b"", {"Location": other.url})]
        with pytest.raises(NoAnswer, match=f"it answered HTTP {status}"):
            ask(server.url, api_key="secret")
        assert other.calls == []


def test_a_client_for_asyncio_says_what_it_takes(monkeypatch: pytest.MonkeyPatch, server: Server) -> None:
    monkeypatch.setitem(sys.modules, "aiohttp", None)
    with pytest.raises(ClientError, match=r"pip install .*'aiohttp"):
        ask_in_a_loop(server.url)
    assert ask_plainly(server.url) == 7


def test_an_address_that_is_none_is_refused_at_once() -> None:
    for url in ("ftp://node", "http://", "file:///x"):
        for kind in (Client, AsyncClient):
            with pytest.raises(ValueError, match="is no http:// or https:// address"):
                kind(url)


def test_a_node_that_is_away_is_named(ask: Ask, unused_port: int) -> None:
    with pytest.raises(NoAnswer, match=f"no answer from http://127.0.0.1:{unused_port}"):
        ask(f"http://127.0.0.1:{unused_port}", retries=0)


@pytest.fixture
def unused_port() -> int:
    return free_port()
