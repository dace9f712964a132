"""Transactions that called a contract or touched it, newest first, by what is there: their calls where the transaction
is kept, public logs, and writes to slots that are known by name.

No index leads from a contract to them: a page looks through transactions for a while, and says how far it came.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

import orjson

from fastnode.archiver.layout import effect_key
from fastnode.protocol.fields import FIELD_BYTES
from fastnode.protocol.tx import Tx
from fastnode.status_page.findings import Fact, Finding, Table, hex_of, time_of
from fastnode.status_page.lists import txs_below

if TYPE_CHECKING:
    from fastnode.archiver.queries import ChainView
    from fastnode.artifacts.naming import Naming

__all__ = ["Call", "calls_of_tx", "touching_txs"]

#: Transactions that one page looks through, and after what time it ends where it is.
TXS_LOOKED: Final = 500
TIME_S: Final = 0.04
ROWS_MAX: Final = 25
_SELECTOR_BYTES: Final = 4
_COLUMNS: Final = ["Transaction", "Made", "Block", "With this contract"]

#: A public call that is known: the contract, and the function by its name or selector.
Call = tuple[str, str]


def touching_txs(
    chain: ChainView,
    address: bytes,
    start: tuple[int, int],
    calls_of: Callable[[str], Iterable[Call] | None],
    naming: Naming,
) -> Finding:
    """A page downwards from ``start``, a block and a place in it.

    ``calls_of`` a transaction: None where it is not kept.
    """
    until = time.monotonic() + TIME_S
    text, slots = hex_of(address), _slots_of(naming, address)
    rows: list[list[Fact]] = []
    looked = not_kept = 0
    following: tuple[int, int] | None = None
    last = start[0]
    is_pruned = False
    for info, index, tx_hash in txs_below(chain, *start):
        if len(rows) == ROWS_MAX or looked == TXS_LOOKED or (looked and time.monotonic() > until):
            following = info.number, max(0, index)
            break
        if info.number < chain.oldest_body:
            is_pruned = True
            break
        looked += 1
        last = info.number
        if index < 0:
            continue
        calls = calls_of(hex_of(tx_hash))
        not_kept += calls is None
        found = [*_called(calls or (), text), *_effects(chain, info.number, index, text, slots)]
        if found:
            rows.append(
                [
                    Fact("Transaction", hex_of(tx_hash), hex_of(tx_hash)),
                    Fact("Made", time_of(info.timestamp)),
                    Fact("Block", str(info.number), str(info.number)),
                    Fact("With this contract", "; ".join(found)),
                ]
            )
    facts = [Fact("Contract", naming.contract(address) or text, text)]
    facts.append(
        Fact("Looked through", f"{looked} transactions, down to block {last if following or is_pruned else 0}")
    )
    if is_pruned:
        facts.append(Fact("Pruned", f"effects of blocks before {chain.oldest_body}"))
    if not_kept:
        facts.append(Fact("Calls not known", f"of {not_kept} transactions, which this node does not keep (--keep-txs)"))
    older = "" if following is None else "calls {} {}.{}".format(text, *following)
    more = [] if following is None else [Fact("Older", f"from block {following[0]}", older)]
    title = "Transactions that called or touched this contract"
    return Finding("list", title, facts, table=Table(_COLUMNS, rows), more=more)


def _slots_of(naming: Naming, address: bytes) -> frozenset[bytes]:
    """Leaf slots that are known by name, in hexadecimal digits."""
    return frozenset(hex_of(leaf).encode() for leaf in naming.leaf_slots([address]))


def _called(calls: Iterable[Call], address: str) -> Iterable[str]:
    names = [function for contract, function in calls if contract == address]
    return [f"called {', '.join(names)}"] if names else []


def _effects(chain: ChainView, block: int, index: int, address: str, slots: frozenset[bytes]) -> Iterable[str]:
    effect = chain.get(effect_key(block, index)) or b"{}"
    has_writes = any(slot in effect for slot in slots)
    if not has_writes and address.encode() not in effect:
        return []
    record: dict[str, Any] = orjson.loads(effect)
    logs = sum(log["contractAddress"] == address for log in record.get("publicLogs") or ())
    writes = sum(write["leafSlot"].encode() in slots for write in record.get("publicDataWrites") or ())
    return [_count(count, what) for count, what in ((logs, "public log"), (writes, "write")) if count]


def _count(count: int, what: str) -> str:
    return f"{count} {what}{'s' if count > 1 else ''}"


def calls_of_tx(record: dict[str, Any], naming: Naming) -> list[Call]:
    """Public calls that a transaction asks for."""
    tx = Tx.from_json(record, naming.release)
    data = tx.data
    calldata = {entry.hash: entry.values for entry in tx.calldata}
    teardown = [] if data.teardown_call is None else [data.teardown_call]
    found = []
    for call in (*data.setup_calls, *data.app_calls, *teardown):
        selector = calldata.get(call.calldata_hash, b"")[FIELD_BYTES - _SELECTOR_BYTES : FIELD_BYTES]
        name = naming.function(call.contract_address, selector) if selector else "no function"
        found.append((hex_of(call.contract_address), name or hex_of(selector)))
    return found
