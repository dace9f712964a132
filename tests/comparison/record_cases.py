"""Random records and blob fields for compare_transactions.py: those of recorded and of made-up checkpoints, changed.
A seed gives the same ones as long as this file is not changed.
"""

from __future__ import annotations

import base64
import functools
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from tests.comparison.json_changes import change_json
from tests.comparison.transaction_cases import any_word, word
from tests.comparison.transaction_outcomes import Json
from tests.mempool.chain import chain_records
from tests.p2p.bent_messages import attestation, block, checkpoint, last_block

from fastnode.protocol.blobs import (
    BLOCK_END_BITS,
    BLOCK_STATE_BITS,
    CHECKPOINT_END_BITS,
    TX_START_BITS,
    checkpoint_blob_fields,
    checkpoint_end_marker,
)
from fastnode.protocol.checkpoint import PublishedCheckpoint
from fastnode.protocol.constants import BLOCK_END_PREFIX, CHECKPOINT_END_PREFIX, TX_START_PREFIX
from fastnode.protocol.fields import FIELD_BYTES, MODULUS, split_fields

CHAIN_ID, VERSION, NUMBER = 31337, 42, 7
Fields = list[bytes]
Choose = Callable[[random.Random], Any]


@functools.cache
def checkpoints() -> list[PublishedCheckpoint]:
    return [PublishedCheckpoint.from_json(row["published"]) for row in chain_records() if row["kind"] == "checkpoint"]


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


# ---- markers ---------------------------------------------------------------------------------------


def parts_of(field: bytes, widths: Sequence[int]) -> list[int]:
    """The parts of a marker, the most significant first; what is above them is left out."""
    value, parts = int.from_bytes(field, "big"), []
    for width in reversed(widths):
        parts.append(value & (1 << width) - 1)
        value >>= width
    return parts[::-1]


def marker(parts: Sequence[int], widths: Sequence[int], above: int = 0) -> bytes:
    value = above
    for part, width in zip(parts, widths, strict=True):
        value = value << width | part % (1 << width)
    return word(value % (1 << 256))


def places(fields: Fields, prefix: int, widths: Sequence[int]) -> list[int]:
    return [place for place, field in enumerate(fields) if int.from_bytes(field, "big") >> sum(widths[1:]) == prefix]


def _near(source: random.Random, value: int, width: int) -> int:
    last = (1 << width) - 1
    return source.choice((0, 1, value + 1, value - 1, 2 * value, last, source.randrange(last + 1), value + 3)) % (
        1 << width
    )


def _bend(source: random.Random, fields: Fields, place: int, widths: Sequence[int]) -> None:
    if not 0 <= place < len(fields):
        return
    parts, index = parts_of(fields[place], widths), source.randrange(len(widths))
    parts[index] = _near(source, parts[index], widths[index])
    fields[place] = marker(parts, widths, source.choice((0, 0, 0, 1)))


def recount(fields: Fields) -> None:
    """Let the end marker count what there is."""
    for place in places(fields, CHECKPOINT_END_PREFIX, CHECKPOINT_END_BITS)[-1:]:
        fields[place] = checkpoint_end_marker(place + 1)


# ---- changes of blob fields --------------------------------------------------------------------------


def _tx_marker(source: random.Random, fields: Fields) -> None:
    found = places(fields, TX_START_PREFIX, TX_START_BITS)
    if found:
        _bend(source, fields, source.choice(found), TX_START_BITS)


def _block_marker(source: random.Random, fields: Fields) -> None:
    found = places(fields, BLOCK_END_PREFIX, BLOCK_END_BITS)
    if found and source.random() < 0.5:
        _bend(source, fields, source.choice(found), BLOCK_END_BITS)
    elif found:
        _bend(source, fields, source.choice(found) + 1, BLOCK_STATE_BITS)


def _end_marker(source: random.Random, fields: Fields) -> None:
    for place in places(fields, CHECKPOINT_END_PREFIX, CHECKPOINT_END_BITS):
        _bend(source, fields, place, CHECKPOINT_END_BITS)


def _any_field(source: random.Random, fields: Fields) -> None:
    place = source.randrange(len(fields))
    fields[place] = source.choice((bytes(32), any_word(source), any_word(source), source.choice(fields)))


