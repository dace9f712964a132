"""Transactions of release 5.x: data of the vectors, with proofs of each form that are proofs of nothing."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path
from typing import Any

from fastnode.errors import DecodeError
from fastnode.protocol import compressed_proofs
from fastnode.protocol.fields import MODULUS
from fastnode.protocol.releases import FIVE
from fastnode.protocol.tx import CLASS_LOG_BYTES, Calldata, Tx
from fastnode.protocol.tx_data import TxData

VECTORS = Path(__file__).parents[2] / "data" / "release-5" / "types.jsonl.gz"


def vectors(kind: str) -> list[dict[str, Any]]:
    with gzip.open(VECTORS, "rb") as lines:
        return [record for record in map(json.loads, lines) if record["kind"] == kind]


def random_fields(rng: random.Random, count: int) -> bytes:
    return b"".join([b"\0" + rng.randbytes(31) for _ in range(count)])


def made_txs(rng: random.Random) -> list[Tx]:
    """Each transaction of the vectors, with some calldata and class logs; every form of a proof is among them."""
    proofs = [
        (random_fields(rng, FIVE.proof_fields), b""),
        (b"", b""),
        (b"", rng.randbytes(32 * rng.choice((725, 725 + 1281, 725 + 2784)))),
    ]
    txs = []
    for number, record in enumerate(vectors("tx")):
        proof, compressed = proofs[number % len(proofs)]
        logs = tuple(random_fields(rng, CLASS_LOG_BYTES // 32) for _ in range(number % 3))
        calldata = tuple(
            Calldata(random_fields(rng, rng.randrange(5)), random_fields(rng, 1)) for _ in range(number % 4)
        )
        data = TxData.from_buffer(bytes.fromhex(record["data"][2:]))
        txs.append(Tx(data, proof, logs, calldata, compressed_proof=compressed))
    return txs


def made_compressed_proof(rng: random.Random, inputs: int = 0) -> bytes:
    """Values of the right kinds in their order, ``inputs`` public inputs in front; they prove nothing."""
    values = [rng.randrange(MODULUS) for _ in range(inputs)]
    for count, kind in FIVE.compressed_proof:
        values += [_value_of(rng, kind) for _ in range(count)]
    return b"".join([value.to_bytes(32, "big") for value in values])


def _value_of(rng: random.Random, kind: str) -> int:
    """One that is valid: of points one in two is on the curve."""
    while True:
        value = rng.getrandbits(256)
        if rng.random() < 0.03:
            value = 0
        value &= (1 << 255) | ((1 << 254) - 1)
        if kind in "st":
            value &= (1 << 254) - 1
        try:
            compressed_proofs._READERS[kind](value)
        except DecodeError:
            continue
        return value
