"""What real wallets ask: a sample of recorded traffic, for the sample chain or fitted to another one.

    python bench/workload.py TRAFFIC URL      makes the sample anew: a recording, a node with the recorded chain

``data/wallet_traffic.jsonl.gz`` has one HTTP request per line, ``[[method, params], ...]``: stretches of 20 requests in
the order in which wallets sent them, batches as they were, every sixth stretch of the recording.  Left out is what
writes (transactions, function names), what simulates, and what the sample chain at its tip answers with an error.

What depends on the chain has a name instead of a value: ``{"block": 29}`` is the hash of that block,
``{"blockNumber": 29}`` its number, ``{"checkpoint": 3}`` a checkpoint's number, ``{"tx": 17}`` the hash of the 17th
transaction.  On a chain of another length they mean the block, checkpoint and transaction at the same share of the way.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.request import Request, urlopen

from fastnode.protocol.header import BlockHeader

SAMPLE: Final = Path(__file__).parent / "data" / "wallet_traffic.jsonl.gz"
#: The sample chain, which the sample was recorded on.
TIP: Final = 106
CHECKPOINTS: Final = 41
TXS: Final = 137

STRETCH: Final = 20
STRETCHES_PER_SAMPLE: Final = 6
LEFT_OUT: Final = {"node_sendTx", "node_registerContractFunctionSignatures", "node_simulatePublicCalls"}
#: Methods whose first parameter counts blocks or checkpoints.
BLOCK_FIRST: Final = {"node_getBlock", "node_getBlocks", "node_getBlockHeader"}
CHECKPOINT_FIRST: Final = {"node_getCheckpoints"}

BLOCKS_PER_CALL: Final = 50

Ask = Callable[[str, list[Any]], Any]


@dataclass(frozen=True)
class Chain:
    """What the names in the sample mean on one chain."""

    block_hashes: list[str]
    checkpoints: int
    tx_hashes: list[str]

    def value_of(self, name: str, number: int) -> Any:
        if name == "block":
            return self.block_hashes[self._scaled(number, TIP, len(self.block_hashes) - 1)]
        if name == "blockNumber":
            return self._scaled(number, TIP, len(self.block_hashes) - 1)
        if name == "checkpoint":
            return self._scaled(number, CHECKPOINTS, self.checkpoints)
        if not self.tx_hashes:
            return f"0x{number:064x}"
        return self.tx_hashes[self._scaled(number, TXS - 1, len(self.tx_hashes) - 1)]

    @staticmethod
    def _scaled(number: int, length: int, other_length: int) -> int:
        return number if length == other_length else round(number * other_length / length)


def learn_chain(ask: Ask) -> Chain:
    """The chain of a node, from what every node answers."""
    tips = ask("node_getL2Tips", [])
    tip = tips["proposed"]["number"]
    hashes = [_hash_of(ask("node_getBlockHeader", [0]))]
    txs = []
    while len(hashes) <= tip:
        for block in ask("node_getBlocks", [len(hashes), BLOCKS_PER_CALL]):
            hashes.append(_hash_of(block["header"]))
            txs += [effect["txHash"] for effect in block["body"]["txEffects"]]
    return Chain(hashes, tips["checkpointed"]["checkpoint"]["number"], txs)


def _hash_of(header: dict[str, Any]) -> str:
    return "0x" + BlockHeader.from_json(header).hash().hex()


def fitted(sample: Path, chain: Chain | None) -> Iterator[list[tuple[str, list[Any]]]]:
    """The requests of the sample; without a chain the names stay."""
    for line in gzip.decompress(sample.read_bytes()).splitlines():
        calls = json.loads(line)
        yield [(method, params if chain is None else _expanded(params, chain)) for method, params in calls]


def _expanded(value: Any, chain: Chain) -> Any:
    if isinstance(value, list):
        return [_expanded(each, chain) for each in value]
    if isinstance(value, dict) and len(value) == 1:
        [(name, number)] = value.items()
        if name in ("block", "blockNumber", "checkpoint", "tx"):
            return chain.value_of(name, number)
    return value


# ---- making the sample --------------------------------------------------------------------------


def ask_over_http(url: str) -> Ask:
    """Calls of a node; RuntimeError for an error answer."""

    def ask(method: str, params: list[Any]) -> Any:
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
        with urlopen(Request(url, body, {"Content-Type": "application/json"})) as response:
            answer = json.load(response)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']['message']}")
        return answer.get("result")

    return ask


def make_sample(traffic: Path, url: str, sample: Path) -> None:
    ask = ask_over_http(url)
    chain = learn_chain(ask)
    names = {text: {"block": number} for number, text in enumerate(chain.block_hashes)}
    names |= {text: {"tx": number} for number, text in enumerate(chain.tx_hashes)}
    recorded = (json.loads(line)["request"] for line in gzip.decompress(traffic.read_bytes()).splitlines())
    kept = []
    for number, request in enumerate(recorded):
        if number // STRETCH % STRETCHES_PER_SAMPLE:
            continue
        calls = [(call["method"], call["params"]) for call in (request if isinstance(request, list) else [request])]
        if _is_answered(calls, ask):
            kept.append([[method, _named(method, params, names)] for method, params in calls])
    text = "".join(json.dumps(each, separators=(",", ":")) + "\n" for each in kept)
    sample.parent.mkdir(exist_ok=True)
    sample.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    print(f"{len(kept)} requests, {sum(map(len, kept))} calls, {sample.stat().st_size} bytes")


def _is_answered(calls: list[tuple[str, list[Any]]], ask: Ask) -> bool:
    if any(method in LEFT_OUT for method, _ in calls):
        return False
    try:
        for method, params in calls:
            ask(method, params)
    except RuntimeError as error:
        print("left out:", error)
        return False
    return True


def _named(method: str, params: list[Any], names: dict[str, dict[str, int]]) -> list[Any]:
    first, rest = params[:1], params[1:]
    if first and isinstance(first[0], int):
        name = {**dict.fromkeys(BLOCK_FIRST, "blockNumber"), **dict.fromkeys(CHECKPOINT_FIRST, "checkpoint")}.get(
            method
        )
        first = [{name: first[0]} if name else first[0]]
    return [names.get(each, each) if isinstance(each, str) else each for each in [*first, *rest]]


if __name__ == "__main__":
    make_sample(Path(sys.argv[1]), sys.argv[2], SAMPLE)
