"""Bodies of blocks that few proposers make: contract classes, many transactions, as much as blobs hold."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from tests.log_index.test_contracts import make_class

from fastnode.development.synthetic_content import ChainShape, ContentGenerator
from fastnode.protocol.blobs import tx_blob_fields
from fastnode.protocol.constants import BLOBS_PER_CHECKPOINT_MAX, CONTRACT_CLASS_PUBLISHED_MAGIC, FIELDS_PER_BLOB
from fastnode.protocol.contracts import public_bytecode_chunks
from fastnode.protocol.effects import ContractClassLog, TxEffect
from fastnode.protocol.fields import FIELD_BYTES, ZERO_FIELD, field_from_int
from fastnode.protocol.releases import Release

__all__ = ["with_content"]

MANY: Final = 120
#: Fields that the first of two blocks leaves to the second, with markers and what stands at the end of each.
LEFT: Final = 200
#: Fields of a block that is filled: of half of what a checkpoint has room for, as it may have two blocks; of two blobs.
ROOM: Final = {
    "largest": BLOBS_PER_CHECKPOINT_MAX * FIELDS_PER_BLOB // 2 - LEFT,
    "two blobs": 3 * FIELDS_PER_BLOB // 2,
}


def with_content(
    effects: Sequence[TxEffect], kind: str | None, release: Release, rng: random.Random
) -> tuple[TxEffect, ...]:
    """The transactions of a block, with what ``kind`` says."""
    if kind is None or not effects:
        return tuple(effects)
    if kind == "classes":
        return tuple(replace(effect, contract_class_logs=(_class_log(release, rng),)) for effect in effects)
    small = ContentGenerator(
        ChainShape(blocks=1, txs=MANY, nullifiers=1, writes=0, private_logs=0, public_logs=0, l2_to_l1=0)
        if kind == "many"
        else ChainShape(blocks=1, txs=1, nullifiers=64, writes=64, private_logs=20, public_logs=8, l2_to_l1=8)
    )
    small._source = rng
    if kind == "many":
        return small.body().tx_effects
    return _filling(small, ROOM[kind])


def _filling(content: ContentGenerator, left: int) -> tuple[TxEffect, ...]:
    """Transactions for so many fields."""
    found: list[TxEffect] = []
    while True:
        effect = content.body().tx_effects[0]
        left -= len(tx_blob_fields(effect)) // FIELD_BYTES
        if left < 0:
            return tuple(found)
        found.append(effect)


def _class_log(release: Release, rng: random.Random) -> ContractClassLog:
    """One that ends in zeros, which are emitted too: of a class as it is published, or anything else."""
    if rng.random() < 0.5:
        made = make_class(rng.randbytes(rng.randrange(1, 900)) + bytes(rng.choice([0, 1, 31, 62, 400])))
        head = (CONTRACT_CLASS_PUBLISHED_MAGIC, made.id, 1, made.artifact_hash, made.private_functions_root)
        parts = [field_from_int(item) if isinstance(item, int) else item for item in head]
        parts += [field_from_int(len(made.packed_bytecode)), public_bytecode_chunks(made.packed_bytecode)]
        published = b"".join(parts)
        return ContractClassLog(release.addresses.class_registry, published, len(published) // FIELD_BYTES)
    fields = [rng.randbytes(31).rjust(FIELD_BYTES, b"\0") for _ in range(rng.randrange(1, 60))]
    fields += [ZERO_FIELD] * rng.choice([0, 1, 2, 31, 500])
    address = release.addresses.class_registry if rng.random() < 0.5 else fields[0]
    return ContractClassLog(address, b"".join(fields), len(fields))
