"""Bytecode for tests: an assembler, and random programs that mostly make sense."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from fastnode._twins.avm_gadgets import add_points
from fastnode._twins.avm_instructions import FF, LAYOUTS, MODULUS, TAG_BITS, U1, U8, U16, U32, U64, U128, Layout

Forms = dict[str, list[tuple[int, Layout]]]

#: Opcodes by name, those with narrow operands first.
FORMS: Forms = {}
for _opcode, _layout in sorted(LAYOUTS.items()):
    FORMS.setdefault(_layout.name, []).append((_opcode, _layout))


def assemble(name: str, *operands: int, mode: int = 0, form: int = -1) -> bytes:
    """One instruction; of several forms the widest unless told otherwise."""
    opcode, layout = FORMS[name][form]
    code = bytes([opcode]) + mode.to_bytes(layout.mode_width, "big")
    widths = (*[layout.address_width] * layout.address_count, *layout.immediates)
    for value, width in zip(operands, widths, strict=True):
        code += value.to_bytes(width, "big")
    return code


def put(address: int, tag: int, value: int) -> bytes:
    """SET in the form that holds any value."""
    return assemble("SET", address, tag, value)


def put_at(address: int, tag: int, value: int, *, pointer: int) -> bytes:
    """SET of a cell beyond the direct addresses; ``pointer`` is a cell that is overwritten."""
    return put(pointer, U32, address) + assemble("SET", pointer, tag, value, mode=1)


# ---- random programs ----------------------------------------------------------------------------------

#: Cells at the start: address 0 the base, then so many of each tag.
ROLES = {FF: range(1, 13), U32: range(13, 25), U1: range(25, 28), U64: range(28, 34), U8: range(34, 37)}
ROLES |= {U16: range(37, 39), U128: range(39, 42)}
CELLS = 64

CONTRACTS = tuple(range(0x1000, 0x1004))
#: Known to the world from the start.
LEAVES = (111, 222, 333)

TWO_INPUTS = ("ADD", "SUB", "MUL", "DIV", "EQ", "LT", "LTE", "AND", "OR", "XOR", "SHL", "SHR")

#: Tags of the operands that are read; None is written, "any" and "same" are what they say.
WANTED: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(
        ("ADD", "SUB", "MUL", "DIV", "EQ", "LT", "LTE", "AND", "OR", "XOR", "SHL", "SHR"), ("same", "same", None)
    ),
    "FDIV": (FF, FF, None),
    "NOT": ("same", None),
    "CAST": ("any", None),
    "GETENVVAR": (None,),
    "CALLDATACOPY": (U32, U32, None),
    "SUCCESSCOPY": (None,),
    "RETURNDATASIZE": (None,),
    "RETURNDATACOPY": (U32, U32, None),
    "JUMP": (),
    "JUMPI": (U1,),
    "INTERNALCALL": (),
    "INTERNALRETURN": (),
    "SET": (None,),
    "MOV": ("any", None),
    "SLOAD": (FF, FF, None),
    "SSTORE": (FF, FF),
    "NOTEHASHEXISTS": (FF, U64, None),
    "EMITNOTEHASH": (FF,),
    "NULLIFIEREXISTS": (FF, None),
    "EMITNULLIFIER": (FF,),
    "L1TOL2MSGEXISTS": (FF, U64, None),
    "GETCONTRACTINSTANCE": (FF, None),
    "EMITPUBLICLOG": (U32, FF),
    "SENDL2TOL1MSG": (FF, FF),
    "CALL": (U32, U32, FF, U32, "any"),
    "STATICCALL": (U32, U32, FF, U32, "any"),
    "RETURN": (U32, "any"),
    "REVERT": (U32, "any"),
    "DEBUGLOG": (U8, "any", "any", U32),
    "POSEIDON2": (FF, None),
    "SHA256COMPRESSION": (None, U32, U32),
    "KECCAKF1600": (None, U64),
    "ECADD": (FF, FF, U1, FF, FF, U1, None),
    "TORADIXBE": (FF, U32, U32, U1, None),
}
assert set(WANTED) == set(FORMS)

#: Ends of the program, and what costs most of the gas of a short one.
RARE = ("RETURN", "REVERT", "INTERNALRETURN", "KECCAKF1600", "SHA256COMPRESSION", "DEBUGLOG")
NAMES = tuple(WANTED)
OFTEN = ("CALL", "STATICCALL", "TORADIXBE", "SHL", "SHR")
WEIGHTS = tuple(1 if name in RARE else 8 if name in OFTEN else 4 for name in NAMES)

#: Those that halt on field elements.
NO_FIELDS = ("DIV", "AND", "OR", "XOR", "NOT", "SHL", "SHR")

EDGES = {
    FF: (0, 1, 2, MODULUS - 1, MODULUS - 2, 1 << 128, (1 << 160) - 1, 1 << 160, *CONTRACTS, *LEAVES),
    U32: (
        *range(1, 17),
        2,
        2,
        3,
        3,
        4,
        0,
        40,
        32,
        64,
        161,
        253,
        254,
        256,
        1000,
        30_000,
        60_000,
        70_000,
        (1 << 32) - 1,
        (1 << 32) - 4,
    ),
    U8: (*range(8), 8, 9, 255),
    U16: (0, 1, 15, 16, 17, 65_535),
    U128: (0, 1, 127, 128, 129, 1 << 64, (1 << 128) - 1),
    U64: (0, 1, 2, 127, 128, 129, (1 << 36) - 1, 1 << 36, (1 << 42) - 1, 1 << 42, (1 << 64) - 1),
}


#: Cells of addresses that can be called.
CALLABLE = {7: CONTRACTS[1], 8: CONTRACTS[2]}
#: Cells of gas that lets a call come to something.
CALL_GAS = {23: 30_000, 24: 200_000}
#: Cells of points of the curve, and the points: the generator, its double, its negative.
POINTS = ((1, 2), (3, 4), (1, 6))
GENERATOR_Y = 17631683881184975370165255887551781615748388533673675138860
DOUBLE = add_points((1, GENERATOR_Y, 0), (1, GENERATOR_Y, 0))
FIXED_VALUES = CALLABLE | CALL_GAS | {1: 1, 2: GENERATOR_Y, 3: DOUBLE[0], 4: DOUBLE[1], 6: MODULUS - GENERATOR_Y}


@dataclass(frozen=True, slots=True)
class Case:
    """A random execution: programs of the contracts from ``CONTRACTS[0]`` on, and how the first is called."""

    seed: int
    programs: tuple[bytes, ...]
    calldata: tuple[int, ...]
    is_static: bool
    l2_gas: int
    da_gas: int
    memory_limit: int
    debug_reads_max: int
    collect_debug_logs: bool


def random_case(seed: int) -> Case:
    source = random.Random(seed)
    programs = tuple(random_program(source) for _ in range(source.choice((1, 2, 3))))
    return Case(
        seed=seed,
        programs=programs,
        calldata=tuple(_value(source, FF) for _ in range(source.randrange(6))),
        is_static=source.random() < 0.1,
        l2_gas=int(10 ** source.uniform(3.5, 6.2)),
        da_gas=source.choice((0, 64, 1000, 100_000, 100_000, 100_000, 100_000)),
        memory_limit=source.choice((22 << 10, 43 << 10, 1 << 20, *[1 << 28] * 9)),
        debug_reads_max=source.choice((10, 125_000, 125_000, 125_000)),
        collect_debug_logs=source.random() < 0.8,
    )


def _value(source: random.Random, tag: int) -> int:
    edges = EDGES.get(tag)
    if edges and source.random() < 0.7:
        return source.choice(edges)
    end = MODULUS if tag == FF else 1 << TAG_BITS[tag]
    return source.choice((source.randrange(end), source.randrange(min(end, 256)), end - 1))


def random_program(source: random.Random) -> bytes:
    pieces = [_set(0, U32, source.choice((*[0] * 12, 1, 60, 65_000, (1 << 32) - 20)))] if source.random() < 0.95 else []
    for tag, cells in ROLES.items():
        pieces += [_set(cell, tag, FIXED_VALUES.get(cell, _value(source, tag))) for cell in cells]
    pieces = [piece for piece in pieces if source.random() < 0.99]
    if source.random() < 0.2:
        pieces.append(_block(source, source.choice((U32, U64)), start=100))
    start = len(pieces)
    count = source.randrange(3, 60)
    kept = [_instruction(source) for _ in range(count)]
    pieces += [assemble(name, *operands, mode=mode, form=form) for name, operands, mode, form in kept]
    places = [sum(map(len, pieces[:index])) for index in range(len(pieces) + 1)]
    for offset, (name, operands, mode, form) in enumerate(kept):
        if name in ("JUMP", "JUMPI", "INTERNALCALL"):
            forward = source.random() < 0.8
            index = source.randrange(start + offset + 1, len(places)) if forward else source.randrange(len(places))
            target = places[index] if source.random() < 0.95 else source.choice((1, 7, (1 << 32) - 1))
            pieces[start + offset] = assemble(name, *operands[:-1], target, mode=mode, form=form)
    ending = assemble(source.choice(("RETURN", "RETURN", "REVERT")), source.choice(ROLES[U32]), source.randrange(CELLS))
    code = bytearray(b"".join(pieces) + ending)
    if source.random() < 0.15:
        for _ in range(source.randrange(1, 6)):
            code[source.randrange(len(code))] = source.randrange(256)
    return bytes(code[: source.randrange(len(code))] if source.random() < 0.03 else code)


def _set(address: int, tag: int, value: int) -> bytes:
    widths = [layout.immediates[-1] for _, layout in FORMS["SET"]]
    form = next(i for i, width in enumerate(widths) if value < 1 << 8 * width)
    return assemble("SET", address, tag, value, form=form)


def _block(source: random.Random, tag: int, *, start: int) -> bytes:
    """Enough cells of a tag in a row for the hashing instructions, which then read them."""
    cells = b"".join(_set_wide(start + offset, tag, _value(source, tag)) for offset in range(25))
    if tag == U64:
        return cells + assemble("KECCAKF1600", start + source.randrange(60), start)
    return cells + assemble("SHA256COMPRESSION", start + source.randrange(40), start, start + 8)


def _set_wide(address: int, tag: int, value: int) -> bytes:
    return assemble("SET", address, tag, value, form=FORMS["SET"].index(FORMS["SET"][3 if tag == U64 else 2]))


def _instruction(source: random.Random) -> tuple[str, list[int], int, int]:
    (name,) = source.choices(NAMES, WEIGHTS)
    form = source.randrange(len(FORMS[name]))
    _, layout = FORMS[name][form]
    tags = [tag for tag in ROLES if tag != FF or name not in NO_FIELDS or source.random() < 0.05]
    same = source.choice(tags)
    operands = [_operand(source, wanted, same) for wanted in WANTED[name]]
    if name == "ECADD" and source.random() < 0.9:
        operands[0:2], operands[3:5] = source.choice(POINTS), source.choice(POINTS)
    if name in ("CALL", "STATICCALL") and source.random() < 0.8:
        operands[:3] = *source.choices(list(CALL_GAS), k=2), source.choice(list(CALLABLE))
    mode = 0
    if source.random() < 0.2:
        mode = source.randrange(1 << 8 * layout.mode_width) & source.randrange(1 << 8 * layout.mode_width)
        for index in range(layout.address_count):
            if mode >> 2 * index & 1 and source.random() < 0.9:
                operands[index] = source.choice(ROLES[U32])
    return name, operands + _immediates(source, layout), mode, form


def _operand(source: random.Random, wanted: Any, same: int) -> int:
    chance = source.random()
    if chance < 0.005:
        return source.randrange(256)
    if wanted is None:
        return source.randrange(42, CELLS) if chance < 0.95 else source.randrange(1, CELLS)
    if wanted == "any":
        return source.randrange(CELLS)
    return source.choice(ROLES[same if wanted == "same" else wanted])


def _immediates(source: random.Random, layout: Layout) -> list[int]:
    values = [source.randrange(1 << 8 * width) for width in layout.immediates]
    if layout.tag is not None:
        values[layout.tag] = source.randrange(7) if source.random() < 0.98 else source.randrange(256)
    elif layout.name in ("GETENVVAR", "GETCONTRACTINSTANCE", "DEBUGLOG"):
        values[0] = source.randrange(13 if layout.name == "GETENVVAR" else 4)
    return values
