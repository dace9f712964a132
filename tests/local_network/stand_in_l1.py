"""As much of an anvil as a local network talks to: blocks, time, storage, the Inbox's messages, snapshots.

It runs no contract; the two functions of the Inbox that are called do here what they do there.
"""

from __future__ import annotations

import copy
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from fastnode.protocol.ethereum import keccak_256
from fastnode.protocol.messages import L1ToL2Message, first_message_index
from fastnode.sources.l1 import contracts
from fastnode.sources.l1.abi import Function
from fastnode.sources.l1.inbox import roll

CHAIN_ID = 31337
LAG = 1
_CATCH_UP = Function("catchUp(uint256)").selector
_SEND = Function("sendL2Message((bytes32,uint256),bytes32,bytes32)").selector
_LAG = Function("LAG()").selector


@dataclass
class _State:
    """What a snapshot remembers."""

    blocks: list[int] = field(default_factory=list)  # timestamps
    code: dict[str, str] = field(default_factory=dict)
    storage: dict[tuple[str, int], int] = field(default_factory=dict)
    logs: list[dict[str, Any]] = field(default_factory=list)
    rolling_hash: bytes = bytes(16)
    in_progress: int = 1 + LAG
    receipts: dict[str, dict[str, Any]] = field(default_factory=dict)