def _cut(source: random.Random, fields: Fields) -> None:
    del fields[source.randrange(len(fields) + 1) :]


def _longer(source: random.Random, fields: Fields) -> None:
    fields += [bytes(32)] * source.choice((0, 1, 5, 100)) + [word(1)] * source.choice((0, 0, 1))


def _left_out(source: random.Random, fields: Fields) -> None:
    del fields[source.randrange(len(fields))]
    if source.random() < 0.8:
        recount(fields)


def _put_in(source: random.Random, fields: Fields) -> None:
    fields.insert(source.randrange(len(fields)), source.choice((bytes(32), any_word(source), source.choice(fields))))
    if source.random() < 0.8:
        recount(fields)


def _effects(fields: Fields, start: int) -> tuple[list[int], int, int, int]:
    """The parts of a start marker; where note hashes begin, private logs, public logs."""
    parts = parts_of(fields[start], TX_START_BITS)
    _, notes, nullifiers, messages, writes, private, private_fields = parts[:7]
    first = start + 3
    logs = first + notes + nullifiers + messages + 2 * writes
    return parts, first, logs, logs + private + private_fields


def _zero_among_effects(source: random.Random, fields: Fields) -> None:
    found = places(fields, TX_START_PREFIX, TX_START_BITS)
    if found:
        _, first, logs, _ = _effects(fields, source.choice(found))
        if first < logs <= len(fields):
            fields[source.randrange(first, logs)] = bytes(32)


def _private_log(source: random.Random, fields: Fields) -> None:
    """The first private log has another length, and all counts are right again."""
    for start in places(fields, TX_START_PREFIX, TX_START_BITS):
        parts, _, at, _ = _effects(fields, start)
        if not parts[5] or at >= len(fields):
            continue
        length, wanted = int.from_bytes(fields[at], "big"), source.choice((0, 1, 15, 16, 17, 20))
        if length > 16:
            continue
        fields[at : at + 1 + length] = [word(wanted)] + [word(source.randrange(1, MODULUS)) for _ in range(wanted)]
        parts[6] += wanted - length
        parts[10] += wanted - length
        fields[start] = marker(parts, TX_START_BITS)
        recount(fields)
        return


def _public_log(source: random.Random, fields: Fields) -> None:
    for start in places(fields, TX_START_PREFIX, TX_START_BITS):
        parts, _, _, at = _effects(fields, start)
        if parts[7] and at < len(fields):
            total = parts[7]
            fields[at] = word(source.choice((0, 1, total, total - 1, total - 2, max(0, total - 3), 1 << 32, 1 << 40)))
            return


BLOB_CHANGES: Final[tuple[Callable[[random.Random, Fields], None], ...]] = (
    *(_tx_marker, _tx_marker, _tx_marker, _block_marker, _block_marker, _end_marker, _any_field, _any_field, _cut),
    *(_longer, _left_out, _put_in, _zero_among_effects, _private_log, _public_log),
)


def _few(source: random.Random, most: int) -> int:
    return source.choice((0, 0, 1, most, source.randrange(most + 1)))


def made_up_fields(source: random.Random) -> Fields:
    """A checkpoint of random transactions that is right in form."""

    def some(count: int) -> Fields:
        return [word(source.randrange(1, MODULUS)) for _ in range(count)]

    fields: Fields = []
    for place in range(source.choice((1, 1, 2, 3))):
        txs = source.choice((0, 1, 1, 2, 4))
        for _ in range(txs):
            counts = [_few(source, 64), max(1, _few(source, 64)), _few(source, 8), _few(source, 64)]
            private = [source.randrange(1, 17) for _ in range(_few(source, 64))]
            public = [source.choice((0, 1, 5, source.randrange(300))) for _ in range(_few(source, 5))]
            of_class = source.choice((0, 0, 0, 1, 7, 3023))
            body = some(2 + sum(counts) + counts[3])
            for length in private:
                body += [word(length), *some(length)]
            for length in public:
                body += [word(length), *some(length + 1)]
            body += some(of_class + 1) if of_class else []
            public_fields = sum(public) + 2 * len(public)
            totals = [len(private), sum(private), public_fields, of_class, source.randrange(4), len(body) + 1]
            fields += [marker([TX_START_PREFIX, *counts, *totals], TX_START_BITS), *body]
        end = [BLOCK_END_PREFIX, source.choice((0, 1, 1 << 40, (1 << 64) - 1)), 100 + place, txs]
        sizes = [source.choice((0, 1, (1 << 32) - 1, source.randrange(1 << 32))) for _ in range(4)]
        fields += [marker(end, BLOCK_END_BITS), marker([*sizes, source.randrange(1 << 48)], BLOCK_STATE_BITS)]
        fields += some(4 if place else 5)
    return [*fields, checkpoint_end_marker(len(fields) + 1)]


