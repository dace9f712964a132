"""Instructions of the public virtual machine that touch the world: storage, hashes, messages, logs.

The order of checks is that of ``avm_opcodes``: tags that are checked first, gas, everything else.
"""

from __future__ import annotations

from typing import Final

from fastnode._twins.avm_call import Call, read_field, to_bytes
from fastnode._twins.avm_handlers import named
from fastnode._twins.avm_instructions import FF, TAG_NAMES, U1, U8, U32, U64, U128
from fastnode._twins.avm_memory import MEMORY_CELLS
from fastnode.errors import CallHalted, TxExecutionError

# ---- world state --------------------------------------------------------------------------------------

_STORAGE_COLD_DA_GAS: Final = 64
_NOTE_HASH_LEAVES: Final = 1 << 42
_MESSAGE_LEAVES: Final = 1 << 36


@named("SLOAD")
def _sload(call: Call, slot_at: int, address_at: int, dst: int) -> None:
    slot, address = call.take(slot_at, FF, 0), call.take(address_at, FF, 1)
    call.pay()
    value = call.machine.host.read_storage(to_bytes(address), to_bytes(slot))
    call.write_field(dst, read_field(value, "storage"))


@named("SSTORE")
def _sstore(call: Call, value_at: int, slot_at: int) -> None:
    value, slot = to_bytes(call.take(value_at, FF, 0)), to_bytes(call.take(slot_at, FF, 1))
    host, address = call.machine.host, to_bytes(call.address)
    call.pay(more_da=_STORAGE_COLD_DA_GAS if host.is_cold(address, slot) else 0)
    _refuse_static(call, "SSTORE: Static call cannot update the state. Cannot write to storage in static context")
    host.write_storage(address, slot, value)


@named("NOTEHASHEXISTS")
def _notehashexists(call: Call, hash_at: int, index_at: int, dst: int) -> None:
    note_hash, index = call.take(hash_at, FF, 0), call.take(index_at, U64, 1)
    call.pay()
    exists = index < _NOTE_HASH_LEAVES and call.machine.host.note_hash_exists(to_bytes(note_hash), index)
    call.write(dst, U1, int(exists))


@named("L1TOL2MSGEXISTS")
def _l1tol2msgexists(call: Call, hash_at: int, index_at: int, dst: int) -> None:
    message, index = call.take(hash_at, FF, 0), call.take(index_at, U64, 1)
    call.pay()
    exists = index < _MESSAGE_LEAVES and call.machine.host.l1_to_l2_message_exists(to_bytes(message), index)
    call.write(dst, U1, int(exists))


@named("NULLIFIEREXISTS")
def _nullifierexists(call: Call, nullifier_at: int, dst: int) -> None:
    nullifier = call.take(nullifier_at, FF, 0)
    call.pay()
    call.write(dst, U1, int(call.machine.host.nullifier_exists(to_bytes(nullifier))))


# ---- side effects -------------------------------------------------------------------------------------

_LOG_L2_GAS_PER_FIELD: Final = 3
_LOG_DA_GAS_PER_FIELD: Final = 32
_ETH_ADDRESSES: Final = 1 << 160


def _refuse_static(call: Call, text: str) -> None:
    if call.is_static:
        raise CallHalted(text)


@named("EMITNOTEHASH")
def _emitnotehash(call: Call, hash_at: int) -> None:
    note_hash = call.take(hash_at, FF, 0)
    call.pay()
    _refuse_static(call, "EMITNOTEHASH: Static call cannot update the state. Cannot emit note hash in static context")
    call.machine.host.emit_note_hash(to_bytes(call.address), to_bytes(note_hash))


@named("EMITNULLIFIER")
def _emitnullifier(call: Call, nullifier_at: int) -> None:
    nullifier = call.take(nullifier_at, FF, 0)
    call.pay()
    _refuse_static(call, "EMITNULLIFIER: Static call cannot update the state. Cannot emit nullifier in static context")
    call.machine.host.emit_nullifier(to_bytes(call.address), to_bytes(nullifier))


@named("SENDL2TOL1MSG")
def _sendl2tol1msg(call: Call, recipient_at: int, content_at: int) -> None:
    recipient, content = call.take(recipient_at, FF, 0), call.take(content_at, FF, 1)
    call.pay()
    if recipient >= _ETH_ADDRESSES:
        raise CallHalted("SENDL2TOL1MSG: Recipient address is too large")
    _refuse_static(
        call, "SENDL2TOL1MSG: Static call cannot update the state. Cannot send L2 to L1 message in static context"
    )
    call.machine.host.send_l2_to_l1_message(to_bytes(call.address), to_bytes(recipient), to_bytes(content))


@named("EMITPUBLICLOG")
def _emitpubliclog(call: Call, size_at: int, start: int) -> None:
    size = call.take(size_at, U32, 0)
    call.pay(_LOG_L2_GAS_PER_FIELD * size, _LOG_DA_GAS_PER_FIELD * size)
    prefix = "EmitPublicLog Exception: Error in EmitPublicLog: "
    if start + size > MEMORY_CELLS:
        raise CallHalted(f"{prefix}Memory out of bounds")
    if not call.machine.host.has_room_for_public_log(size):
        raise CallHalted(f"{prefix}Too many logs")
    cells = call.memory.read_range(start, size)
    if any(cell.tag != FF for cell in cells):
        raise CallHalted(f"{prefix}Tag mismatch")
    _refuse_static(call, f"{prefix}Static call cannot update the state.")
    call.machine.host.emit_public_log(to_bytes(call.address), b"".join(to_bytes(cell.value) for cell in cells))


# ---- debug logs ---------------------------------------------------------------------------------------

_DEBUG_LEVEL_MAX: Final = 7
#: Level and number of fields are read too.
_DEBUG_LOG_OWN_CELLS: Final = 2


@named("DEBUGLOG")
def _debuglog(call: Call, level_at: int, message_at: int, fields_at: int, count_at: int, message_size: int) -> None:
    call.pay()
    machine = call.machine
    if not machine.collect_debug_logs:
        return
    level = _plain_value(call, level_at, U8)
    count = _plain_value(call, count_at, U32)
    machine.host.count_debug_log(_DEBUG_LOG_OWN_CELLS + message_size + count)
    if level > _DEBUG_LEVEL_MAX:
        raise TxExecutionError(f"Invalid debug log level: {level}")
    message = bytes(value & 0xFF for value in _wrapped_values(call, message_at, message_size))
    fields = b"".join(to_bytes(value) for value in _wrapped_values(call, fields_at, count))
    machine.host.debug_log(to_bytes(call.address), level, message, fields)


def _plain_value(call: Call, address: int, tag: int) -> int:
    """A wrong tag here is a fault of the whole transaction."""
    cell = call.read(address)
    if cell.tag != tag:
        value = hex(cell.value) if cell.tag in (FF, U128) else cell.value
        got = f"{TAG_NAMES[cell.tag]}({value})"
        raise TxExecutionError(f"CastException: TaggedValue::as(): type mismatch. Wanted type {tag} but got {got}")
    return cell.value


def _wrapped_values(call: Call, start: int, count: int) -> list[int]:
    return [call.read((start + offset) % MEMORY_CELLS).value for offset in range(count)]
