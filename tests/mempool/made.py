"""As many different valid transactions as a test wants, made from a recorded one."""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterator
from typing import Any

from tests.mempool.chain import MIN_L2_FEE
from tests.mempool.recorded import hashes, recordings

from fastnode.protocol.fields import FIELD_BYTES
from fastnode.protocol.tx_data import TxData
from fastnode.protocol.tx_layout import USUAL

#: Long after everybody who reads this.
EXPIRATION = 1 << 40


def private_base() -> str:
    """Hash of a recorded transaction without public calls that was never sent."""
    return next(tx_hash for tx_hash in hashes("fresh") if not recordings()[tx_hash]["tx"]["publicFunctionCalldata"])


def made_txs(count: int, base: str | None = None, *, priority_fee: int = 0) -> Iterator[dict[str, Any]]:
    """JSON forms that differ in their nullifiers; they ask for as little gas as they may, so that one payer can pay."""
    recorded = recordings()[base or private_base()]["tx"]
    data = bytearray(base64.b64decode(recorded["data"]))
    is_public = data[USUAL.for_public] == 1
    struct.pack_into(">II", data, USUAL.gas_limits, 96, 540_000 if is_public else 440_000)
    struct.pack_into(">16s16s", data, USUAL.max_fees, bytes(16), MIN_L2_FEE.to_bytes(16, "big"))
    struct.pack_into(">16s16s", data, USUAL.max_priority_fees, bytes(16), priority_fee.to_bytes(16, "big"))
    struct.pack_into(">Q", data, USUAL.expiration, EXPIRATION)
    nullifiers = _used_nullifiers(data)
    for number in range(count):
        for offset in nullifiers:
            struct.pack_into(">16sQQ", data, offset, b"\1" * 16, offset, number)
        yield recorded | {"data": base64.b64encode(data).decode("ascii")}


def _used_nullifiers(data: bytearray) -> list[int]:
    """Offsets of the nullifiers that are not zero."""
    bases = (USUAL.non_revertible, USUAL.revertible) if data[USUAL.for_public] == 1 else (USUAL.accumulated,)
    offsets = [at for base in bases for at in range(base + USUAL.nullifiers, base + USUAL.messages, FIELD_BYTES)]
    return [at for at in offsets if any(data[at : at + FIELD_BYTES])]


def hash_of(tx: dict[str, Any]) -> str:
    return "0x" + TxData.from_buffer(base64.b64decode(tx["data"])).tx_hash.hex()
