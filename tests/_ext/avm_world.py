"""A small world for the interpreter: dictionaries, the limits of a transaction, and its calls as the vectors show them.

Enough for transactions that consist of calls of the app logic.  Everything else of a transaction has its tests with
what executes transactions.
"""

from __future__ import annotations

import copy
import json
import lzma
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from fastnode.errors import CallHalted, TxExecutionError
from fastnode.protocol import constants
from fastnode.protocol.hashing import poseidon2_hash_with_separator

DATA = Path(__file__).parents[1] / "data" / "avm"

NOTE_HASHES_MAX = 64
NULLIFIERS_MAX = 64
MESSAGES_MAX = 8
SLOTS_MAX = 63
CLASSES_MAX = 21
LOG_FIELDS_MAX = 4096
LOG_OWN_FIELDS = 2
DEBUG_READS_MAX = 125_000
CALLS_RECORDED_MAX = 100
MEMBERS = ("deployer", "class_id", "initialization_hash", "immutables_hash")
DEPTH_RECORDED_MAX = 5
GENESIS_NULLIFIERS = 128

DEBUG_LEVELS = ("silent", "fatal", "error", "warn", "info", "verbose", "debug", "trace")


def as_field(value: int | str) -> bytes:
    return (int(value, 16) if isinstance(value, str) else value).to_bytes(32, "big")


def split(fields: bytes) -> list[bytes]:
    return [fields[start : start + 32] for start in range(0, len(fields), 32)]


def short_hex(value: bytes) -> str:
    return hex(int.from_bytes(value, "big"))


@cache
def separated(separator: int, *fields: bytes) -> bytes:
    return poseidon2_hash_with_separator(separator, fields)


def leaf_slot(address: bytes, slot: bytes) -> bytes:
    return separated(constants.SEPARATOR_PUBLIC_LEAF_SLOT, address, slot)


def silo_nullifier(address: bytes, nullifier: bytes) -> bytes:
    return separated(constants.SEPARATOR_SILOED_NULLIFIER, address, nullifier)


FEE_JUICE = as_field(5)


def balance_leaf_slot(payer: bytes) -> bytes:
    return leaf_slot(FEE_JUICE, separated(constants.SEPARATOR_PUBLIC_STORAGE_MAP_SLOT, as_field(1), payer))


@dataclass(frozen=True, slots=True)
class Contract:
    class_id: bytes
    deployer: bytes
    initialization_hash: bytes
    program: Any
    immutables_hash: bytes = bytes(32)


