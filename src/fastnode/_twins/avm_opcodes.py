"""Instructions of the public virtual machine; those about the world are in ``avm_world_opcodes``.

A handler gets the running call, its resolved addresses and its immediates.  Everywhere the order is: tags that
are checked first, gas, everything else; nothing is written before a failure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from fastnode._twins import (
    avm_world_opcodes,  # noqa: F401 - its handlers are among HANDLERS once it is imported
    poseidon2,
)
from fastnode._twins.avm_call import Call, End, NestedCall, read_field, to_bytes
from fastnode._twins.avm_gadgets import (
    DIGIT_COUNTS,
    KECCAK_LANES,
    SHA_BLOCK,
    SHA_STATE,
    add_points,
    digits,
    is_on_curve,
    keccak_f1600,
    sha256_compression,
)
from fastnode._twins.avm_handlers import HANDLERS, Action, named
from fastnode._twins.avm_instructions import FF, MODULUS, TAG_BITS, TAG_NAMES, U1, U8, U16, U32, U64, U128
from fastnode._twins.avm_memory import MEMORY_CELLS, Cell, Data, MemoryData
from fastnode.errors import CallHalted

_NO_BITWISE_FIELDS: Final = "InvalidOperationTag: Bitwise operations not valid for FF"


def _cut(tag: int, value: int) -> int:
    """An integer keeps its low bits; a field element is taken modulo p."""
    return value % MODULUS if tag == FF else value & (1 << TAG_BITS[tag]) - 1


def _mismatch(a: Cell, b: Cell) -> str:
    tags = f"{TAG_NAMES[a.tag]} and {TAG_NAMES[b.tag]}"
    return f"Mismatched tags: Cannot perform operation between different types: {tags}"


# ---- arithmetic ---------------------------------------------------------------------------------------


def _arithmetic(name: str, compute: Callable[[int, int], int], *, says_why: bool) -> None:
    def handler(call: Call, a: int, b: int, dst: int) -> None:
        left, right = call.read(a), call.read(b)
        call.pay()
        if left.tag != right.tag:
            reason = f": ALU Exception: {name}, {_mismatch(left, right)}" if says_why else ""
            raise CallHalted(f"Alu {name.lower()} operation failed{reason}")
        call.write(dst, left.tag, _cut(left.tag, compute(left.value, right.value)))

    HANDLERS[name] = handler


_arithmetic("ADD", lambda a, b: a + b, says_why=True)
_arithmetic("SUB", lambda a, b: a - b, says_why=False)
_arithmetic("MUL", lambda a, b: a * b, says_why=True)


@named("DIV")
def _div(call: Call, a: int, b: int, dst: int) -> None:
    left, right = call.read(a), call.read(b)
    call.pay()
    prefix = "Alu div operation failed: ALU Exception: DIV, "
    if left.tag == FF:
        raise CallHalted(f"{prefix}Mismatched tags: Cannot perform integer division on a field element")
    if left.tag != right.tag:
        raise CallHalted(prefix + _mismatch(left, right))
    if not right.value:
        raise CallHalted(f"{prefix}Division by zero: Dividing numeric value by zero")
    call.write(dst, left.tag, left.value // right.value)


@named("FDIV")
def _fdiv(call: Call, a: int, b: int, dst: int) -> None:
    dividend, divisor = call.take(a, FF, 0), call.take(b, FF, 1)
    call.pay()
    if not divisor:
        reason = "Division by zero: Dividing numeric value by zero"
        raise CallHalted(f"Alu fdiv operation failed: ALU Exception: FDIV, {reason}")
    call.write_field(dst, dividend * pow(divisor, -1, MODULUS) % MODULUS)


def _comparison(name: str, compare: Callable[[int, int], bool]) -> None:
    def handler(call: Call, a: int, b: int, dst: int) -> None:
        left, right = call.read(a), call.read(b)
        call.pay()
        if left.tag != right.tag:
            reason = f"ALU Exception: {name}, Tag mismatch between operands."
            raise CallHalted(f"Alu {name.lower()} operation failed: {reason}")
        call.write(dst, U1, int(compare(left.value, right.value)))

    HANDLERS[name] = handler


_comparison("EQ", lambda a, b: a == b)
_comparison("LT", lambda a, b: a < b)
_comparison("LTE", lambda a, b: a <= b)

# ---- bits ---------------------------------------------------------------------------------------------

_TAG_BYTES: Final = {FF: 0, U1: 1, U8: 1, U16: 2, U32: 4, U64: 8, U128: 16}


def _bitwise(name: str, compute: Callable[[int, int], int], *, exception: str) -> None:
    def handler(call: Call, a: int, b: int, dst: int, gas_per_byte: int) -> None:
        left, right = call.read(a), call.read(b)
        call.pay(gas_per_byte * _TAG_BYTES[left.tag])
        if left.tag != right.tag or left.tag == FF:
            reason = _mismatch(left, right) if left.tag != right.tag else _NO_BITWISE_FIELDS
            raise CallHalted(f"Bitwise {name} {exception}: Bitwise Exception: {name}, {reason}")
        call.write(dst, left.tag, compute(left.value, right.value))

    HANDLERS[name] = handler


_bitwise("AND", lambda a, b: a & b, exception="Exeception")
_bitwise("OR", lambda a, b: a | b, exception="Exception")
_bitwise("XOR", lambda a, b: a ^ b, exception="Exception")


def _shift(name: str, compute: Callable[[int, int], int]) -> None:
    def handler(call: Call, a: int, b: int, dst: int) -> None:
        left, right = call.read(a), call.read(b)
        call.pay()
        if left.tag != right.tag or left.tag == FF:
            reason = _mismatch(left, right) if left.tag != right.tag else _NO_BITWISE_FIELDS
            raise CallHalted(f"{name} Exception: ALU Exception: {name}, {reason}")
        shifted = compute(left.value, right.value) if right.value < TAG_BITS[left.tag] else 0
        call.write(dst, left.tag, _cut(left.tag, shifted))

    HANDLERS[name] = handler


_shift("SHL", lambda value, count: value << count)
_shift("SHR", lambda value, count: value >> count)


@named("NOT")
def _not(call: Call, src: int, dst: int) -> None:
    cell = call.read(src)
    call.pay()
    if cell.tag == FF:
        reason = "InvalidOperationTag: Can't do unary bitwise operations on an FF"
        raise CallHalted(f"Alu not operation failed: ALU Exception: NOT, {reason}")
    call.write(dst, cell.tag, _cut(cell.tag, ~cell.value))


# ---- moving values ------------------------------------------------------------------------------------


@named("CAST")
def _cast(call: Call, src: int, dst: int, tag: int) -> None:
    value = call.read(src).value
    call.pay()
    call.write(dst, tag, _cut(tag, value))


@named("SET")
def _set(call: Call, dst: int, tag: int, value: int) -> None:
    call.pay()
    call.write(dst, tag, _cut(tag, value))


@named("MOV")
def _mov(call: Call, src: int, dst: int) -> None:
    cell = call.read(src)
    call.pay()
    call.write(dst, cell.tag, cell.value)


# ---- control ------------------------------------------------------------------------------------------


@named("JUMP")
def _jump(call: Call, target: int) -> None:
    call.pay()
    call.next_pc = target


@named("JUMPI")
def _jumpi(call: Call, condition: int, target: int) -> None:
    is_met = call.take(condition, U1, 0)
    call.pay()
    if is_met:
        call.next_pc = target


@named("INTERNALCALL")
def _internal_call(call: Call, target: int) -> None:
    call.pay()
    call.push_internal_call(target)


@named("INTERNALRETURN")
def _internal_return(call: Call) -> None:
    call.pay()
    if not call.internal_calls:
        raise CallHalted("Internal return failed: Internal call stack is empty. Cannot pop.")
    call.next_pc = call.internal_calls.pop().return_pc


def _ending(name: str, *, success: bool) -> None:
    def handler(call: Call, size_at: int, start: int) -> End:
        size = call.take(size_at, U32, 0)
        call.pay()
        return End(success, MemoryData(call.memory, start, size))

    HANDLERS[name] = handler


_ending("RETURN", success=True)
_ending("REVERT", success=False)


def _calling(name: str, *, is_static: bool) -> None:
    def handler(call: Call, l2_at: int, da_at: int, address_at: int, size_at: int, start: int) -> NestedCall:
        l2_gas, da_gas = call.take(l2_at, U32, 0), call.take(da_at, U32, 1)
        address, size = call.take(address_at, FF, 2), call.take(size_at, U32, 3)
        call.pay()
        return NestedCall(
            address,
            call.is_static or is_static,
            MemoryData(call.memory, start, size),
            min(l2_gas, call.l2_gas),
            min(da_gas, call.da_gas),
        )

    HANDLERS[name] = handler


_calling("CALL", is_static=False)
_calling("STATICCALL", is_static=True)

# ---- surroundings -------------------------------------------------------------------------------------


@named("GETENVVAR")
def _getenvvar(call: Call, dst: int, variable: int) -> None:
    call.pay()
    machine = call.machine
    variables = (
        (FF, call.address),
        (FF, call.sender),
        (FF, machine.transaction_fee),
        (FF, machine.chain_id),
        (FF, machine.version),
        (U32, machine.block_number),
        (U64, machine.timestamp),
        (U128, machine.fee_per_l2_gas),
        (U128, machine.fee_per_da_gas),
        (U1, int(call.is_static)),
        (U32, call.l2_gas),
        (U32, call.da_gas),
    )
    if variable >= len(variables):
        raise CallHalted("Invalid environment variable enum value")
    call.write(dst, *variables[variable])


def _copying(name: str, prefix: str, source: Callable[[Call], Data]) -> None:
    def handler(call: Call, size_at: int, start_at: int, dst: int, gas_per_field: int) -> None:
        size, start = call.take(size_at, U32, 0), call.take(start_at, U32, 1)
        call.pay(gas_per_field * size)
        data = source(call)
        end = min(start + size, data.size)
        read_end, write_end = data.start + end, dst + size
        if not call.program.rules.bounds_reads:
            if write_end > MEMORY_CELLS:
                bounds = f"write_addr_upper_bound = {write_end}"
                raise CallHalted(f"{prefix} copy failed: Attempting to write out of bounds memory: {bounds}")
            read_end = min(read_end, MEMORY_CELLS)  # zeros are behind the end
            end = read_end - data.start
        if max(read_end, write_end) > MEMORY_CELLS:
            bounds = f"read_addr_upper_bound = {read_end} write_addr_upper_bound = {write_end}"
            raise CallHalted(f"{prefix} copy failed: Attempting to access out of bounds memory: {bounds}")
        for offset in range(size):
            index = start + offset
            call.write_field(dst + offset, data.value(index) if index < end else 0)

    HANDLERS[name] = handler


_copying("CALLDATACOPY", "cd", lambda call: call.calldata)
_copying("RETURNDATACOPY", "rd", lambda call: call.returned)


@named("SUCCESSCOPY")
def _successcopy(call: Call, dst: int) -> None:
    call.pay()
    call.write(dst, U1, int(call.nested_succeeded))


@named("RETURNDATASIZE")
def _returndatasize(call: Call, dst: int) -> None:
    call.pay()
    call.write(dst, U32, call.returned.size)


@named("GETCONTRACTINSTANCE")
def _getcontractinstance(call: Call, address_at: int, dst: int, member: int) -> None:
    address = call.take(address_at, FF, 0)
    call.pay()
    prefix = "GetContractInstance Exception: Error in GetContractInstance: "
    if dst + 1 >= MEMORY_CELLS:
        raise CallHalted(f"{prefix}Write dst out of range: 0x{dst:08x}")
    if member >= call.program.rules.members:
        raise CallHalted(f"{prefix}Invalid member enum: {member}")
    value = call.machine.host.contract_instance_member(to_bytes(address), member)
    call.write(dst, U1, int(value is not None))
    call.write_field(dst + 1, 0 if value is None else read_field(value, "instance"))


# ---- gadgets ------------------------------------------------------------------------------------------

_POSEIDON2_WIDTH: Final = 4
_POINT_CELLS: Final = 3
_RADIX_MAX: Final = 256
_LIMB_GAS: Final = 3
#: Charge for a radix that cannot be.
_LIMBS_OF_HUGE_RADIX: Final = 32


def _leaves_memory(start: int, size: int) -> bool:
    return start + size > MEMORY_CELLS


def _write_all(call: Call, start: int, tag: int, values: list[int]) -> None:
    for offset, value in enumerate(values):
        call.write(start + offset, tag, value)


@named("POSEIDON2")
def _poseidon2(call: Call, src: int, dst: int) -> None:
    call.pay()
    prefix = "Poseidon2 permutation failed: Poseidon2Exception: "
    if _leaves_memory(src, _POSEIDON2_WIDTH):
        raise CallHalted(f"{prefix}Read address out of range")
    if _leaves_memory(dst, _POSEIDON2_WIDTH):
        raise CallHalted(f"{prefix}Write address out of range")
    cells = call.memory.read_range(src, _POSEIDON2_WIDTH)
    if any(cell.tag != FF for cell in cells):
        raise CallHalted(f"{prefix}An input tag is not FF")
    permuted = poseidon2.permute(b"".join(to_bytes(cell.value) for cell in cells))
    lanes = [int.from_bytes(permuted[at : at + 32], "big") for at in range(0, len(permuted), 32)]
    _write_all(call, dst, FF, lanes)


@named("SHA256COMPRESSION")
def _sha256compression(call: Call, dst: int, state_at: int, block_at: int) -> None:
    call.pay()
    prefix = "Sha256 Compression failed: Sha256CompressionException: "
    ranges = ((dst, SHA_STATE), (state_at, SHA_STATE), (block_at, SHA_BLOCK))
    if any(_leaves_memory(*span) for span in ranges):
        raise CallHalted(f"{prefix}Memory address out of range for sha256 compression.")
    state, block = call.memory.read_range(state_at, SHA_STATE), call.memory.read_range(block_at, SHA_BLOCK)
    for name, cells in (("state", state), ("input", block)):
        if any(cell.tag != U32 for cell in cells):
            raise CallHalted(f"{prefix}Invalid tag for sha256 {name} values.")
    words = sha256_compression([cell.value for cell in state], [cell.value for cell in block])
    _write_all(call, dst, U32, words)


@named("KECCAKF1600")
def _keccakf1600(call: Call, dst: int, src: int) -> None:
    call.pay()
    prefix = "Keccak permutation failed: Error in KeccakF1600 permutation: "
    if _leaves_memory(src, KECCAK_LANES):
        raise CallHalted(f"{prefix}Read slice out of range: {src}")
    if _leaves_memory(dst, KECCAK_LANES):
        raise CallHalted(f"{prefix}Write slice out of range: {dst}")
    cells = call.memory.read_range(src, KECCAK_LANES)
    for address, cell in enumerate(cells, src):
        if cell.tag != U64:
            raise CallHalted(f"{prefix}Read slice tag invalid - addr: {address} tag: {cell.tag}")
    _write_all(call, dst, U64, keccak_f1600([cell.value for cell in cells]))


@named("ECADD")
def _ecadd(call: Call, *addresses: int) -> None:
    """Points have three cells, or two: then (0, 0) is infinity."""
    cells, dst = len(addresses) // 2, addresses[-1]
    left = _take_point(call, addresses[:cells], 0)
    right = _take_point(call, addresses[cells : 2 * cells], cells)
    call.pay()
    prefix = "Embedded curve add failed: EccException: Add failed: "
    if _leaves_memory(dst, cells):
        raise CallHalted(f"{prefix}dst address out of range")
    if not (is_on_curve(left) and is_on_curve(right)):
        raise CallHalted(f"{prefix}One of the points is not on the curve")
    for offset, (tag, value) in enumerate(zip((FF, FF, U1)[:cells], add_points(left, right)[:cells], strict=True)):
        call.write(dst + offset, tag, value)


def _take_point(call: Call, addresses: Sequence[int], first: int) -> tuple[int, int, int]:
    x, y = call.take(addresses[0], FF, first), call.take(addresses[1], FF, first + 1)
    if len(addresses) < _POINT_CELLS:
        return x, y, int(x == y == 0)
    return x, y, call.take(addresses[2], U1, first + 2)


@named("TORADIXBE")
def _toradixbe(call: Call, value_at: int, radix_at: int, limbs_at: int, bits_at: int, dst: int) -> None:
    value, radix = call.take(value_at, FF, 0), call.take(radix_at, U32, 1)
    limbs, as_bits = call.take(limbs_at, U32, 2), call.take(bits_at, U1, 3)
    least = DIGIT_COUNTS[radix] if radix <= _RADIX_MAX else _LIMBS_OF_HUGE_RADIX
    call.pay(_LIMB_GAS * max(limbs, least))
    prefix = "ToRadixBe gadget failed: ToRadix Exception: "
    fits = not _leaves_memory(dst, limbs) and (limbs or not value) and (radix == 2 or not as_bits)
    if not fits or not 2 <= radix <= _RADIX_MAX:
        raise CallHalted(f"{prefix}Invalid parameters for ToRadix")
    result = digits(value, radix, limbs)
    if result is None:
        raise CallHalted(f"{prefix}Truncation error")
    _write_all(call, dst, U1 if as_bits else U8, result)


def run(call: Call, addresses: list[int], immediates: tuple[Any, ...]) -> Action:
    """Execute the call's current instruction."""
    return HANDLERS[call.instruction.name](call, *addresses, *immediates)
