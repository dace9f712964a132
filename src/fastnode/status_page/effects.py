"""Effects of a transaction as tables: what it spent, made, wrote, said and sent."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from fastnode.protocol.constants import (
    CONTRACT_CLASS_REGISTRY_ADDRESS,
    CONTRACT_INSTANCE_REGISTRY_ADDRESS,
    FEE_JUICE_ADDRESS,
)
from fastnode.status_page.findings import Fact, Table, hex_of

__all__ = ["contract_fact", "tables_of"]

#: Rows of a table that are shown; the JSON has all.
ROWS_LISTED: Final = 100

_KNOWN: Final = {
    hex_of(address.to_bytes(32, "big")): name
    for address, name in (
        (CONTRACT_INSTANCE_REGISTRY_ADDRESS, "Instance registry"),
        (CONTRACT_CLASS_REGISTRY_ADDRESS, "Class registry"),
        (FEE_JUICE_ADDRESS, "Fee juice"),
    )
}


def contract_fact(address: str) -> Fact:
    """A cell with a contract: by its name where all networks have it, else by its address."""
    return Fact("Contract", _KNOWN.get(address, address), address)


def tables_of(effect: dict[str, Any], block: int, tx_index: int) -> list[Table]:
    """Tables of an effect as node_getTxEffect gives it, those that have rows."""
    kinds: tuple[tuple[str, str, Callable[[int, Any], list[Fact]]], ...] = (
        ("Nullifiers", "nullifiers", _hash_row("Nullifier")),
        ("Note hashes", "noteHashes", _hash_row("Note hash")),
        ("Public writes", "publicDataWrites", _write_row),
        (
            "Public logs",
            "publicLogs",
            lambda place, log: _public_log_row(place, log, f"log {block}.{tx_index}.{place}"),
        ),
        ("Private logs", "privateLogs", _private_log_row),
        ("Messages to L1", "l2ToL1Msgs", lambda place, value: [_number(place), Fact("Message", value)]),
        ("Published classes", "contractClassLogs", _class_log_row),
    )
    return list(_made(effect, kinds))


def _made(
    effect: dict[str, Any], kinds: tuple[tuple[str, str, Callable[[int, Any], list[Fact]]], ...]
) -> Iterator[Table]:
    for title, key, row_of in kinds:
        values = effect.get(key) or []
        if values:
            rows = [row_of(place, value) for place, value in enumerate(values[:ROWS_LISTED])]
            shown = f"{title}: {len(values)}" + (f", the first {ROWS_LISTED}" if len(values) > ROWS_LISTED else "")
            yield Table([fact.name for fact in rows[0]], rows, shown)


def _number(place: int) -> Fact:
    return Fact("Number", str(place))


def _hash_row(name: str) -> Callable[[int, Any], list[Fact]]:
    return lambda place, value: [_number(place), Fact(name, value, value)]


def _write_row(place: int, write: dict[str, str]) -> list[Fact]:
    return [_number(place), Fact("Leaf slot", write["leafSlot"]), Fact("Value", write["value"])]


def _public_log_row(place: int, log: dict[str, Any], query: str) -> list[Fact]:
    fields = log["fields"]
    first = Fact("First field", fields[0], fields[0]) if fields else Fact("First field", "none")
    return [
        Fact("Number", str(place), query),
        contract_fact(log["contractAddress"]),
        first,
        Fact("Fields", str(len(fields))),
    ]


def _private_log_row(place: int, log: dict[str, Any]) -> list[Fact]:
    tag = Fact("Tag", log["fields"][0], log["fields"][0]) if log["fields"] else Fact("Tag", "none")
    return [_number(place), tag, Fact("Fields", str(log["emittedLength"]))]


def _class_log_row(place: int, log: dict[str, Any]) -> list[Fact]:
    """Cells of a published class: the second field of its log is its id."""
    values = log["fields"]["fields"] if isinstance(log["fields"], dict) else log["fields"]
    named = Fact("Class", values[1], values[1]) if len(values) > 1 else Fact("Class", "none")
    return [_number(place), contract_fact(log["contractAddress"]), named, Fact("Fields", str(log["emittedLength"]))]
