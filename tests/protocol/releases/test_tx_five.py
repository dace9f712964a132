"""Transactions of release 5.x: hash, forms of the proof, JSON and binary, damages."""

from __future__ import annotations

import base64
import random
from typing import Any

import orjson
import pytest
from tests.mempool.recorded import hashes, recorded_tx
from tests.protocol.releases.txs_5 import made_txs, random_fields, vectors

from fastnode.errors import DecodeError
from fastnode.protocol.fields import MODULUS_BYTES, hex_text
from fastnode.protocol.releases import FIVE, FOUR
from fastnode.protocol.tx import Tx
from fastnode.protocol.tx_data import TxData

#: Mutations of the seeded generator; each decodes some 100 KB.
MUTATIONS = 150


def count(number: int) -> bytes:
    return number.to_bytes(4, "big")


def with_proof(content: bytes) -> dict[str, Any]:
    return {**made_txs(random.Random(1))[0].to_json(), "chonkProof": base64.b64encode(content).decode()}


def test_the_hash_of_each_vector_is_computed() -> None:
    for record in vectors("tx"):
        data = TxData.from_buffer(bytes.fromhex(record["data"][2:]))
        assert (hex_text(data.tx_hash), data.is_public) == (record["hash"], record["forPublic"])


def test_every_form_of_a_proof_is_read_and_written_alike_in_json_and_in_binary() -> None:
    for tx in made_txs(random.Random(2)):
        buffer = tx.to_buffer()
        assert len(buffer) == tx.size
        from_binary = Tx.from_buffer(buffer, FIVE)
        assert from_binary.to_buffer() == buffer
        from_json = Tx.from_json(orjson.loads(tx.to_json_bytes()), FIVE)
        assert from_json == tx
        assert from_json.to_json() == orjson.loads(tx.to_json_bytes()) == tx.to_json()
        assert Tx.from_json({"data": base64.b64encode(buffer).decode()}, FIVE).to_buffer() == buffer


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "chonkProof: 0 bytes"),
        (count(0) + b"\0", "chonkProof: 5 bytes, expected 4"),
        (count(1270) + bytes(1270 * 32 - 1), "chonkProof: 40643 bytes, expected 40644"),
        (count(1270) + bytes(64) + MODULUS_BYTES + bytes(1267 * 32), "field 2 is not below the field modulus"),
        (count(1935) + bytes(1935 * 32), "neither a proof of 1270 fields nor a compressed one"),
        (count(1271 * 32) + bytes(40_644), "chonkProof: 40648 bytes, expected 40676"),
        (count(724 * 32) + bytes(724 * 32), "23200 to 112288 bytes, a multiple of 32, here are 23168"),
        (count(23_201) + bytes(23_201), "a multiple of 32, here are 23201"),
        (count(2**32 - 32), "here are 4294967264"),
    ],
)
def test_a_proof_of_no_form_is_refused_by_name(content: bytes, said: str) -> None:
    with pytest.raises(DecodeError, match=said):
        Tx.from_json(with_proof(content), FIVE)


def test_a_transaction_of_another_release_is_refused_by_its_proof() -> None:
    for tx_hash in hashes("client")[:4]:
        older = recorded_tx(tx_hash)
        for decode, value in ((Tx.from_json, older.to_json()), (Tx.from_buffer, older.to_buffer())):
            with pytest.raises(DecodeError, match="chonkProof: neither a proof of 1270 fields"):
                decode(value, FIVE)
    for newer in made_txs(random.Random(3)):
        with pytest.raises(DecodeError, match="chonkProof"):
            Tx.from_json(newer.to_json(), FOUR)
        with pytest.raises(DecodeError, match=r"chonkProof: \d+ fields, expected 1935"):
            Tx.from_buffer(newer.to_buffer(), FOUR)


def test_a_mutated_transaction_is_one_or_has_a_reason() -> None:
    rng = random.Random(4)
    txs, refused = made_txs(rng), 0
    for _ in range(MUTATIONS):
        buffer = bytearray(rng.choice(txs).to_buffer())
        for _ in range(rng.randrange(1, 4)):
            length = rng.choice((1, 4, 32))
            start = rng.randrange(len(buffer))
            buffer[start : start + length] = rng.choice((rng.randbytes(length), bytes(length), b"\xff" * length, b""))
        if rng.random() < 0.2:
            del buffer[rng.randrange(len(buffer)) :]
        mutated = bytes(buffer)
        try:
            tx = Tx.from_buffer(mutated, FIVE)
        except DecodeError:
            refused += 1
            continue
        # The flags of a public transaction are written as 0 and 1, the hash is computed.
        assert tx.to_buffer()[82_800:] == mutated[82_800:]
        assert Tx.from_json(tx.to_json(), FIVE).to_buffer() == tx.to_buffer()
    assert 0 < refused < MUTATIONS


def test_a_proof_counts_for_the_size_in_each_form() -> None:
    data = made_txs(random.Random(5))[0].data
    sizes = [
        Tx(data, random_fields(random.Random(6), 1270), (), ()).size,
        Tx(data, b"", (), (), compressed_proof=bytes(23_200)).size,
        Tx(data, b"", (), ()).size,
    ]
    assert [size - sizes[-1] for size in sizes] == [1270 * 32, 23_200, 0]
