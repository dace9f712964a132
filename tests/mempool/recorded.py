"""Recorded transactions, and the answers the reference node gave about them.

``txs_recorded``   140 transactions as wallets sent them and 37 that were never sent; three with their proof.  The
                   others get a made-up proof, as proofs do not compress and no rule here looks into them
``txs_answers``    questions about transactions and their answers; ``at``: ``mined`` = asked at block 106 after all
                   140 were sent, ``fresh`` = about the 37
``txs_pending``    one node while eight transactions were pending at block 64
``txs_dropped``    transactions that were refused or never mined

A parameter ``{"$tx": hash, ...}`` stands for a recorded transaction, changed: ``$xor`` flips bits of ``data`` at
(offset, mask), ``$cut`` shortens ``data``, ``$drop`` removes keys, ``$proof_prefix`` replaces the start of the proof,
other keys replace values.
"""

from __future__ import annotations

import base64
import functools
import gzip
import hashlib
from pathlib import Path
from typing import Any

import orjson

from fastnode.protocol.releases import FOUR
from fastnode.protocol.tx import Tx

DATA = Path(__file__).parent.parent / "data"


def rows(name: str) -> list[dict[str, Any]]:
    """The records of ``tests/data/<name>.jsonl.gz``."""
    return [orjson.loads(line) for line in gzip.decompress((DATA / f"{name}.jsonl.gz").read_bytes()).splitlines()]


@functools.cache
def recordings() -> dict[str, dict[str, Any]]:
    """Recorded transactions by hash: origin, label, and the JSON form under ``tx``."""
    found = {}
    for row in rows("txs_recorded"):
        tx = {
            "txHash": row["txHash"],
            "data": row["data"],
            "chonkProof": row.get("chonkProof") or made_up_proof(row["txHash"]),
            "contractClassLogFields": row["contractClassLogFields"],
            "publicFunctionCalldata": row["publicFunctionCalldata"],
        }
        found[row["txHash"]] = {"origin": row["origin"], "label": row["label"], "tx": tx}
    return found


def made_up_proof(seed: str) -> str:
    """Base64 of 1,935 counted fields that depend on the seed."""
    stream = hashlib.shake_128(seed.encode()).digest(31 * FOUR.proof_fields)
    fields = b"".join([b"\0" + stream[start : start + 31] for start in range(0, len(stream), 31)])
    return base64.b64encode(FOUR.proof_fields.to_bytes(4, "big") + fields).decode("ascii")


@functools.cache
def recorded_tx(tx_hash: str) -> Tx:
    return Tx.from_json(recordings()[tx_hash]["tx"], FOUR)


def hashes(origin: str) -> list[str]:
    """Hashes of the recorded transactions of an origin, ``sent`` or ``fresh``, in order."""
    return [tx_hash for tx_hash, row in recordings().items() if row["origin"] == origin]


def expand(value: Any) -> Any:
    """``value`` with every ``{"$tx": ..}`` replaced by the transaction that it stands for."""
    if isinstance(value, list):
        return [expand(item) for item in value]
    if isinstance(value, dict) and "$tx" in value:
        return _changed(value)
    return value


def _changed(change: dict[str, Any]) -> dict[str, Any]:
    tx = dict(recordings()[change["$tx"]]["tx"])
    data = bytearray(base64.b64decode(tx["data"]))
    for offset, mask in change.get("$xor", ()):
        data[offset] ^= mask
    tx["data"] = base64.b64encode(data[: change.get("$cut")]).decode("ascii")
    for key in change.get("$drop", ()):
        del tx[key]
    if "$proof_prefix" in change:
        prefix = base64.b64decode(change["$proof_prefix"])
        proof = base64.b64decode(tx["chonkProof"])
        tx["chonkProof"] = base64.b64encode(prefix + proof[len(prefix) :]).decode("ascii")
    return tx | {key: item for key, item in change.items() if not key.startswith("$")}