def blob_cases(seed: int) -> Iterator[Json]:
    source = random.Random(f"blobs {seed}")
    joined = [checkpoint_blob_fields(item.checkpoint.blocks) for item in checkpoints()]
    while True:
        index, changes = source.randrange(len(joined)), []
        is_made_up = source.random() < 0.4
        fields = made_up_fields(source) if is_made_up else list(split_fields(joined[index]))
        for change in source.choices(BLOB_CHANGES, k=source.choice((0, 1, 1, 1, 1, 2, 3))):
            if fields:
                change(source, fields)
                changes.append(change.__name__)
        yield {
            "op": "blobs",
            "changes": changes,
            "base": None if is_made_up else index,
            "header": encoded(checkpoints()[index].checkpoint.header.to_buffer()),
            "fields": encoded(b"".join(fields)),
            "number": NUMBER,
            "archive": "0x" + word(5).hex(),
            "chainId": CHAIN_ID,
            "version": VERSION,
        }


# ---- records ---------------------------------------------------------------------------------------


def change_bytes(source: random.Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(source.choice((0, 1, 1, 1, 2))):
        place, which = source.randrange(len(changed) or 1), source.randrange(7)
        if which == 0:
            del changed[place:]
        elif which == 1:
            changed += source.randbytes(source.choice((1, 4, 32, 100)))
        elif which in (2, 3):
            changed[place : place + 1] = bytes([source.choice((0, 1, 2, 255, source.randrange(256)))])
        elif which == 4:
            changed[place : place + FIELD_BYTES] = any_word(source)
        elif which == 5:
            changed[place : place + 4] = source.choice((bytes(4), b"\0\0\0\1", b"\0\0\0\2", b"\xff" * 4))
        else:
            changed[place : place + source.choice((0, 1, 32))] = source.randbytes(source.choice((0, 1, 32)))
    return bytes(changed)


def _block(source: random.Random) -> Any:
    return source.choice(source.choice(checkpoints()).checkpoint.blocks)


def _effect(source: random.Random) -> Any:
    while not (effects := _block(source).body.tx_effects):
        pass
    return source.choice(effects)


def _header(source: random.Random) -> Any:
    return source.choice(checkpoints()).checkpoint.header


#: Samples of records that are read as bytes and as JSON.
SAMPLES: Final[dict[str, Choose]] = {
    "BlockHeader": lambda source: _block(source).header,
    "CheckpointHeader": _header,
    "L2Block": _block,
    "TxEffect": _effect,
}
MESSAGES: Final[dict[str, Choose]] = {
    "BlockProposal": lambda source: block(),
    "CheckpointProposal": lambda source: checkpoint(tail=source.choice((bytes(4), last_block()))),
    "CheckpointAttestation": lambda source: attestation(),
}


def record_cases(seed: int) -> Iterator[Json]:
    source = random.Random(f"records {seed}")
    kinds = {kind: (lambda rng, choose=choose: choose(rng).to_buffer()) for kind, choose in SAMPLES.items()} | MESSAGES
    while True:
        kind = source.choice(list(kinds))
        plain = kinds[kind](source)
        changed = change_bytes(source, plain)
        # Behind what stands alone nothing comes: it is a part of something else, or of a file.
        yield {"op": "record", "kind": kind, "data": encoded(changed if kind in MESSAGES else changed[: len(plain)])}


def record_json_cases(seed: int) -> Iterator[Json]:
    source = random.Random(f"records in JSON {seed}")
    kinds = SAMPLES | {"PublishedCheckpoint": lambda rng: rng.choice(checkpoints())}
    while True:
        kind = source.choice(list(kinds))
        path, value = change_json(source, kinds[kind](source).to_json())
        yield {"op": "recordJson", "kind": kind, "changes": [path], "json": value}
