"""Transactions that fit behind the sample chain, as many as a test needs, each with a nullifier of its own."""

from __future__ import annotations

import base64
from typing import Any

from tests.mempool.sample_tx import sample_tx

from fastnode.protocol.releases import FOUR
from fastnode.protocol.tx import Tx
from fastnode.protocol.tx_layout import USUAL

_NULLIFIER = USUAL.head_bytes + USUAL.nullifiers


def tx_of(number: int) -> dict[str, Any]:
    tx = sample_tx()
    data = bytearray(base64.b64decode(tx["data"]))
    data[_NULLIFIER + 24 : _NULLIFIER + 32] = number.to_bytes(8, "big")
    return tx | {"data": base64.b64encode(data).decode("ascii")}


def hash_of(tx: dict[str, Any]) -> str:
    return "0x" + Tx.from_json(tx, FOUR).hash.hex()
