"""The instruction set of the public virtual machine: how instructions are laid out, decoded and charged.

An instruction is one opcode byte, then its operands, big-endian and without gaps:

    opcode 1 | addressing mode 0, 1 or 2 | address operands, all of 1 or all of 2 bytes | immediates

The addressing mode is there when there are address operands.  Bit 2i of it makes operand i indirect, bit 2i + 1
relative.  A tag among the immediates is checked when the instruction is fetched.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from fastnode._twins.poseidon2_constants import MODULUS
from fastnode.errors import CallHalted

__all__ = [
    "FF",
    "LAYOUTS",
    "MODULUS",
    "TAG_BITS",
    "TAG_NAMES",
    "U1",
    "U8",
    "U16",
    "U32",
    "U64",
    "U128",
    "Instruction",
    "Rules",
    "decode",
]

# ---- tags ---------------------------------------------------------------------------------------------

FF, U1, U8, U16, U32, U64, U128 = range(7)
TAG_NAMES: Final = ("FIELD", "U1", "U8", "U16", "U32", "U64", "U128")
#: Width of the integer tags; a field element is not cut.
TAG_BITS: Final = {U1: 1, U8: 8, U16: 16, U32: 32, U64: 64, U128: 128}

# ---- layouts ------------------------------------------------------------------------------------------


class Layout(NamedTuple):
    """``immediates`` are widths in bytes; ``tag`` is the place of the tag among them."""

    name: str
    address_count: int
    address_width: int
    immediates: tuple[int, ...]
    tag: int | None
    mode_width: int
    l2_gas: int
    da_gas: int

    @property
    def size(self) -> int:
        return 1 + self.mode_width + self.address_count * self.address_width + sum(self.immediates)


class Instruction(NamedTuple):
    """``relative`` and ``indirect`` have one flag for each address operand; gas includes that of addressing."""

    name: str
    addresses: tuple[int, ...]
    immediates: tuple[int, ...]
    relative: tuple[bool, ...]
    indirect: tuple[bool, ...]
    l2_gas: int
    da_gas: int
    size: int


class Rules(NamedTuple):
    """Differences between releases: L2 gas for each field that CALLDATACOPY or RETURNDATACOPY copies, L2 gas of ECADD,
    L2 gas of AND, OR and XOR for each byte of their operands, members of an instance that GETCONTRACTINSTANCE knows,
    whether points of ECADD have flags that say that they are infinity (without, (0, 0) is infinity), and whether copies
    halt where they read beyond memory (else zeros are there)."""

    copy_gas: int = 3
    point_gas: int = 270
    bitwise_gas: int = 3
    members: int = 3
    point_flags: bool = True
    bounds_reads: bool = True


LAYOUTS: Final[dict[int, Layout]] = {}
#: Operands of ECADD when its points have no flags.
_POINTS_WITHOUT_FLAGS: Final = 5


def _define(
    opcode: int,
    name: str,
    address_count: int,
    l2_gas: int,
    *,
    da_gas: int = 0,
    width: int = 2,
    immediates: tuple[int, ...] = (),
    tag: int | None = None,
    mode_width: int = 1,
) -> None:
    mode_width = mode_width if address_count else 0
    LAYOUTS[opcode] = Layout(name, address_count, width, immediates, tag, mode_width, l2_gas, da_gas)


def _define_pair(opcode: int, name: str, address_count: int, l2_gas: int, *, tag: int | None = None) -> None:
    """The forms with operands of one byte and of two bytes."""
    immediates = () if tag is None else (1,)
    _define(opcode, name, address_count, l2_gas, width=1, immediates=immediates, tag=tag)
    _define(opcode + 1, name, address_count, l2_gas, width=2, immediates=immediates, tag=tag)


_define_pair(0, "ADD", 3, 12)
_define_pair(2, "SUB", 3, 12)
_define_pair(4, "MUL", 3, 27)
_define_pair(6, "DIV", 3, 27)
_define_pair(8, "FDIV", 3, 225)
_define_pair(10, "EQ", 3, 12)
_define_pair(12, "LT", 3, 42)
_define_pair(14, "LTE", 3, 42)
_define_pair(16, "AND", 3, 12)
_define_pair(18, "OR", 3, 12)
_define_pair(20, "XOR", 3, 12)
_define_pair(22, "NOT", 2, 12)
_define_pair(24, "SHL", 3, 18)
_define_pair(26, "SHR", 3, 18)
_define_pair(28, "CAST", 2, 27, tag=0)
_define(30, "GETENVVAR", 1, 12, immediates=(1,))
_define(31, "CALLDATACOPY", 3, 18)
_define(32, "SUCCESSCOPY", 1, 12)
_define(33, "RETURNDATASIZE", 1, 12)
_define(34, "RETURNDATACOPY", 3, 18)
_define(35, "JUMP", 0, 9, immediates=(4,))
_define(36, "JUMPI", 1, 9, immediates=(4,))
_define(37, "INTERNALCALL", 0, 9, immediates=(4,))
_define(38, "INTERNALRETURN", 0, 9)
_define(39, "SET", 1, 27, width=1, immediates=(1, 1), tag=0)
_define(40, "SET", 1, 27, immediates=(1, 2), tag=0)
_define(41, "SET", 1, 27, immediates=(1, 4), tag=0)
_define(42, "SET", 1, 27, immediates=(1, 8), tag=0)
_define(43, "SET", 1, 27, immediates=(1, 16), tag=0)
_define(44, "SET", 1, 27, immediates=(1, 32), tag=0)
_define_pair(45, "MOV", 2, 12)
_define(47, "SLOAD", 3, 1290)
_define(48, "SSTORE", 2, 33140)
_define(49, "NOTEHASHEXISTS", 3, 504)
_define(50, "EMITNOTEHASH", 1, 19275, da_gas=32)
_define(51, "NULLIFIEREXISTS", 2, 903)
_define(52, "EMITNULLIFIER", 1, 30800, da_gas=32)
_define(53, "L1TOL2MSGEXISTS", 3, 540)
_define(54, "GETCONTRACTINSTANCE", 2, 6108, immediates=(1,))
_define(55, "EMITPUBLICLOG", 2, 15, da_gas=64)
_define(56, "SENDL2TOL1MSG", 2, 5239, da_gas=32)
_define(57, "CALL", 5, 9936, mode_width=2)
_define(58, "STATICCALL", 5, 9936, mode_width=2)
_define(59, "RETURN", 2, 9)
_define_pair(60, "REVERT", 2, 9)
_define(62, "DEBUGLOG", 4, 9, immediates=(2,))
_define(63, "POSEIDON2", 2, 360)
_define(64, "SHA256COMPRESSION", 3, 12288)
_define(65, "KECCAKF1600", 2, 58176)
_define(66, "ECADD", 7, 270, mode_width=2)
_define(67, "TORADIXBE", 5, 24, mode_width=2)

#: Gas for each addressing bit that is set, and once for reading the base address.
ADDRESSING_GAS: Final = 3
#: Bits of so many operands are charged, whether the instruction has them or not.
CHARGED_OPERANDS: Final = 7

_USUAL_RULES: Final = Rules()
#: Their one immediate is the gas for each field.
_COPIES: Final = ("CALLDATACOPY", "RETURNDATACOPY")
#: Their one immediate is the gas for each byte of an operand.
_BITWISE: Final = ("AND", "OR", "XOR")

# ---- decoding -----------------------------------------------------------------------------------------


def decode(bytecode: bytes, pc: int, rules: Rules = _USUAL_RULES) -> Instruction:
    """The instruction at ``pc``; CallHalted when there is none."""
    layout = _layout_at(bytecode, pc, rules)
    body = bytecode[pc + 1 : pc + layout.size]
    if layout.tag is not None and _tag_of(layout, body) > U128:
        raise _fetching_error(pc, "Tag check failed")
    widths = (layout.mode_width, *[layout.address_width] * layout.address_count, *layout.immediates)
    mode, *operands = _split(body, widths)
    indices = range(layout.address_count)
    return Instruction(
        name=layout.name,
        addresses=tuple(operands[: layout.address_count]),
        immediates=_immediates(layout, operands[layout.address_count :], rules),
        relative=tuple(_is_relative(mode, index) for index in indices),
        indirect=tuple(_is_indirect(mode, index) for index in indices),
        l2_gas=layout.l2_gas + _addressing_gas(mode),
        da_gas=layout.da_gas,
        size=layout.size,
    )


def _immediates(layout: Layout, values: list[int], rules: Rules) -> tuple[int, ...]:
    if layout.name in _COPIES:
        return (rules.copy_gas,)
    if layout.name in _BITWISE:
        return (rules.bitwise_gas,)
    return tuple(value % MODULUS for value in values)


def _layout_at(bytecode: bytes, pc: int, rules: Rules) -> Layout:
    if pc >= len(bytecode):
        last = (len(bytecode) - 1) % (1 << 64)
        raise _fetching_error(pc, f"Invalid program counter {pc}, max is {last}")
    opcode = bytecode[pc]
    if opcode not in LAYOUTS:
        raise _fetching_error(
            pc, f"Opcode {opcode} (0x{opcode:x}) value is not in the range of valid opcodes (at PC {pc})."
        )
    layout = _with_rules(LAYOUTS[opcode], rules)
    remaining = len(bytecode) - pc
    if layout.size > remaining:
        sizes = f"(instruction size: {layout.size}, remaining: {remaining})"
        raise _fetching_error(pc, f"Instruction at PC {pc} does not fit in bytecode {sizes}")
    return layout


def _with_rules(layout: Layout, rules: Rules) -> Layout:
    if layout.name != "ECADD":
        return layout
    count = layout.address_count if rules.point_flags else _POINTS_WITHOUT_FLAGS
    return layout._replace(address_count=count, l2_gas=rules.point_gas)


def _fetching_error(pc: int, reason: str) -> CallHalted:
    return CallHalted(f"Instruction fetching error at pc {pc}: {reason}")


def _tag_of(layout: Layout, body: bytes) -> int:
    """The tag is the first of the immediates in every layout that has one."""
    return body[layout.mode_width + layout.address_count * layout.address_width]


def _split(body: bytes, widths: tuple[int, ...]) -> list[int]:
    values, start = [], 0
    for width in widths:
        values.append(int.from_bytes(body[start : start + width], "big"))
        start += width
    return values


def _is_indirect(mode: int, index: int) -> bool:
    return bool(mode >> 2 * index & 1)


def _is_relative(mode: int, index: int) -> bool:
    return bool(mode >> 2 * index + 1 & 1)


def _addressing_gas(mode: int) -> int:
    indirect = sum(_is_indirect(mode, index) for index in range(CHARGED_OPERANDS))
    relative = sum(_is_relative(mode, index) for index in range(CHARGED_OPERANDS))
    return ADDRESSING_GAS * (indirect + relative + bool(relative))
