"""Pages of tags in both forms: entries, or the JSON of logs.

A page says where its logs are as long as these are of one transaction, which is read when the page is asked for.  One
with logs of several has their JSON, and so has each that a version before 4 has written.  JSON does not say where in
its transaction a log is; the transaction's effect does, and how many of its logs with the tag are on pages before.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

from fastnode.archiver import layout as chain_layout
from fastnode.archiver.records import StoredTransaction
from fastnode.errors import DatabaseError
from fastnode.kernels import effect_logs
from fastnode.log_index import layout

__all__ = ["blocks_in_page", "cut_page", "entries_of_page", "joined_page", "positions_in_page"]

_Get = Callable[[bytes], bytes | None]

#: Transactions of which a page may have logs that are read from their effects: each costs a read up to 8 us.
TXS_PER_PAGE: Final = 1

#: Between two logs in JSON.  Their members are strings, numbers and arrays of strings: no log holds this text itself.
_BETWEEN_LOGS: Final = b"},{"
_TX_HASH: Final = slice(len(b'[{"txHash":"0x') - 1, len(b'[{"txHash":"0x') - 1 + 64)
_BLOCK_AND_TIME: Final = re.compile(rb'"blockNumber":(\d+),"blockTimestamp":"(\d+)"')


def entries_of_page(
    get: _Get, tag_key: bytes, number: int, page: bytes, first: int = 0, stop: int | None = None
) -> bytes:
    """Entries of the logs from ``first`` to before ``stop`` of those that the page has.

    ``page`` is as it is stored.  If ``first`` is not 0, no log before it is of the same transaction.  DatabaseError
    when the chain lacks what a log is from.
    """
    page = page.removeprefix(layout.CUT_PAGE)
    if page.startswith(layout.ENTRIES):
        start = len(layout.ENTRIES)
        end = len(page) if stop is None else start + layout.ENTRY_BYTES * stop
        return page[start + layout.ENTRY_BYTES * first : end]
    entries: list[bytes] = []
    tx_hash, place, places = b"", 0, [0]
    position = (0, 0)
    for log in _logs_in_json(page)[first:stop]:
        if log[_TX_HASH] != tx_hash:
            tx_hash = log[_TX_HASH]
            position = _location(get, tx_hash)
            places = _places(get, position, tag_key)
            place = 0 if entries or first else _count_before(get, tag_key, number, tx_hash, position)
        found = _BLOCK_AND_TIME.search(log)
        if found is None or int(found[1]) != position[0] or place >= len(places):
            raise DatabaseError(f"block {position[0]} lacks a log of page {number} of a tag; run `fastnode db check`")
        entries.append(layout.encode_entry((*position, places[place]), int(found[2])))
        place += 1
    return b"".join(entries)


def joined_page(get: _Get, tag_key: bytes, number: int, page: bytes, added: bytes) -> bytes:
    """A page, ``b""`` for none yet, with entries that come to it, at least one; without the mark of a cut one."""
    page = page.removeprefix(layout.CUT_PAGE)
    if page and not page.startswith(layout.ENTRIES) and _has_many_transactions(_logs_in_json(page)):
        return page[:-1] + b"," + _json_of(get, tag_key, added)[1:]
    before = entries_of_page(get, tag_key, number, page) if page else b""
    return _page_of(get, tag_key, before + added)


def cut_page(get: _Get, tag_key: bytes, number: int, page: bytes, first: int = 0, stop: int | None = None) -> bytes:
    """A page with only some of the logs that it has, as :func:`entries_of_page` takes them; without the mark."""
    page = page.removeprefix(layout.CUT_PAGE)
    if not page.startswith(layout.ENTRIES):
        logs = _logs_in_json(page)[first:stop]
        if _has_many_transactions(logs):
            return b"[" + b",".join(logs) + b"]"
    return layout.ENTRIES + entries_of_page(get, tag_key, number, page, first, stop)


def _page_of(get: _Get, tag_key: bytes, entries: bytes) -> bytes:
    transactions = {entries[at : at + layout.ENTRY_TX_BYTES] for at in _starts(entries)}
    return layout.ENTRIES + entries if len(transactions) <= TXS_PER_PAGE else _json_of(get, tag_key, entries)


def _json_of(get: _Get, tag_key: bytes, entries: bytes) -> bytes:
    return effect_logs.page_json(get, len(tag_key) > layout.TAG_BYTES, entries)


def _has_many_transactions(logs: list[bytes]) -> bool:
    return len({log[_TX_HASH] for log in logs}) > TXS_PER_PAGE


def blocks_in_page(page: bytes) -> list[int]:
    """Blocks of the logs that a page has."""
    page = page.removeprefix(layout.CUT_PAGE)
    if page.startswith(layout.ENTRIES):
        entries = page[len(layout.ENTRIES) :]
        return [layout.decode_number(entries[at : at + layout.BLOCK_BYTES]) for at in _starts(entries)]
    return [int(block) for block, _ in _BLOCK_AND_TIME.findall(page)]


def positions_in_page(get: _Get, tag_key: bytes, number: int, page: bytes) -> list[layout.Position]:
    """Positions of the logs that the page has."""
    entries = entries_of_page(get, tag_key, number, page)
    return [layout.decode_position(entries[at : at + layout.ENTRY_BYTES]) for at in _starts(entries)]


def _starts(entries: bytes) -> range:
    return range(0, len(entries), layout.ENTRY_BYTES)


def _logs_in_json(page: bytes) -> list[bytes]:
    logs = page[1:-1].split(_BETWEEN_LOGS)
    last = len(logs) - 1
    return [(b"{" if at else b"") + log + (b"}" if at < last else b"") for at, log in enumerate(logs)]


def _location(get: _Get, tx_hash: bytes) -> tuple[int, int]:
    stored = get(chain_layout.TRANSACTION + bytes.fromhex(tx_hash.decode()))
    if stored is None:
        raise DatabaseError(f"no block has the transaction {tx_hash.decode()}; run `fastnode db check`")
    transaction = StoredTransaction.decode(stored)
    return transaction.block_number, transaction.index_in_block


def _places(get: _Get, position: tuple[int, int], tag_key: bytes) -> list[int]:
    effect = get(chain_layout.effect_key(*position))
    if effect is None:
        raise DatabaseError(
            f"transaction {position[1]} of block {position[0]} lacks its effect; run `fastnode db check`"
        )
    return effect_logs.LoggedEffect(effect).places_of(tag_key)


def _count_before(get: _Get, tag_key: bytes, number: int, tx_hash: bytes, position: tuple[int, int]) -> int:
    """Number of logs of the transaction on pages before ``number``."""
    count = 0
    for before in range(number - 1, -1, -1):
        page = get(layout.page_key(tag_key, before))
        same = [] if page is None else list(_of_transaction(page, tx_hash, position))
        count += sum(same)
        if not same or not all(same):
            break
    return count


def _of_transaction(page: bytes, tx_hash: bytes, position: tuple[int, int]) -> Iterator[bool]:
    """For each log of a page, whether it is of a transaction."""
    page = page.removeprefix(layout.CUT_PAGE)
    if page.startswith(layout.ENTRIES):
        entries = page[len(layout.ENTRIES) :]
        for at in _starts(entries):
            yield layout.decode_position(entries[at : at + layout.ENTRY_BYTES])[:2] == position
    else:
        for log in _logs_in_json(page):
            yield log[_TX_HASH] == tx_hash