@dataclass(slots=True)
class Effects:
    """State that a checkpoint restores."""

    storage: dict[bytes, bytes] = field(default_factory=dict)
    nullifiers: set[bytes] = field(default_factory=set)
    notes: list[bytes] = field(default_factory=list)
    new_notes: list[bytes] = field(default_factory=list)
    new_nullifiers: list[bytes] = field(default_factory=list)
    messages: list[tuple[bytes, bytes, bytes]] = field(default_factory=list)
    logs: list[tuple[bytes, bytes]] = field(default_factory=list)
    writes: dict[bytes, bytes] = field(default_factory=dict)

    def log_fields(self) -> int:
        return sum(LOG_OWN_FIELDS + len(fields) // 32 for _, fields in self.logs)


class World:
    """A host.  ``events`` are all calls of the interpreter, in order."""

    def __init__(self, *, first_nullifier: bytes = as_field(420000), debug_reads_max: int = DEBUG_READS_MAX) -> None:
        self.contracts: dict[bytes, Contract] = {}
        self.effects = Effects(nullifiers={as_field(n) for n in range(GENESIS_NULLIFIERS)})
        self.l1_to_l2_messages: list[bytes] = []
        self.first_nullifier = first_nullifier
        self.debug_reads_max = debug_reads_max
        self.debug_reads = 0
        self.debug_logs: list[dict[str, Any]] = []
        self.classes_used: set[bytes] = set()
        self.events: list[tuple[Any, ...]] = []
        self.checkpoints: list[Effects] = []
        self.records: list[dict[str, Any]] = [{"nested": []}]
        self.recorded = 0

    # ---- calls ------------------------------------------------------------------------------------

    def enter(self, address: bytes, calldata: bytes) -> Any:
        self.events.append(("enter", address, calldata))
        self.checkpoints.append(copy.deepcopy(self.effects))
        if self.recorded < CALLS_RECORDED_MAX and len(self.records) <= DEPTH_RECORDED_MAX:
            self.recorded += 1
            self.records.append({"address": address, "calldata": calldata, "nested": []})
        contract = self.contracts.get(address)
        if contract is None:
            raise CallHalted(f"Contract {short_hex(address)} is not deployed")
        if contract.class_id not in self.classes_used:
            if len(self.classes_used) >= CLASSES_MAX:
                raise CallHalted(f"Can't retrieve more than {CLASSES_MAX} bytecodes per tx")
            self.classes_used.add(contract.class_id)
        return contract.program

    def leave(self, success: bool, output: bytes, pcs: array[int], message: str) -> None:
        self.events.append(("leave", success, output, tuple(pcs), message))
        checkpoint = self.checkpoints.pop()
        if not success:
            self.effects = checkpoint
        if len(self.records) > 1:
            record = self.records.pop()
            record.update(success=success, output=output, pcs=pcs, message=message)
            self.records[-1]["nested"].append(record)

    # ---- state ------------------------------------------------------------------------------------

    def read_storage(self, address: bytes, slot: bytes) -> bytes:
        self.events.append(("read_storage", address, slot))
        return self.effects.storage.get(leaf_slot(address, slot), bytes(32))

    def is_cold(self, address: bytes, slot: bytes) -> bool:
        self.events.append(("is_cold", address, slot))
        return leaf_slot(address, slot) not in self.effects.writes

    def write_storage(self, address: bytes, slot: bytes, value: bytes) -> None:
        self.events.append(("write_storage", address, slot, value))
        leaf = leaf_slot(address, slot)
        if leaf not in self.effects.writes and len(self.effects.writes) >= SLOTS_MAX:
            raise CallHalted("SSTORE: Maximum number of data writes reached")
        self.effects.storage[leaf] = self.effects.writes[leaf] = value

    def note_hash_exists(self, note_hash: bytes, index: int) -> bool:
        self.events.append(("note_hash_exists", note_hash, index))
        notes = self.effects.notes
        return note_hash == (notes[index] if index < len(notes) else bytes(32))

    def emit_note_hash(self, address: bytes, note_hash: bytes) -> None:
        self.events.append(("emit_note_hash", address, note_hash))
        index = len(self.effects.new_notes)
        if index >= NOTE_HASHES_MAX:
            raise CallHalted("EMITNOTEHASH: Maximum number of note hashes reached")
        siloed = separated(constants.SEPARATOR_SILOED_NOTE_HASH, address, note_hash)
        nonce = separated(constants.SEPARATOR_NOTE_HASH_NONCE, self.first_nullifier, as_field(index))
        unique = separated(constants.SEPARATOR_UNIQUE_NOTE_HASH, nonce, siloed)
        self.effects.new_notes.append(unique)
        self.effects.notes.append(unique)

    def nullifier_exists(self, siloed_nullifier: bytes) -> bool:
        self.events.append(("nullifier_exists", siloed_nullifier))
        return siloed_nullifier in self.effects.nullifiers

    def emit_nullifier(self, address: bytes, nullifier: bytes) -> None:
        self.events.append(("emit_nullifier", address, nullifier))
        if len(self.effects.new_nullifiers) >= NULLIFIERS_MAX:
            raise CallHalted("EMITNULLIFIER: Maximum number of nullifiers reached")
        siloed = silo_nullifier(address, nullifier)
        if siloed in self.effects.nullifiers:
            where = f"0x{nullifier.hex()} (contract address: 0x{address.hex()})."
            raise CallHalted(f"EMITNULLIFIER: Attempted to emit duplicate nullifier {where}")
        self.effects.new_nullifiers.append(siloed)
        self.effects.nullifiers.add(siloed)

    def l1_to_l2_message_exists(self, message_hash: bytes, index: int) -> bool:
        self.events.append(("l1_to_l2_message_exists", message_hash, index))
        messages = self.l1_to_l2_messages
        return message_hash == (messages[index] if index < len(messages) else bytes(32))

    def contract_instance_member(self, address: bytes, member: int) -> bytes | None:
        self.events.append(("contract_instance_member", address, member))
        contract = self.contracts.get(address)
        return contract and tuple(getattr(contract, name) for name in MEMBERS)[member]

    # ---- logs and messages ------------------------------------------------------------------------

    def has_room_for_public_log(self, size: int) -> bool:
        self.events.append(("has_room_for_public_log", size))
        return self.effects.log_fields() + LOG_OWN_FIELDS + size <= LOG_FIELDS_MAX

    def emit_public_log(self, address: bytes, fields: bytes) -> None:
        self.events.append(("emit_public_log", address, fields))
        self.effects.logs.append((address, fields))

    def send_l2_to_l1_message(self, address: bytes, recipient: bytes, content: bytes) -> None:
        self.events.append(("send_l2_to_l1_message", address, recipient, content))
        if len(self.effects.messages) >= MESSAGES_MAX:
            raise CallHalted("SENDL2TOL1MSG: Maximum number of L2 to L1 messages reached")
        self.effects.messages.append((address, recipient, content))

    def count_debug_log(self, cells: int) -> None:
        self.events.append(("count_debug_log", cells))
        self.debug_reads += cells
        if self.debug_reads > self.debug_reads_max:
            limit = f"{self.debug_reads} > {self.debug_reads_max}"
            raise TxExecutionError(f"Max debug log memory reads exceeded: {limit}")

    def debug_log(self, address: bytes, level: int, message: bytes, fields: bytes) -> None:
        self.events.append(("debug_log", address, level, message, fields))
        self.debug_logs.append(
            {
                "contractAddress": f"0x{address.hex()}",
                "level": DEBUG_LEVELS[level],
                "message": message.decode(errors="replace"),
                "fields": [f"0x{value.hex()}" for value in split(fields)],
            }
        )


# ---- vectors ------------------------------------------------------------------------------------------

#: Members of vectors that only the execution of whole transactions can give.
WHOLE_TRANSACTION = ("nr", "rv")
SIMULATION_PREFIX = "C++ simulation failed: AVM simulation failed: "


def vectors(name: str) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """(defaults, vector) of those that consist of calls of the app logic and need no protocol contracts."""
    document = json.loads(lzma.decompress((DATA / f"{name}.json.xz").read_bytes()))
    for vector in document["vectors"]:
        changes_tx = any(key in vector.get("tx", {}) for key in WHOLE_TRANSACTION)
        too_many = vector["expect"].get("error", "").startswith(f"{SIMULATION_PREFIX}Too many side effects")
        if not (changes_tx or too_many or vector.get("extra") or set(vector["calls"]) != {"app"}):
            yield document["defaults"], vector


def build_world(avm: ModuleType, defaults: dict[str, Any], vector: dict[str, Any]) -> World:
    first_nullifier = as_field(defaults["tx"]["first"])
    world = World(first_nullifier=first_nullifier)
    for contract in vector["contracts"]:
        if not contract.get("undeployed"):
            address = as_field(contract["address"])
            members = (as_field(contract[key]) for key in ("classId", "deployer", "initHash"))
            world.contracts[address] = Contract(*members, avm.Program(bytes.fromhex(contract["code"])))
            world.effects.nullifiers.add(silo_nullifier(as_field(2), address))
    state = vector.get("state", {})
    world.effects.storage.update((as_field(slot), as_field(value)) for slot, value in state.get("leaves", []))
    world.effects.nullifiers.update(map(as_field, state.get("nullifiers", [])))
    world.effects.notes.extend(map(as_field, state.get("notes", [])))
    world.l1_to_l2_messages.extend(map(as_field, state.get("messages", [])))
    world.effects.nullifiers.add(first_nullifier)
    world.effects.new_nullifiers.append(first_nullifier)
    return world


def build_machine(
    avm: ModuleType, world: World, defaults: dict[str, Any], vector: dict[str, Any], **options: Any
) -> Any:
    known = defaults["globals"] | vector.get("globals", {})
    return avm.Machine(
        world,
        chain_id=as_field(known["chainId"]),
        version=as_field(known["version"]),
        block_number=known["blockNumber"],
        timestamp=known["timestamp"],
        fee_per_l2_gas=known["feePerL2Gas"],
        fee_per_da_gas=known["feePerDaGas"],
        collect_debug_logs=vector.get("collectDebugLogs", True),
        **options,
    )


def run_vector(avm: ModuleType, defaults: dict[str, Any], vector: dict[str, Any]) -> dict[str, Any]:
    """Expectation of the vector, as far as the interpreter answers for it."""
    world = build_world(avm, defaults, vector)
    before = copy.deepcopy(world.effects)
    machine = build_machine(avm, world, defaults, vector)
    tx = defaults["tx"] | vector.get("tx", {})
    (da_limit, l2_limit), (da_used, l2_used) = tx["gasLimits"], tx["gasUsed"]
    da_left, l2_left = da_limit - da_used, l2_limit - l2_used
    success = True
    for call in vector["calls"]["app"]:
        try:
            outcome = machine.execute(
                as_field(call["address"]),
                as_field(call["sender"]),
                b"".join(map(as_field, call["calldata"])),
                is_static=call["static"],
                transaction_fee=bytes(32),
                l2_gas=l2_left,
                da_gas=da_left,
                l2_gas_limit=l2_limit,
                da_gas_limit=da_limit,
            )
        except TxExecutionError as error:
            return {"error": SIMULATION_PREFIX + str(error)}
        l2_left, da_left = outcome.l2_gas_left, outcome.da_gas_left
        success = outcome.success
        if not success:
            world.effects = before
            break
    assert not world.checkpoints
    records = world.records[0]["nested"]
    return {
        "revertCode": int(not success),
        "totalGas": {"daGas": da_limit - da_left, "l2Gas": l2_limit - l2_left},
        **shown_effects(world.effects),
        "returns": [list(map(short_hex, split(record["output"]))) for record in records],
        "debugLogs": world.debug_logs,
        "revertReason": revert_reason(records) if not success else None,
    }


def shown_effects(effects: Effects) -> dict[str, Any]:
    return {
        "notes": list(map(short_hex, effects.new_notes)),
        "nullifiers": list(map(short_hex, effects.new_nullifiers)),
        "messages": [list(map(short_hex, message)) for message in effects.messages],
        "logs": [[short_hex(address), list(map(short_hex, split(fields)))] for address, fields in effects.logs],
        "writes": {short_hex(slot): short_hex(value) for slot, value in effects.writes.items()},
    }


def revert_reason(records: list[dict[str, Any]]) -> dict[str, Any] | None:
    path = []
    while failed := [record for record in records if not record["success"]]:
        path.append(failed[0] if not path else failed[-1])
        records = path[-1]["nested"]
    if not path:
        return None
    stack = []
    for record in path:
        entry = {"contractAddress": f"0x{record['address'].hex()}"}
        if record["calldata"] and not any(record["calldata"][:28]):
            entry["functionSelector"] = f"0x{record['calldata'][28:32].hex()}"
        stack.append(entry)
    return {
        "originalMessage": path[-1]["message"],
        "functionErrorStack": stack,
        "noirErrorStack": [f"0.{pc}" for pc in path[-1]["pcs"]],
        "revertData": [f"0x{value.hex()}" for value in split(path[-1]["output"])],
    }


def expected(defaults: dict[str, Any], vector: dict[str, Any]) -> dict[str, Any]:
    """The vector's own words in the shape of :func:`run_vector`."""
    expect = vector["expect"]
    if "error" in expect:
        return {"error": expect["error"]}
    payer = balance_leaf_slot(as_field(defaults["tx"]["feePayer"]))
    writes = {slot: value for slot, value in expect["writes"] if slot != short_hex(payer)}
    same = ("revertCode", "notes", "nullifiers", "messages", "logs", "returns", "debugLogs", "revertReason")
    return {key: expect[key] for key in same} | {"totalGas": expect["gas"]["totalGas"], "writes": writes}
