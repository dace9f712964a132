"""Check of the pool on disk for ``fastnode db check``: each transaction decoded and hashed, and its record compared."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import orjson

from fastnode.errors import DecodeError
from fastnode.mempool.entries import PoolEntry, TxState
from fastnode.mempool.store import KeptRow, PoolStore
from fastnode.protocol.fields import hex_text
from fastnode.protocol.releases import Release
from fastnode.protocol.tx import Tx

__all__ = ["check_pool"]


def check_pool(path: Path, genesis_hash: bytes, release: Release) -> list[str]:
    """Problems of the LevelDB at ``path``, a line each.

    DataDirectoryError when it cannot be opened or belongs to another chain, DatabaseError for a record or a file that
    cannot be read at all.
    """
    store = PoolStore.open(path, genesis_hash)
    try:
        entries = {entry.hash: entry for entry in store.entries()}
        problems = []
        for entry in entries.values():
            fault = _fault(entry, store.tx_json(entry.hash), release)
            if fault is not None:
                problems.append(f"transaction {hex_text(entry.hash)}: {fault}")
        kept = {row.tx_hash: row for row in store.kept_rows()}
        problems.extend(
            f"transaction {hex_text(tx_hash)}: it has no record"
            for tx_hash in store.stored_hashes()
            if tx_hash not in entries and tx_hash not in kept
        )
        for row in kept.values():
            fault = _fault_of_kept(row, store.tx_json(row.tx_hash), release)
            if fault is not None:
                problems.append(f"kept transaction {hex_text(row.tx_hash)}: {fault}")
        return problems
    finally:
        store.close()


def _fault(entry: PoolEntry, tx_json: bytes | None, release: Release) -> str | None:
    if entry.state is TxState.DELETED:
        return None if tx_json is None else "it is deleted and still there"
    if tx_json is None:
        return "it is missing"
    worked_out = _decoded(tx_json, release)
    if isinstance(worked_out, str):
        return worked_out
    if worked_out.hash != entry.hash:
        return f"its hash is {hex_text(worked_out.hash)}"
    where_it_is = replace(
        worked_out,
        state=entry.state,
        arrival=entry.arrival,
        block=entry.block,
        slot=entry.slot,
        forwarded=entry.forwarded,
        proof_checked=entry.proof_checked,
    )
    return None if where_it_is == entry else "its record says something else"


def _fault_of_kept(row: KeptRow, tx_json: bytes | None, release: Release) -> str | None:
    if tx_json is None:
        return "it is missing"
    worked_out = _decoded(tx_json, release)
    if isinstance(worked_out, str):
        return worked_out
    if worked_out.hash != row.tx_hash:
        return f"its hash is {hex_text(worked_out.hash)}"
    return None if len(tx_json) == row.size else f"it has {len(tx_json)} bytes, not {row.size}"


def _decoded(tx_json: bytes, release: Release) -> PoolEntry | str:
    """The record that a transaction would have, or why it has none."""
    try:
        return PoolEntry.of(Tx.from_json(orjson.loads(tx_json), release), release)
    except (orjson.JSONDecodeError, DecodeError) as error:
        return f"it cannot be decoded: {error}"
