"""Random signed messages of peers, and packed attestations of checkpoints, for compare_transactions.py.  A seed gives
the same ones as long as this file is not changed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Final

from coincurve import PrivateKey
from tests.comparison.record_cases import change_bytes, checkpoints, encoded
from tests.comparison.transaction_cases import any_word
from tests.comparison.transaction_outcomes import Json, text
from tests.p2p.bent_messages import (
    BLOCK,
    CHECKPOINT,
    FLAGS,
    FORMS,
    KEY,
    ORDER,
    OTHER,
    RAW_BLOCK,
    RAW_CHECKPOINT,
    TX,
    Case,
    attestation,
    block,
    checkpoint,
    enveloped,
    last_block,
    question_of,
    sign,
    signed_txs,
    u32,
)

from fastnode.p2p.gossip.topics import Topic
from fastnode.protocol.checkpoint import Checkpoint
from fastnode.protocol.ethereum import keccak_256, payload_digest, signed_digest

Source = random.Random


def _form(source: Source) -> str:
    return source.choice(("", "", "", "", source.choice(FORMS)))


def _key(source: Source) -> PrivateKey:
    return source.choice((KEY, KEY, KEY, KEY, KEY, OTHER))


def _raw(source: Source, raw: bytes) -> bytes:
    """A header with the length that it must have."""
    return raw if source.random() < 0.6 else change_bytes(source, raw)[: len(raw)].ljust(len(raw), b"\0")


def _root(source: Source, root: bytes) -> bytes:
    return root if source.random() < 0.85 else any_word(source)


def _hashes(source: Source) -> tuple[bytes, ...]:
    return source.choice(
        ((TX[:32],), (TX[:32],), (), (TX[:32], TX[:32]), (any_word(source), TX[:32]), (any_word(source),))
    )


def _txs(source: Source) -> bytes:
    txs = source.choice(
        ([TX], [TX], [], [TX, TX], [TX + b"\0"], [any_word(source) + TX[32:]], [change_bytes(source, TX)])
    )
    return source.choice(
        (bytes(4), bytes(4), b"", u32(source.choice(FLAGS)), signed_txs(txs, _form(source), _key(source)))
    )


def _block(source: Source) -> bytes:
    return block(
        raw=_raw(source, RAW_BLOCK),
        index=source.choice((0, 0, 0, 1, 71, 72, 1 << 31)),
        in_hash=_root(source, BLOCK.in_hash),
        archive=_root(source, BLOCK.archive_root),
        hashes=_hashes(source),
        tail=_txs(source),
        form=_form(source),
        key=_key(source),
    )


def _checkpoint(source: Source) -> bytes:
    last = last_block(_hashes(source), _txs(source), _key(source), source.choice((1, 1, 1, *FLAGS)))
    return checkpoint(
        raw=_raw(source, RAW_CHECKPOINT),
        archive=_root(source, CHECKPOINT.archive_root),
        modifier=source.choice((0, 0, 0, 1, -1, (1 << 255) - 1, -(1 << 255))),
        tail=source.choice((bytes(4), bytes(4), b"", last, last)),
        form=_form(source),
        key=_key(source),
    )


def _attestation(source: Source) -> bytes:
    return attestation(
        raw=_raw(source, RAW_CHECKPOINT),
        archive=_root(source, CHECKPOINT.archive_root),
        modifier=source.choice((0, 0, 0, 1, -1)),
        form=_form(source),
        key=_key(source),
    )


KINDS: Final[tuple[tuple[Topic, int, Callable[[Source], bytes]], ...]] = (
    (Topic.BLOCK_PROPOSAL, BLOCK.slot, _block),
    (Topic.CHECKPOINT_PROPOSAL, CHECKPOINT.slot, _checkpoint),
    (Topic.CHECKPOINT_ATTESTATION, CHECKPOINT.slot, _attestation),
)


def message_cases(seed: int) -> Iterator[Json]:
    source = random.Random(f"messages {seed}")
    while True:
        topic, slot, made = source.choice(KINDS)
        payload = made(source)
        if source.random() < 0.2:
            payload = change_bytes(source, payload)
        data = enveloped(payload) + source.choice((b"",) * 9 + (b"\0",))
        yield question_of(Case("", topic, data, slot + source.choice((0,) * 12 + (-1, 1, 2))))


# ---- attestations on L1 ------------------------------------------------------------------------------

MEMBERS = [PrivateKey((100 + index).to_bytes(32, "big")) for index in range(48)]
ADDRESSES = [keccak_256(key.public_key.format(compressed=False)[1:])[-20:] for key in MEMBERS]
SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 48)


def _packed(source: Source, item: Checkpoint, modifier: int, members: list[int]) -> tuple[bytearray, list[bytes]]:
    """The bitmap, and for each member a signature (v 1 | r 32 | s 32) or an address; about a quorum has signed."""
    size = len(members)
    wanted = size * 2 // 3 + 1 + source.choice((-1, 0, 0, 0, 0, 1, 2))
    signers = set(source.sample(range(size), max(0, min(size, wanted))))
    digest = signed_digest(payload_digest(item.header, item.archive.root, modifier))
    indices, data = bytearray(-(-size // 8)), []
    for place, member in enumerate(members):
        if place in signers:
            indices[place // 8] |= 0x80 >> place % 8
            signature = sign(digest, key=MEMBERS[member])
            data.append(signature[-1:] + signature[:64])
        else:
            data.append(ADDRESSES[member])
    return indices, data


def _bent_signature(source: Source, signature: bytes) -> bytes:
    v, r, s = signature[0], signature[1:33], signature[33:]
    order = ORDER.to_bytes(32, "big")
    which = source.randrange(6)
    if which == 0:
        return bytes([source.choice((0, 1, 2, 26, 29, 35, 255, (v - 27) % 256, (55 - v) % 256))]) + r + s
    if which == 1:
        return bytes([(55 - v) % 256]) + r + (ORDER - int.from_bytes(s, "big")).to_bytes(32, "big")
    if which == 2:
        return source.choice((bytes(65), bytes([v]) + bytes(64)))
    if which == 3:
        changed = bytearray(signature)
        changed[source.randrange(65)] ^= 1 << source.randrange(8)
        return bytes(changed)
    return bytes([v]) + source.choice((bytes(32) + s, order + s, r + bytes(32), r + order))


def _bend(source: Source, indices: bytearray, data: list[bytes]) -> None:
    place, which = source.randrange(len(data)), source.randrange(9)
    if which <= 3 and len(data[place]) == 65:
        data[place] = _bent_signature(source, data[place])
    elif which <= 3:
        data[place] = source.choice((bytes(20), source.randbytes(20), source.choice(ADDRESSES)))
    elif which == 4:
        data.append(source.randbytes(source.choice((1, 20, 65))))
    elif which == 5:
        data[-1] = data[-1][: -source.choice((1, 19))]
    elif which == 6:
        indices[:] = source.choice((indices[:-1], indices + bytes([source.randrange(256)])))
    elif which == 7 and indices:
        bit = source.randrange(8 * len(indices))
        indices[bit // 8] ^= 0x80 >> bit % 8
    else:
        source.shuffle(data)


def attested_cases(seed: int) -> Iterator[Json]:
    source = random.Random(f"attestations {seed}")
    while True:
        item, modifier = source.choice(checkpoints()).checkpoint, source.choice((0, 1, -1, 10**6))
        members = source.sample(range(len(MEMBERS)), source.choice(SIZES))
        indices, data = _packed(source, item, modifier, members)
        for _ in range(source.choice((0, 0, 1, 1, 1, 2))):
            _bend(source, indices, data)
        yield {
            "op": "attested",
            "header": encoded(item.header.to_buffer()),
            "archive": text(item.archive.root),
            "modifier": str(modifier),
            "indices": "0x" + indices.hex(),
            "data": "0x" + b"".join(data).hex(),
            "committee": [text(ADDRESSES[member]) for member in members],
        }
