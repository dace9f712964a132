"""Chains made of whatever logs a test needs, stored and undone by the real ingestion."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from importlib import resources
from pathlib import Path
from typing import Any

from fastnode.archiver.ingest import Ingestor, Verification
from fastnode.archiver.layout import KEY_NOT_PACKED
from fastnode.archiver.queries import ChainView
from fastnode.archiver.store import ArchiverStore
from fastnode.kernels import effect_logs
from fastnode.log_index import ChainIndexes, layout
from fastnode.log_index.range_queries import AnswerLimits, find_class_logs, find_public_logs, span_of_blocks
from fastnode.protocol.block import L2Block
from fastnode.protocol.effects import Body, ContractClassLog, PrivateLog, PublicLog, TxEffect
from fastnode.protocol.header import (
    EMPTY_SNAPSHOT,
    AppendOnlyTreeSnapshot,
    BlockHeader,
    GasFees,
    GlobalVariables,
    StateReference,
)
from fastnode.sources.chain_import import adopt_chain_file

Json = dict[str, Any]


def hashed(*parts: object) -> bytes:
    """A field that belongs to these parts."""
    return b"\0" + hashlib.sha256(repr(parts).encode()).digest()[:31]


def private_log(tag: bytes, *fields: bytes, emitted_length: int | None = None) -> PrivateLog:
    padded = (tag, *fields) + (bytes(32),) * (15 - len(fields))
    return PrivateLog(padded, 1 + len(fields) if emitted_length is None else emitted_length)


def public_log(contract: bytes, *fields: bytes) -> PublicLog:
    return PublicLog(contract, fields)


class Chain:
    """A store with log indexes, and the blocks in it.  Each block is a checkpoint of its own."""

    def __init__(self, directory: Path, *, indexed: bool = True) -> None:
        self.directory = directory
        self.blocks: list[L2Block] = []
        self._built = 0  # blocks ever made: replaced blocks get other hashes
        self._resources = ExitStack()
        self.open(indexed=indexed)

    # ---- life ----------------------------------------------------------------------------

    def open(self, *, indexed: bool = True, filter_file: Path | None = None) -> None:
        """As a node starts."""
        self.store = self._resources.enter_context(ArchiverStore.open(self.directory))
        sample = resources.files("fastnode") / "data" / "sample_chain.jsonl.xz"
        with resources.as_file(sample) as path:
            adopt_chain_file(self.store, path)
        self.indexes = ChainIndexes(filter_bytes=1 << 12)
        if indexed:
            self.caught_up = self.indexes.catch_up(self.store)
        writers = self.indexes.writers if indexed else ()
        self.ingestor = Ingestor(self.store, verification=Verification.NONE, index_writers=writers)
        self._resources.callback(self.ingestor.close)
        if indexed:
            self.indexes.load_filter(self.ingestor.view, filter_file)

    def close(self) -> None:
        self._resources.close()

    def reopen(self, *, indexed: bool = True, filter_file: Path | None = None) -> None:
        self.close()
        self.open(indexed=indexed, filter_file=filter_file)

    @property
    def view(self) -> ChainView:
        return self.ingestor.view

    # ---- blocks --------------------------------------------------------------------------

    def add(self, *transactions: Sequence[PrivateLog | PublicLog | ContractClassLog]) -> L2Block:
        """Store one more block; each transaction is given by its logs."""
        block = self.build(*transactions)
        self.ingestor.add_block(block)
        self.blocks.append(block)
        return block

    def build(self, *transactions: Sequence[PrivateLog | PublicLog | ContractClassLog]) -> L2Block:
        self._built += 1
        number = len(self.blocks) + 1
        parent = self.view.block_info(number - 1)
        assert parent is not None
        variables = GlobalVariables(
            chain_id=1,
            version=1,
            block_number=number,
            slot_number=number,
            timestamp=timestamp_of(number),
            coinbase=bytes(20),
            fee_recipient=bytes(32),
            gas_fees=GasFees(0, 0),
        )
        state = StateReference.of_trees(EMPTY_SNAPSHOT, EMPTY_SNAPSHOT, EMPTY_SNAPSHOT, EMPTY_SNAPSHOT)
        last_archive = AppendOnlyTreeSnapshot(parent.archive_root, number)
        effects = [self._effect(number, index, logs) for index, logs in enumerate(transactions)]
        return L2Block(
            archive=AppendOnlyTreeSnapshot(hashed("archive", self._built), number + 1),
            header=BlockHeader(last_archive, state, hashed("sponge", self._built), variables, 0, 0),
            body=Body(tuple(effects)),
            checkpoint_number=number,
            index_within_checkpoint=0,
        )

    def _effect(self, number: int, index: int, logs: Sequence[PrivateLog | PublicLog | ContractClassLog]) -> TxEffect:
        return TxEffect(
            revert_code=0,
            tx_hash=hashed("tx", self._built, index),
            transaction_fee=0,
            note_hashes=tuple(hashed("note", number, index, note) for note in range(index % 3)),
            nullifiers=(hashed("nullifier", self._built, index),),
            l2_to_l1_msgs=(),
            public_data_writes=(),
            private_logs=tuple(log for log in logs if isinstance(log, PrivateLog)),
            public_logs=tuple(log for log in logs if isinstance(log, PublicLog)),
            contract_class_logs=tuple(log for log in logs if isinstance(log, ContractClassLog)),
        )

    def undo(self, count: int) -> None:
        """Take the newest blocks back."""
        kept = max(0, len(self.blocks) - count)
        self.ingestor.undo_above(kept)
        del self.blocks[kept:]

    def age(self) -> None:
        """Give the logs in the index the form of version 3, as if this version had just been installed."""
        batch = self.store.write_batch()
        for key, value in older_form(self.view).items():
            if value is None:
                batch.delete(key)
            else:
                batch.put(key, value)
        batch.put(KEY_NOT_PACKED, layout.PRIVATE_PAGE)
        batch.commit()
        self.reopen()

    def renew(self) -> bool:
        """A step of what a node does with such logs while it serves; False if there are none."""
        with self.ingestor.between_blocks() as is_idle:
            assert is_idle
            return self.ingestor.pack_texts()

    # ---- what the queries must answer ------------------------------------------------------

    def scoped_logs(self, tag: bytes, contract: bytes | None = None) -> list[Json]:
        """TxScopedL2Log of all logs of a tag, private unless a contract is given, in order."""
        return [
            {
                "txHash": text(effect.tx_hash),
                "blockNumber": block.number,
                "blockTimestamp": str(block.header.global_variables.timestamp),
                "logData": [text(field) for field in data],
                "noteHashes": [text(note) for note in effect.note_hashes],
                "firstNullifier": text(effect.nullifiers[0]),
            }
            for block in self.blocks
            for effect in block.body.tx_effects
            for data in _data_of_tag(effect, tag, contract)
        ]

    def identified_logs(self, kind: str) -> list[Json]:
        """``{id, log}`` of all public or class logs in order; ``kind`` as the key in TxEffect."""
        return [
            {
                "id": {
                    "blockNumber": block.number,
                    "blockHash": text(block.hash()),
                    "txHash": text(effect.tx_hash),
                    "txIndex": tx_index,
                    "logIndex": log_index,
                },
                "log": log,
            }
            for block in self.blocks
            for tx_index, effect in enumerate(block.body.tx_effects)
            for log_index, log in enumerate(effect.to_json()[kind])
        ]


def _data_of_tag(effect: TxEffect, tag: bytes, contract: bytes | None) -> Iterator[Sequence[bytes]]:
    if contract is None:
        for private in effect.private_logs:
            if private.fields[0] == tag:
                yield private.fields[: private.emitted_length]
        return
    for public in effect.public_logs:
        if public.contract_address == contract and public.fields[:1] == (tag,):
            yield public.fields


def text(data: bytes) -> str:
    return "0x" + data.hex()


def timestamp_of(block_number: int) -> int:
    return 1_000 + 10 * block_number


def raw_keys(view: ChainView, prefixes: Sequence[bytes]) -> dict[bytes, bytes]:
    """Everything below the prefixes of an index."""
    return {key: value for prefix in prefixes for key, value in view.scan(prefix, bytes((prefix[0] + 1,)))}


def older_form(view: ChainView) -> dict[bytes, bytes | None]:
    """Changes that give the logs in the index the form of versions before 4; None: there is no such key.

    Their class logs were joined from two parts, which nobody reads any more.
    """
    changes: dict[bytes, bytes | None] = {}
    for prefix in (layout.PRIVATE_PAGE, layout.PUBLIC_PAGE):
        for key, page in raw_keys(view, [prefix]).items():
            start, mark, entries = page.partition(layout.ENTRIES)
            if mark and start in (b"", layout.CUT_PAGE):
                changes[key] = start + effect_logs.page_json(view.get, prefix == layout.PUBLIC_PAGE, entries)
    for row, places in raw_keys(view, [layout.PUBLIC_LOG, layout.CLASS_LOG]).items():
        if len(row) == layout.ROW_BYTES:
            changes[row] = None
            number = layout.decode_number(row[1:])
            find = find_public_logs if row.startswith(layout.PUBLIC_LOG) else find_class_logs
            logs = find(view, span_of_blocks(number, number + 1), AnswerLimits(1 << 30, 1 << 40)).logs
            starts = range(0, len(places), layout.PLACE_BYTES)
            changes |= {
                row + places[start : start + layout.PLACE_BYTES]: log
                for start, log in zip(starts, logs[: len(starts)], strict=True)
            }
    return changes
