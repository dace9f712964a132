"""Another node on a real socket that does what a test wants: serve a made chain, lie, stall, break off.

One of a chain of 5.x answers by the methods of 5.x and by no others, under the prefix ``aztec_``; what a test tampers
with and counts are the methods of 4.x behind them.
"""

from __future__ import annotations

import copy
import http.server
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from tests.ports import free_port
from tests.sources.made_chain import MadeChain

Json = dict[str, Any]
#: ``tamper(method, parameters, result)``: the result to answer instead.
Tamper = Callable[[str, list[Any], Any], Any]
#: ``disturb(handler, body)``: True if it has dealt with the request.
Disturb = Callable[["_Handler", bytes], bool]

METHOD_NOT_FOUND = -32601


def _block_data(header: Any) -> Any:
    return None if header is None else {"header": header}


def _block_response(block: Json) -> Json:
    return block | {"number": int(block["header"]["globalVariables"]["blockNumber"]), "hash": "0x" + "11" * 32}


def _checkpoint_response(published: Json) -> Json:
    checkpoint, l1 = published["checkpoint"], {"published": True} | published["l1"]
    blocks = list(map(_block_response, checkpoint["blocks"]))
    return checkpoint | {"blocks": blocks, "l1": l1, "attestations": published["attestations"]}


_WHOLE = dict.fromkeys(("includeBlocks", "includeTransactions", "includeL1PublishInfo", "includeAttestations"), True)
#: Methods of 5.x: the one of 4.x that has the answer, options that must be asked for, and the form of the answer.
IN_FIVE: dict[str, tuple[str, Json | None, Callable[[Any], Any]]] = {
    "aztec_getNodeInfo": ("node_getNodeInfo", None, lambda answer: answer),
    "aztec_getCurrentMinFees": ("node_getCurrentMinFees", None, lambda answer: answer),
    "aztec_getChainTips": ("node_getL2Tips", None, lambda answer: answer),
    "aztec_getBlockData": ("node_getBlockHeader", None, _block_data),
    "aztec_getBlocks": (
        "node_getBlocks",
        {"includeTransactions": True},
        lambda items: list(map(_block_response, items)),
    ),
    "aztec_getCheckpoints": ("node_getCheckpoints", _WHOLE, lambda items: list(map(_checkpoint_response, items))),
    "aztec_sendTx": ("node_sendTx", None, lambda answer: answer),
    "aztec_getTxReceipt": ("node_getTxReceipt", None, lambda answer: answer),
}


