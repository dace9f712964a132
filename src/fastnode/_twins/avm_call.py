"""One running call of the public virtual machine: its registers, addressing, gas and tag checks."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from fastnode._twins.avm_instructions import FF, MODULUS, TAG_NAMES, U32, Instruction
from fastnode._twins.avm_memory import MEMORY_CELLS, NO_DATA, Cell, Data, Memory, PageAccount
from fastnode.errors import CallHalted

if TYPE_CHECKING:
    from fastnode._twins.avm import Machine, Program
    from fastnode._twins.avm_watch import CallWatch

_NO_INSTRUCTION: Final = Instruction("", (), (), (), (), 0, 0, 0)

FIELD_BYTES: Final = 32
#: So many internal calls count one page.
INTERNAL_CALLS_PER_PAGE: Final = 16


def to_bytes(value: int) -> bytes:
    return value.to_bytes(FIELD_BYTES, "big")


def read_fields(data: bytes, name: str) -> list[int]:
    if not isinstance(data, bytes):
        raise TypeError(f"{name} must be bytes, not {type(data).__name__}")
    if len(data) % FIELD_BYTES:
        raise ValueError(f"{name} must be a multiple of {FIELD_BYTES} bytes long, not {len(data)}")
    values = [int.from_bytes(data[start : start + FIELD_BYTES], "big") for start in range(0, len(data), FIELD_BYTES)]
    for index, value in enumerate(values):
        if value >= MODULUS:
            raise ValueError(f"element {index} of {name} is not below the field modulus")
    return values


def read_field(data: bytes, name: str) -> int:
    values = read_fields(data, name)
    if len(values) != 1:
        raise ValueError(f"{name} must be {FIELD_BYTES} bytes long, not {len(data)}")
    return values[0]


class InternalCall(NamedTuple):
    pc: int
    return_pc: int


class End(NamedTuple):
    """Request of RETURN and REVERT."""

    success: bool
    output: Data


class NestedCall(NamedTuple):
    """Request of CALL and STATICCALL."""

    address: int
    is_static: bool
    calldata: Data
    l2_gas: int
    da_gas: int


@dataclass(slots=True)
class Call:
    """``calldata`` and ``returned`` (of the last nested call) are read when they are copied, not before."""

    machine: Machine
    address: int
    sender: int
    is_static: bool
    calldata: Data
    l2_gas: int
    da_gas: int
    #: Only for the text about running out of gas.
    l2_gas_limit: int
    da_gas_limit: int
    program: Program
    memory: Memory
    account: PageAccount
    pc: int = 0
    internal_calls: list[InternalCall] = field(default_factory=list)
    internal_pages: int = 0
    nested_succeeded: bool = False
    returned: Data = NO_DATA
    #: Owner that keeps ``returned`` readable.
    returned_memory: Memory | None = None
    # The instruction that is being executed:
    instruction: Instruction = _NO_INSTRUCTION
    next_pc: int = 0
    watch: CallWatch | None = None

    # ---- addressing -------------------------------------------------------------------------------

    def resolve(self) -> list[int]:
        """The addresses that the operands of the current instruction mean.

        The base is looked at when the first relative operand is reached: one before it may fail first.
        """
        instruction = self.instruction
        resolved = []
        for operand, relative, indirect in zip(
            instruction.addresses, instruction.relative, instruction.indirect, strict=True
        ):
            address = operand
            if relative:
                base = self._base()
                address += base
                if address >= MEMORY_CELLS:
                    where = f"Base address {base}, relative offset {operand}"
                    raise CallHalted(f"Addressing error: Relative address out of range. {where}")
            resolved.append(self._follow(address) if indirect else address)
        return resolved

    def _base(self) -> int:
        cell = self.memory.read(0)
        if cell.tag != U32:
            name = TAG_NAMES[cell.tag]
            raise CallHalted(f"Addressing error: Base address (mem[0]) is not a valid address (has tag {name})")
        return cell.value

    def _follow(self, address: int) -> int:
        cell = self.memory.read(address)
        if cell.tag != U32:
            where = f"(address U32({address})) has tag {TAG_NAMES[cell.tag]})"
            raise CallHalted(f"Addressing error: Address after indirection is not a valid address {where}")
        return cell.value

    # ---- checks -----------------------------------------------------------------------------------

    def take(self, address: int, tag: int, index: int) -> int:
        """The value of the ``index``-th input, which must have this tag."""
        cell = self.memory.read(address)
        if cell.tag != tag:
            names = TAG_NAMES[cell.tag], TAG_NAMES[tag]
            raise CallHalted("Input {} tag {} does not match expected tag {}".format(index, *names))
        return cell.value

    def read(self, address: int) -> Cell:
        return self.memory.read(address)

    def write(self, address: int, tag: int, value: int) -> None:
        self.memory.write(address, tag, value)

    def write_field(self, address: int, value: int) -> None:
        self.memory.write(address, FF, value)

    # ---- gas --------------------------------------------------------------------------------------

    def pay(self, more_l2: int = 0, more_da: int = 0) -> None:
        """For the current instruction, with what it costs beyond its fixed price."""
        l2 = self.instruction.l2_gas + more_l2
        da = self.instruction.da_gas + more_da
        if self.l2_gas < l2 or self.da_gas < da:
            l2_used = self.l2_gas_limit - self.l2_gas + l2
            da_used = self.da_gas_limit - self.da_gas + da
            raise CallHalted(
                f"Out of gas: total L2 used {l2_used} of {self.l2_gas_limit}, "
                f"total DA used {da_used} of {self.da_gas_limit}"
            )
        self.l2_gas -= l2
        self.da_gas -= da

    # ---- internal calls and nested calls ----------------------------------------------------------

    def push_internal_call(self, target: int) -> None:
        if len(self.internal_calls) == self.internal_pages * INTERNAL_CALLS_PER_PAGE:
            self.account.take(1)
            self.internal_pages += 1
        self.internal_calls.append(InternalCall(self.pc, self.next_pc))
        self.next_pc = target

    def forget_returned(self) -> None:
        """The last nested call: success, and returned data."""
        self.nested_succeeded = False
        self.returned = NO_DATA
        if self.returned_memory is not None:
            self.returned_memory.release()
            self.returned_memory = None

    def open_pcs(self) -> array[int]:
        return array("I", (*(internal.pc for internal in self.internal_calls), self.pc))

    def release(self) -> None:
        """Everything but the memory, which may be kept by the caller."""
        self.forget_returned()
        self.account.give_back(self.internal_pages)
