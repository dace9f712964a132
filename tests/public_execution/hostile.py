"""Programs whose traces and simulations would be as large as gas allows; each calls the contract that it is.

``ADDRESS`` is that of made.py: the transaction is made by ``tx_running(program, l2_gas=GAS)``.
"""

from __future__ import annotations

from tests._ext.avm_programs import assemble, put
from tests.public_execution.made import ADDRESS

from fastnode._twins.avm_instructions import FF, U8, U32

#: The most that a simulation may ask for.
GAS = 130_000_000
IS_STATIC = 9
#: Cells of the programs: zero, gas, DA gas, address, fields.
HEAD = put(0, U32, 0) + put(1, U32, (1 << 32) - 1) + put(2, U32, 0) + put(3, FF, int.from_bytes(ADDRESS, "big"))


def _jump_if(cell: int, place: int) -> bytes:
    return assemble("JUMPI", cell, place)


def many_calls(fields: int = 300) -> bytes:
    """Calls one after the other, with so many fields as arguments and as results."""
    head = HEAD + put(4, U32, fields) + assemble("GETENVVAR", 5, IS_STATIC)
    loop = assemble("STATICCALL", 1, 2, 3, 4, 20)
    inner_at = len(head) + len(_jump_if(5, 0)) + len(loop) + len(assemble("JUMP", 0))
    return (
        head
        + _jump_if(5, inner_at)
        + loop
        + assemble("JUMP", len(head) + len(_jump_if(5, 0)))
        + assemble("RETURN", 4, 20)
    )


def deep_calls(depth: int = 98) -> bytes:
    """As deep as a trace goes, and there calls one after the other of a function each."""
    one = put(6, U32, 1)
    head = HEAD + one + put(7, U32, depth) + put(8, U32, 1000) + assemble("CALLDATACOPY", 6, 0, 20)
    head += assemble("CAST", 20, 10, U32) + assemble("LT", 7, 10, 11)
    descend = (
        assemble("ADD", 10, 6, 10)
        + assemble("CAST", 10, 20, FF)
        + assemble("CALL", 1, 2, 3, 6, 20)
        + assemble("RETURN", 0, 20)
    )
    deepest_at = len(head) + len(_jump_if(11, 0)) + len(descend)
    check = assemble("LT", 8, 10, 12)
    # A leaf has a number above 1000, and returns.
    step = assemble("ADD", 8, 6, 8) + assemble("CAST", 8, 20, FF) + assemble("CALL", 1, 2, 3, 6, 20)
    loop_at = deepest_at + len(check) + len(_jump_if(12, 0))
    leaf_at = loop_at + len(step) + len(assemble("JUMP", 0))
    return (
        head
        + _jump_if(11, deepest_at)
        + descend
        + check
        + _jump_if(12, leaf_at)
        + step
        + assemble("JUMP", loop_at)
        + assemble("RETURN", 0, 20)
    )


def many_reads() -> bytes:
    """Reads of storage for ever."""
    head = HEAD + put(5, FF, 7)
    return head + assemble("SLOAD", 5, 3, 6) + assemble("JUMP", len(head))


def many_logs(fields: int = 100, message: int = 50) -> bytes:
    """Debug logs for ever."""
    head = HEAD + put(4, U32, fields) + put(5, U8, 3)
    return head + assemble("DEBUGLOG", 5, 20, 400, 4, message) + assemble("JUMP", len(head))


def internal_recursion() -> bytes:
    """A program that calls itself inside, until the gas is gone."""
    return assemble("INTERNALCALL", 0)


#: Programs and their gas: logs are cheap, and as much as gas allows takes longer than a simulation may.
PROGRAMS = {
    "calls with much data": (many_calls(), GAS),
    "deep calls": (deep_calls(), GAS),
    "reads": (many_reads(), GAS),
    "debug logs": (many_logs(), 1_500_000),
    "large debug logs": (many_logs(fields=100_000, message=0), 545_000),
    "inner calls": (internal_recursion(), GAS),
}