class StandInL1:
    """``state`` may be looked at and changed by tests."""

    def __init__(self) -> None:
        self.state = _State()
        self.is_automining = True
        self.is_silent = False
        self._next_timestamp: int | None = None
        self._waiting: list[tuple[str, dict[str, Any]]] = []
        self._snapshots: list[_State] = []
        self._nonce = 0
        self._mine()

    # ---- as JSON-RPC -------------------------------------------------------------------------

    def answer(self, method: str, params: list[Any]) -> Any:
        return getattr(self, method)(*params)

    def web3_clientVersion(self) -> str:  # noqa: N802
        return "anvil/stand-in"

    def eth_chainId(self) -> str:  # noqa: N802
        return hex(CHAIN_ID)

    def eth_blockNumber(self) -> str:  # noqa: N802
        return hex(len(self.state.blocks) - 1)

    def eth_getBlockByNumber(self, tag: str, _full: bool) -> dict[str, Any] | None:  # noqa: N802
        number = len(self.state.blocks) - 1 if tag == "latest" else int(tag, 16)
        if number >= len(self.state.blocks):
            return None
        return {
            "number": hex(number),
            "timestamp": hex(self.state.blocks[number]),
            "hash": self._hash(number),
            "parentHash": self._hash(number - 1),
        }

    def eth_getCode(self, address: str, _tag: str) -> str:  # noqa: N802
        return self.state.code.get(address, "0x")

    def eth_getStorageAt(self, address: str, slot: str, _tag: str) -> str:  # noqa: N802
        return f"0x{self.state.storage.get((address, int(slot, 16)), 0):064x}"

    def eth_call(self, call: dict[str, Any], _tag: str) -> str:
        selector = bytes.fromhex(call["data"][2:10])
        if selector == _LAG:
            return f"0x{LAG:064x}"
        assert selector == contracts.INBOX_STATE.selector
        state = self.state
        return f"0x{state.rolling_hash.hex()}{'0' * 32}{len(state.logs):064x}{state.in_progress:064x}"

    def eth_getLogs(self, query: dict[str, Any]) -> list[dict[str, Any]]:  # noqa: N802
        first, last = int(query["fromBlock"], 16), int(query["toBlock"], 16)
        return [log for log in self.state.logs if first <= int(log["blockNumber"], 16) <= last]

    def eth_sendTransaction(self, call: dict[str, Any]) -> str:  # noqa: N802
        self._nonce += 1
        tx_hash = f"0x{self._nonce:064x}"
        self._waiting.append((tx_hash, call))
        if self.is_automining:
            self._mine()
        return tx_hash

    def eth_getTransactionReceipt(self, tx_hash: str) -> dict[str, Any] | None:  # noqa: N802
        return self.state.receipts.get(tx_hash)

    def anvil_getAutomine(self) -> bool:  # noqa: N802
        return self.is_automining

    def evm_setAutomine(self, wanted: bool) -> None:  # noqa: N802
        self.is_automining = wanted

    def evm_mine(self) -> str:
        self._mine()
        return "0x0"

    def evm_setNextBlockTimestamp(self, timestamp: int) -> None:  # noqa: N802
        if timestamp <= self.state.blocks[-1]:
            raise ValueError(f"Timestamp error: {timestamp} is lower than or equal to previous block's timestamp")
        self._next_timestamp = timestamp

    def evm_snapshot(self) -> str:
        self._snapshots.append(copy.deepcopy(self.state))
        return hex(len(self._snapshots) - 1)

    def evm_revert(self, snapshot: str) -> bool:
        number = int(snapshot, 16)
        if number >= len(self._snapshots):
            return False
        self.state = self._snapshots[number]
        del self._snapshots[number:]
        return True

    def anvil_setCode(self, address: str, code: str) -> None:  # noqa: N802
        self.state.code[address] = code

    def anvil_setStorageAt(self, address: str, slot: str, value: str) -> bool:  # noqa: N802
        self.state.storage[address, int(slot, 16)] = int(value, 16)
        return True

    def anvil_setBalance(self, _address: str, _amount: str) -> None:  # noqa: N802
        return None

    def anvil_impersonateAccount(self, _address: str) -> None:  # noqa: N802
        return None

    # ---- what it does --------------------------------------------------------------------------

    def _hash(self, number: int) -> str:
        return "0x" + keccak_256(repr(self.state.blocks[: number + 1]).encode()).hex()

    def _mine(self) -> None:
        latest = self.state.blocks[-1] if self.state.blocks else 0
        wanted = self._next_timestamp or int(time.time())
        self._next_timestamp = None
        self.state.blocks.append(max(latest + 1, wanted))
        waiting, self._waiting = self._waiting, []
        for tx_hash, call in waiting:
            self.state.receipts[tx_hash] = {"logs": self._execute(call)}

    def _execute(self, call: dict[str, Any]) -> list[dict[str, Any]]:
        data = bytes.fromhex(call["data"][2:])
        words = [data[at : at + 32] for at in range(4, len(data), 32)]
        if data[:4] == _CATCH_UP:
            self.state.in_progress = int.from_bytes(words[0], "big") + LAG + 1
            return []
        assert data[:4] == _SEND
        return [self._send(call["to"], call["from"], *words)]

    def _send(
        self, inbox: str, sender: str, recipient: bytes, version: bytes, content: bytes, secret_hash: bytes
    ) -> dict[str, Any]:
        state = self.state
        index = first_message_index(state.in_progress)
        index += sum(int(log["topics"][1], 16) == state.in_progress for log in state.logs)
        account = bytes.fromhex(sender[2:])
        number = int.from_bytes(version, "big")
        message_hash = L1ToL2Message(account, CHAIN_ID, recipient, number, content, secret_hash, index).hash()
        state.rolling_hash = roll(state.rolling_hash, message_hash)
        block = len(state.blocks) - 1
        log = {
            "topics": [contracts.MESSAGE_SENT.topic, f"0x{state.in_progress:064x}", "0x" + message_hash.hex()],
            "data": f"0x{index:064x}{state.rolling_hash.hex()}{'0' * 32}",
            "blockNumber": hex(block),
            "blockHash": self._hash(block),
            "address": inbox,
            "logIndex": hex(len(state.logs)),
        }
        state.logs.append(log)
        return log


@contextmanager
def serving(l1: StandInL1) -> Iterator[str]:
    """Its URL."""
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1

        def do_POST(self) -> None:
            document = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            calls = document if isinstance(document, list) else [document]
            with lock:
                answers = [self._answer(call) for call in calls]
            body = json.dumps(answers if isinstance(document, list) else answers[0]).encode()
            self.send_response(503 if l1.is_silent else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def _answer(self, call: dict[str, Any]) -> dict[str, Any]:
            head = {"jsonrpc": "2.0", "id": call["id"]}
            try:
                return {**head, "result": l1.answer(call["method"], call["params"])}
            except ValueError as error:
                return {**head, "error": {"code": -32602, "message": str(error)}}

        def log_message(self, *_: object) -> None:
            return None

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