class ScriptedServer:
    """JSON-RPC on a real socket; what it answers is for the subclass to say."""

    def __init__(self) -> None:
        self.tamper: Tamper = lambda _method, _parameters, result: result
        self.disturb: Disturb = lambda _handler, _body: False
        self.requests: list[str] = []
        self.lock = threading.RLock()  # held while an answer is made, and by tests while they change something
        self._server: _Server | None = None
        self.port = free_port()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """On the port it had before, if it had one."""
        self._server = _Server(("127.0.0.1", self.port), _Handler)
        self._server.upstream = self
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def stop(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._thread.join()
            self._server.close_connections()
            self._server.server_close()
            self._server = None

    def answer(self, body: bytes) -> bytes:
        raise NotImplementedError


class ScriptedUpstream(ScriptedServer):
    """Serves ``chain`` as it is at the moment of each request.  ``is_fastnode`` False: without the own namespace."""

    def __init__(self, chain: MadeChain, *, is_fastnode: bool = True) -> None:
        super().__init__()
        self.chain = chain
        self.is_fastnode = is_fastnode
        self.node_info: Json = copy.deepcopy(chain.chain_record["nodeInfo"])
        #: What answers a method; tests replace some.
        self.answers: dict[str, Callable[[list[Any]], Any]] = {
            "node_getNodeInfo": self.info,
            "fastnode_getSyncStatus": self.sync_status,
            "fastnode_getGenesis": self.genesis,
            "fastnode_getL1ToL2Messages": self.l1_to_l2_messages,
            "node_getL2Tips": self.l2_tips,
            "node_getBlockHeader": self.block_header,
            "node_getCheckpoints": self.checkpoints,
            "node_getCheckpointsData": self.checkpoints_data,
            "node_getBlocks": self.blocks,
            "node_getCurrentMinFees": self.current_min_fees,
        }

    # ---- answers -----------------------------------------------------------------------------

    def answer(self, body: bytes) -> bytes:
        request = json.loads(body)
        with self.lock:
            if isinstance(request, list):
                return json.dumps([self._answer_one(call) for call in request]).encode()
            return json.dumps(self._answer_one(request)).encode()

    def _answer_one(self, call: Json) -> Json:
        method, parameters = call["method"], call["params"]
        shown: Callable[[Any], Any] = lambda answer: answer  # noqa: E731 - short
        reply: Json = {"jsonrpc": "2.0", "id": call["id"]}
        if self.chain.release.method_set == "5.x" and not method.startswith("fastnode_"):
            method, options, shown = IN_FIVE.get(method, ("", None, shown))
            if options is not None:
                *parameters, asked = parameters
                assert asked == options
        self.requests.append(method)
        handler = self.answers.get(method)
        if handler is None or (method.startswith("fastnode_") and not self.is_fastnode):
            return reply | {"error": {"code": METHOD_NOT_FOUND, "message": f"Method not found: {method}"}}
        try:
            result = self.tamper(method, parameters, handler(parameters))
        except RejectionError as rejection:
            return reply | {"error": rejection.error}
        if result is None:
            return reply
        with suppress(TypeError, ValueError, LookupError):  # a test has made it something else
            result = shown(result)
        return reply | {"result": result}

    def info(self, _: list[Any]) -> Any:
        return self.node_info

    def sync_status(self, _: list[Any]) -> Any:
        return {"state": "serving"}

    def genesis(self, _: list[Any]) -> Any:
        return {"chain": self.chain.chain_record, "genesis": self.chain.genesis}

    def l1_to_l2_messages(self, parameters: list[Any]) -> Any:
        number = parameters[0]
        return self.chain.units[number - 1].messages if number <= len(self.chain.units) else None

    def l2_tips(self, _: list[Any]) -> Any:
        return self.chain.tips().to_json()

    def block_header(self, parameters: list[Any]) -> Any:
        number = parameters[0]
        if number == 0:
            return self.chain.genesis["header"]
        blocks = self.chain.blocks
        return blocks[number - 1].header.to_json() if number <= len(blocks) else None

    def checkpoints(self, parameters: list[Any]) -> Any:
        first, limit = parameters
        return [copy.deepcopy(unit.published) for unit in self.chain.units[first - 1 :][:limit] if unit.published]

    def checkpoints_data(self, parameters: list[Any]) -> Any:
        """CheckpointData, as far as followers read it."""
        published = self.checkpoints([parameters[0]["from"], parameters[0]["limit"]])
        inner = [(item, item["checkpoint"]) for item in published]
        return [
            {"checkpointNumber": made["number"], "header": made["header"], "archive": made["archive"]}
            | {"l1": item["l1"], "attestations": item["attestations"]}
            for item, made in inner
        ]

    def blocks(self, parameters: list[Any]) -> Any:
        first, limit = parameters
        return [block.to_json() for block in self.chain.blocks[first - 1 :][:limit]]

    def current_min_fees(self, _: list[Any]) -> Any:
        return {"feePerDaGas": "0", "feePerL2Gas": "12345"}


class RejectionError(Exception):
    """A JSON-RPC error to be answered."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.error: Json = {"code": code, "message": message} | ({} if data is None else {"data": data})


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True
    upstream: ScriptedServer

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._open: set[Any] = set()

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def close_connections(self) -> None:
        for request in tuple(self._open):
            self.shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that leave in the middle are nothing to talk about."""


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # a body behind its head would wait 40 ms for the client
    server: _Server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        upstream = self.server.upstream
        if not upstream.disturb(self, body):
            self.reply(upstream.answer(body))

    def reply(self, body: bytes, status: int = 200, **headers: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Nothing on standard error."""


@contextmanager
def scripted_upstream(chain: MadeChain, **options: Any) -> Iterator[ScriptedUpstream]:
    upstream = ScriptedUpstream(chain, **options)
    upstream.start()
    try:
        yield upstream
    finally:
        upstream.stop()
