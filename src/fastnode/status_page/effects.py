"""Effects of a transaction as tables: what it spent, made, wrote, said and sent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

import orjson

from fastnode.kernels import encode
from fastnode.protocol.constants import CONTRACT_INSTANCE_REGISTRY_ADDRESS
from fastnode.protocol.fields import field_from_int
from fastnode.protocol.releases import Addresses
from fastnode.status_page.findings import Fact, Table, hex_of

if TYPE_CHECKING:
    from fastnode.artifacts.naming import Naming

__all__ = ["contract_fact", "event_fact", "named_values", "tables_of"]

#: Rows of a table that are shown; the JSON has all.
ROWS_LISTED: Final = 100
#: Fields of a log that may be keys of maps.
_KEYS_PER_LOG: Final = 4
_ARGUMENTS_SHOWN: Final = 8
_VALUE_LENGTH: Final = 70

_INSTANCE_REGISTRY: Final = field_from_int(CONTRACT_INSTANCE_REGISTRY_ADDRESS)


def contract_fact(address: str, naming: Naming) -> Fact:
    """A cell with a contract: by its name where that is known, else by its address."""
    key = encode.from_hex(address)
    name = _protocol_names(naming.release.addresses).get(key) or naming.contract(key)
    return Fact("Contract", name or address, address)


def _protocol_names(addresses: Addresses) -> dict[bytes, str]:
    return {
        _INSTANCE_REGISTRY: "Instance registry",
        addresses.class_registry: "Class registry",
        addresses.fee_juice: "Fee juice",
    }


def tables_of(
    effect: dict[str, Any], block: int, tx_index: int, naming: Naming, contracts: Iterable[bytes] = ()
) -> list[Table]:
    """Tables of an effect as node_getTxEffect gives it, those that have rows.

    ``contracts`` that the transaction may have written to: their slots are shown by name, as far as ``naming`` has been
    told of the keys of their maps.
    """
    slots = _slots_of(effect, naming, contracts)
    kinds: tuple[tuple[str, str, Callable[[int, Any], list[Fact]]], ...] = (
        ("Nullifiers", "nullifiers", _hash_row("Nullifier")),
        ("Note hashes", "noteHashes", _hash_row("Note hash")),
        ("Public writes", "publicDataWrites", lambda place, write: _write_row(place, write, slots, naming)),
        (
            "Public logs",
            "publicLogs",
            lambda place, log: _public_log_row(place, log, f"log {block}.{tx_index}.{place}", naming),
        ),
        ("Private logs", "privateLogs", _private_log_row),
        ("Messages to L1", "l2ToL1Msgs", lambda place, value: [_number(place), Fact("Message", value)]),
        ("Published classes", "contractClassLogs", lambda place, log: _class_log_row(place, log, naming)),
    )
    return list(_made(effect, kinds))


def _slots_of(effect: dict[str, Any], naming: Naming, contracts: Iterable[bytes]) -> dict[str, tuple[bytes, str]]:
    """Contract and name of a slot by its leaf slot."""
    logged = [encode.from_hex(log["contractAddress"]) for log in effect.get("publicLogs") or ()]
    naming.note_keys(
        encode.from_hex(value) for log in effect.get("publicLogs") or () for value in log["fields"][:_KEYS_PER_LOG]
    )
    wanted = dict.fromkeys([naming.release.addresses.fee_juice, *contracts, *logged])
    return {hex_of(leaf): found for leaf, found in naming.leaf_slots(wanted).items()}


def named_values(values: list[dict[str, Any]]) -> str:
    """Decoded arguments in a line: ``to: 0x12..cd, amount: 5``; what is long is cut."""
    shown = []
    for value in values[:_ARGUMENTS_SHOWN]:
        text = value["value"] if isinstance(value["value"], str) else orjson.dumps(value["value"]).decode()
        shown.append(f"{value['name']}: {text if len(text) <= _VALUE_LENGTH else text[:_VALUE_LENGTH] + '…'}")
    return ", ".join(shown) + (", …" if len(values) > _ARGUMENTS_SHOWN else "")


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


def _write_row(place: int, write: dict[str, str], slots: dict[str, tuple[bytes, str]], naming: Naming) -> list[Fact]:
    found = slots.get(write["leafSlot"])
    if found is None:
        cells = [Fact("Contract", "not known"), Fact("Slot", write["leafSlot"])]
    else:
        cells = [contract_fact(hex_of(found[0]), naming), Fact("Slot", found[1])]
    return [_number(place), *cells, Fact("Value", write["value"])]


def _public_log_row(place: int, log: dict[str, Any], query: str, naming: Naming) -> list[Fact]:
    return [
        Fact("Number", str(place), query),
        contract_fact(log["contractAddress"], naming),
        event_fact(log["contractAddress"], log["fields"], naming),
        Fact("Fields", str(len(log["fields"]))),
    ]


def event_fact(address: str, fields: list[str], naming: Naming) -> Fact:
    """A cell with the event that a public log is, else with its first field."""
    found = naming.of_log(encode.from_hex(address), b"".join(map(encode.from_hex, fields)))
    if "eventName" in found:
        return Fact("Event", f"{found['eventName']}({named_values(found.get('arguments', []))})")
    return Fact("Event", fields[0], fields[0]) if fields else Fact("Event", "none")


def _private_log_row(place: int, log: dict[str, Any]) -> list[Fact]:
    tag = Fact("Tag", log["fields"][0], log["fields"][0]) if log["fields"] else Fact("Tag", "none")
    return [_number(place), tag, Fact("Fields", str(log["emittedLength"]))]


def _class_log_row(place: int, log: dict[str, Any], naming: Naming) -> list[Fact]:
    """Cells of a published class: the second field of its log is its id."""
    values = log["fields"]["fields"] if isinstance(log["fields"], dict) else log["fields"]
    named = Fact("Class", values[1], values[1]) if len(values) > 1 else Fact("Class", "none")
    contract = contract_fact(log["contractAddress"], naming)
    return [_number(place), contract, named, Fact("Fields", str(log["emittedLength"]))]
