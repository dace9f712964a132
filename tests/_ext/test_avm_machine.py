"""The interpreter as its users meet it: limits, errors of the host, arguments, threads."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests._ext.avm_programs import assemble, put, put_at
from tests._ext.avm_world import Contract, World, as_field, split
from tests.effort import tries

from fastnode._twins import avm as twin
from fastnode._twins import avm_gadgets
from fastnode._twins.avm_call import INTERNAL_CALLS_PER_PAGE
from fastnode._twins.avm_instructions import FF, LAYOUTS, MODULUS, U1, U8, U32, U64, U128
from fastnode._twins.avm_memory import CALL_PAGES, PAGE_BYTES, PAGE_CELLS
from fastnode.errors import (
    CallHalted,
    ExecutionCancelled,
    ExecutionMemoryExceeded,
    ExecutionOutOfMemory,
    ExecutionTimeExceeded,
    TxExecutionError,
)
from fastnode.kernels import USING_TWINS
from fastnode.kernels import avm as kernel
from fastnode.mempool.validation import L2_GAS_MAX
from fastnode.protocol import grumpkin
from fastnode.public_execution.results import ExecutionOptions

INTERPRETERS = [pytest.param(kernel, id="kernel"), pytest.param(twin, id="python")]
every = pytest.mark.parametrize("avm", INTERPRETERS)

ADDRESS = as_field(0x1000)
OTHER = as_field(0x1001)
SENDER = as_field(42)
PLENTY = 6_000_000

END = 1 << 32

#: Returns the cells from the given one on.
SIZE_CELL = 9


def returning(start: int, count: int) -> bytes:
    return put(SIZE_CELL, U32, count) + assemble("RETURN", SIZE_CELL, start)


def endless() -> bytes:
    return assemble("JUMP", 0)


def calling(address: bytes, *, l2_gas: int = END - 1, name: str = "CALL", args: int = 0) -> bytes:
    setup = put(20, U32, l2_gas) + put(21, U32, END - 1) + put(22, FF, int.from_bytes(address, "big"))
    return setup + put(23, U32, args) + assemble(name, 20, 21, 22, 23, 30)


def machine_for(avm: ModuleType, world: World, **options: Any) -> Any:
    return avm.Machine(
        world,
        chain_id=as_field(31337),
        version=as_field(4),
        block_number=7,
        timestamp=1000,
        fee_per_l2_gas=2,
        fee_per_da_gas=3,
        **options,
    )


def world_of(avm: ModuleType, *programs: bytes) -> World:
    """Contracts from ADDRESS on."""
    world = World()
    for number, program in enumerate(programs):
        address = as_field(0x1000 + number)
        world.contracts[address] = Contract(as_field(number), SENDER, SENDER, avm.Program(program))
    return world


def execute(machine: Any, calldata: bytes = b"", **changes: Any) -> Any:
    arguments = {
        "is_static": False,
        "transaction_fee": as_field(0),
        "l2_gas": PLENTY,
        "da_gas": PLENTY,
        "l2_gas_limit": PLENTY,
        "da_gas_limit": PLENTY,
    }
    return machine.execute(ADDRESS, SENDER, calldata, **(arguments | changes))


def run(avm: ModuleType, *programs: bytes, options: dict[str, Any] | None = None, **changes: Any) -> Any:
    return execute(machine_for(avm, world_of(avm, *programs), **(options or {})), **changes)


def values(outcome: Any) -> list[int]:
    assert outcome.success, outcome.message
    return [int.from_bytes(value, "big") for value in split(outcome.output)]


# ---- limits -------------------------------------------------------------------------------------------


@every
def test_an_execution_past_its_deadline_is_given_up(avm: ModuleType) -> None:
    started = time.monotonic()
    with pytest.raises(ExecutionTimeExceeded):
        run(avm, endless(), options={"deadline": started + 0.05}, l2_gas=END - 1)
    assert time.monotonic() >= started + 0.05


@pytest.mark.skipif(USING_TWINS, reason="the twin looks at the time between instructions only")
@pytest.mark.parametrize(
    "large",
    [
        pytest.param(assemble("CALLDATACOPY", 1, 2, 50), id="copies"),
        pytest.param(assemble("TORADIXBE", 3, 4, 1, 5, 50), id="digits"),
    ],
)
def test_instructions_with_millions_of_cells_count_as_the_work_they_are(large: bytes) -> None:
    """A thousand of them would take half a minute."""
    setup = put(1, U32, 4_000_000) + put(2, U32, 0) + put(3, FF, 7) + put(4, U32, 2) + put(5, U1, 1)
    worked = time.thread_time()
    with pytest.raises(ExecutionTimeExceeded):
        run(
            kernel,
            setup + large + assemble("JUMP", len(setup)),
            options={"deadline": time.monotonic() + 0.05},
            l2_gas=END - 1,
        )
    assert time.thread_time() - worked < 5


@every
def test_a_deadline_in_the_past_lets_nothing_run(avm: ModuleType) -> None:
    with pytest.raises(ExecutionTimeExceeded):
        run(avm, endless(), options={"deadline": time.monotonic() - 1})


@every
def test_a_far_deadline_changes_nothing(avm: ModuleType) -> None:
    assert values(run(avm, returning(5, 1), options={"deadline": float("inf")})) == [0]


@every
def test_another_thread_can_cancel_an_execution(avm: ModuleType) -> None:
    machine = machine_for(avm, world_of(avm, endless()))
    timer = threading.Timer(0.05, machine.cancel)
    timer.start()
    with pytest.raises(ExecutionCancelled):
        execute(machine, l2_gas=END - 1)
    timer.join()
    with pytest.raises(ExecutionCancelled):
        execute(machine)


@every
def test_memory_is_counted_in_pages_of_8_cells(avm: ModuleType) -> None:
    # Three pages beside those of the call: cells 0 to 7, 8 to 15 with the size of what is returned, and 16 on.
    program = put(0, FF, 1) + put(7, FF, 1) + put(8, FF, 1) + put(16, FF, 1) + returning(0, 1)
    enough = (CALL_PAGES + 3) * PAGE_BYTES
    assert values(run(avm, program, options={"memory_limit": enough})) == [1]
    with pytest.raises(ExecutionMemoryExceeded) as raised:
        run(avm, program, options={"memory_limit": enough - 1})
    assert raised.value.limit == enough - 1


#: Cells that instructions write, where it is not one; those with a price for each cell have it.
CELLS_WRITTEN = {"POSEIDON2": 4, "SHA256COMPRESSION": 8, "KECCAKF1600": 25, "ECADD": 3, "GETCONTRACTINSTANCE": 2}
GAS_PER_CELL = {"CALLDATACOPY": 3, "RETURNDATACOPY": 3, "TORADIXBE": 3}
WRITES_NOTHING = {"JUMP", "JUMPI", "INTERNALCALL", "INTERNALRETURN", "RETURN", "REVERT", "DEBUGLOG"}


def pages_touched(cells: int) -> int:
    """At most: the first cell is the last of its page."""
    return 1 if cells == 1 else 2 + (cells - 2) // PAGE_CELLS


def test_no_gas_of_a_transaction_in_a_block_buys_the_memory_that_one_may_have() -> None:
    """Else a node would give up what others include.  Cheapest is one page for 12 gas."""
    prices = [Fraction(9936, CALL_PAGES), Fraction(9 * INTERNAL_CALLS_PER_PAGE)]
    for layout in LAYOUTS.values():
        if layout.name in WRITES_NOTHING:
            continue
        gas = GAS_PER_CELL.get(layout.name, 0)
        for cells in range(1, 1000) if gas else (CELLS_WRITTEN.get(layout.name, 1),):
            prices.append(Fraction(layout.l2_gas + gas * cells, pages_touched(cells)))
    assert min(prices) == 12
    assert ExecutionOptions().memory_bytes_max > (CALL_PAGES + L2_GAS_MAX // 12) * PAGE_BYTES


@pytest.mark.skipif(USING_TWINS, reason="half a million instructions")
def test_writing_over_the_edges_of_pages_ends_with_the_gas_and_not_with_the_memory() -> None:
    """CALLDATACOPY of two cells makes two pages for 30 gas."""
    head = put(0, U32, 64) + put(1, U32, 2) + put(2, U32, 0) + put(3, U32, 1024 * 16)
    copies = b"".join(assemble("CALLDATACOPY", 1, 2, 7 + 16 * k, mode=0b100000) for k in range(1024))
    program = head + copies + assemble("ADD", 0, 3, 0) + assemble("JUMP", len(head))
    before = resident_bytes()
    outcome = run(kernel, program, calldata=2 * as_field(5), l2_gas=L2_GAS_MAX)
    assert outcome.message.startswith("Out of gas")
    assert resident_bytes() - before < 128 << 20


LITTLE_MEMORY = """
import os, resource
from pathlib import Path
from fastnode.errors import ExecutionLimitExceeded
from tests._ext.test_avm_machine import END, U32, assemble, execute, kernel, machine_for, put, world_of
program = put(1, U32, 1 << 30) + put(2, U32, 0) + assemble("CALLDATACOPY", 1, 2, 50)
world = world_of(kernel, program)
used = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
resource.setrlimit(resource.RLIMIT_AS, (used + (64 << 20),) * 2)
for _ in range(3):
    try:
        execute(machine_for(kernel, world, memory_limit=1 << 40), l2_gas=END - 1)
    except ExecutionLimitExceeded as error:
        print(error.message)
print(execute(machine_for(kernel, world_of(kernel, assemble("DIV", 1, 1, 1)))).message[:9])
"""


@pytest.mark.skipif(USING_TWINS or not Path("/proc/self/statm").exists(), reason="the kernel's memory, on Linux")
def test_a_system_without_memory_ends_the_execution_and_not_the_process() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LITTLE_MEMORY], cwd=Path(__file__).parents[2], capture_output=True, text=True
    )
    text = "Public execution needs more memory than is left for it now; try again later"
    assert done.stdout.splitlines() == [text, text, text, "Alu div o"], done.stderr


@pytest.mark.skipif(USING_TWINS, reason="twins run one program at a time")
def test_programs_with_a_shared_limit_have_no_more_together_and_each_has_its_first_pages() -> None:
    """One holds memory in the middle of its run while others begin."""
    mib = 1 << 20
    hungry = put(1, U32, 32 * mib // 32) + put(2, U32, 0) + assemble("CALLDATACOPY", 1, 2, 50)
    modest = put(1, U32, 8 * mib // 32) + put(2, U32, 0) + assemble("CALLDATACOPY", 1, 2, 50) + returning(0, 0)
    shared = {"memory_limit": 64 * mib, "shared_memory_limit": 24 * mib}
    outcomes: list[Any] = []

    def begin_others() -> None:
        for program, options in ((hungry, shared), (modest, shared), (hungry, {"memory_limit": 64 * mib})):
            try:
                outcomes.append(run(kernel, program + returning(0, 0), options=options, l2_gas=END - 1).success)
            except ExecutionOutOfMemory:
                outcomes.append("no memory")

    world = world_of(kernel, hungry + assemble("SLOAD", 60, 60, 61) + returning(0, 0))
    plain = world.read_storage
    world.read_storage = lambda *asked: (begin_others(), plain(*asked))[1]  # type: ignore[method-assign,func-returns-value]
    assert execute(machine_for(kernel, world, **shared), l2_gas=END - 1).success
    assert outcomes == ["no memory", True, True]
    assert run(kernel, hungry + returning(0, 0), options=shared, l2_gas=END - 1).success, "it is given back"


@every
def test_memory_of_a_call_that_has_ended_is_given_back(avm: ModuleType) -> None:
    """Each callee writes three pages and calls nothing; room is for one of them besides the caller, which has two."""
    repeated = 60 * calling(OTHER) + returning(5, 1)
    callee = put(0, FF, 1) + put(40, FF, 1) + returning(0, 1)
    enough = (CALL_PAGES + 2 + CALL_PAGES + 3) * PAGE_BYTES
    assert values(run(avm, repeated, callee, options={"memory_limit": enough})) == [0]
    with pytest.raises(ExecutionMemoryExceeded):
        run(avm, repeated, callee, options={"memory_limit": enough - 1})


@every
def test_internal_calls_count_as_memory(avm: ModuleType) -> None:
    program = assemble("INTERNALCALL", 0)
    limit = (CALL_PAGES + 10) * PAGE_BYTES
    outcome = run(avm, program, l2_gas=9 * 160 + 8, options={"memory_limit": limit})
    assert outcome.message.startswith("Out of gas")
    with pytest.raises(ExecutionMemoryExceeded):
        run(avm, program, l2_gas=9 * 161, options={"memory_limit": limit})


@every
def test_internal_calls_of_a_call_that_has_ended_are_given_back(avm: ModuleType) -> None:
    callee = assemble("INTERNALCALL", 5) + returning(0, 0)
    repeated = 30 * calling(OTHER, l2_gas=1000) + returning(5, 1)
    assert values(run(avm, repeated, callee, options={"memory_limit": (2 * CALL_PAGES + 4) * PAGE_BYTES})) == [0]


@every
def test_a_machine_starts_each_execution_with_empty_memory(avm: ModuleType) -> None:
    program = assemble("MOV", 2000, 3000) + put(2000, U8, 7) + returning(3000, 1)
    machine = machine_for(avm, world_of(avm, program), memory_limit=(CALL_PAGES + 3) * PAGE_BYTES)
    for _ in range(3):
        assert values(execute(machine)) == [0]


@every
def test_a_copy_of_more_cells_than_memory_may_have_is_given_up(avm: ModuleType) -> None:
    program = put(1, U32, 1 << 30) + put(2, U32, 0) + assemble("CALLDATACOPY", 1, 2, 3)
    with pytest.raises(ExecutionMemoryExceeded):
        run(avm, program, options={"memory_limit": 1 << 20}, l2_gas=END - 1)


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(USING_TWINS or not Path("/proc/self/statm").exists(), reason="the kernel's memory, on Linux")
def test_memory_is_the_systems_again_when_an_execution_has_ended() -> None:
    """Each of these takes all that it may, 256 MiB, which malloc would keep for each of the threads."""
    program = put(1, U32, 1 << 30) + put(2, U32, 0) + assemble("CALLDATACOPY", 1, 2, 50)
    world = world_of(kernel, program)
    before = resident_bytes()

    def fill_memory() -> None:
        with pytest.raises(ExecutionMemoryExceeded):
            execute(machine_for(kernel, world), l2_gas=END - 1)

    with ThreadPoolExecutor(4) as threads:
        for future in [threads.submit(fill_memory) for _ in range(tries(8, 32))]:
            future.result()
        assert resident_bytes() - before < 128 << 20


# ---- addressing ---------------------------------------------------------------------------------------


@every
def test_the_base_is_looked_at_when_the_first_relative_operand_is_reached(avm: ModuleType) -> None:
    """Neither the base at cell 0 nor the pointer at cell 5 is an address."""
    pointer = "Addressing error: Address after indirection is not a valid address (address U32(5)) has tag FIELD)"
    base = "Addressing error: Base address (mem[0]) is not a valid address (has tag FIELD)"
    indirect_first, relative_first = 0b10_00_01, 0b00_01_10
    assert run(avm, assemble("ADD", 5, 5, 5, mode=indirect_first)).message == pointer
    assert run(avm, assemble("ADD", 5, 5, 5, mode=relative_first)).message == base


# ---- gas ----------------------------------------------------------------------------------------------


@every
def test_a_transaction_that_has_overdrawn_halts_at_its_first_instruction(avm: ModuleType) -> None:
    outcome = run(avm, put(1, U8, 1), l2_gas=-500, l2_gas_limit=1000, da_gas=0, da_gas_limit=64)
    text = "Out of gas: total L2 used 1527 of 1000, total DA used 64 of 64"
    assert outcome == (False, b"", 0, 0, text)


@every
def test_gas_that_is_not_used_is_left(avm: ModuleType) -> None:
    outcome = run(avm, returning(0, 1), l2_gas=1000, da_gas=50)
    assert (outcome.l2_gas_left, outcome.da_gas_left) == (1000 - 27 - 9, 50)


@every
def test_going_into_an_internal_call_and_back_costs_two_jumps(avm: ModuleType) -> None:
    ending = returning(0, 0)
    outcome = run(avm, assemble("INTERNALCALL", 5 + len(ending)) + ending + assemble("INTERNALRETURN"), l2_gas=1000)
    assert outcome.l2_gas_left == 1000 - 9 - 9 - 27 - 9


@every
def test_a_radix_that_cannot_be_costs_32_limbs(avm: ModuleType) -> None:
    """It halts in any case; its price shows when there is less gas."""
    program = put(1, FF, 0) + put(2, U32, 257) + put(3, U32, 0) + put(4, U1, 0) + assemble("TORADIXBE", 1, 2, 3, 4, 50)
    price = 24 + 3 * 32
    halted = run(avm, program, l2_gas=4 * 27 + price, l2_gas_limit=4 * 27 + price)
    assert halted.message == "ToRadixBe gadget failed: ToRadix Exception: Invalid parameters for ToRadix"
    short = run(avm, program, l2_gas=4 * 27 + price - 1, l2_gas_limit=4 * 27 + price - 1)
    assert short.message.startswith(f"Out of gas: total L2 used {4 * 27 + price} of {4 * 27 + price - 1}")


@every
def test_a_nested_call_takes_no_more_gas_than_there_is(avm: ModuleType) -> None:
    program = calling(OTHER) + assemble("SUCCESSCOPY", 5) + returning(5, 1)
    halted = run(avm, program, b"")
    assert halted.message.startswith("Out of gas"), "the callee halts with all the gas of its caller"
    assert values(run(avm, calling(OTHER, l2_gas=100) + assemble("SUCCESSCOPY", 5) + returning(5, 1), b"")) == [0]


# ---- calls --------------------------------------------------------------------------------------------


@every
def test_calls_may_be_as_deep_as_gas_allows(avm: ModuleType) -> None:
    world = world_of(avm, calling(ADDRESS))
    outcome = execute(machine_for(avm, world))
    assert outcome.message.startswith("Out of gas") or outcome.message.startswith("Instruction fetching error")
    assert sum(event[0] == "enter" for event in world.events) > 500


@every
def test_data_of_a_callee_stays_readable_until_the_next_call(avm: ModuleType) -> None:
    copy = put(24, U32, 2) + put(25, U32, 0) + assemble("RETURNDATACOPY", 24, 25, 50)
    callee = put(70_000 % 65536, FF, 11) + put(70_001 % 65536, FF, 12) + returning(70_000 % 65536, 2)
    missing = as_field(0x9999)
    kept = calling(OTHER) + copy + returning(50, 2)
    assert values(run(avm, kept, callee)) == [11, 12]
    replaced = calling(OTHER) + calling(missing, l2_gas=0) + copy + returning(50, 2)
    assert values(run(avm, replaced, callee)) == [0, 0]


@every
def test_a_log_may_end_where_memory_ends(avm: ModuleType) -> None:
    program = put(1, U32, 3) + put(2, U32, END - 3) + assemble("EMITPUBLICLOG", 1, 2, mode=4) + returning(0, 0)
    world = world_of(avm, program)
    assert execute(machine_for(avm, world)).success
    assert world.effects.logs == [(ADDRESS, bytes(96))]
    beyond = put(1, U32, 3) + put(2, U32, END - 2) + assemble("EMITPUBLICLOG", 1, 2, mode=4)
    assert run(avm, beyond).message.endswith("Memory out of bounds")


@every
def test_calldata_of_a_nested_call_is_its_callers_memory(avm: ModuleType) -> None:
    callee = put(1, U32, 3) + put(2, U32, 0) + assemble("CALLDATACOPY", 1, 2, 50) + returning(50, 3)
    caller = put(30, U8, 7) + put(31, FF, 8) + calling(OTHER, args=2)
    caller += put(24, U32, 3) + put(25, U32, 0) + assemble("RETURNDATACOPY", 24, 25, 60) + returning(60, 3)
    assert values(run(avm, caller, callee)) == [7, 8, 0]


@every
def test_at_most_300_fields_are_recorded_and_addresses_wrap_around(avm: ModuleType) -> None:
    program = put_at(END - 1, FF, 5, pointer=1) + put(0, FF, 6) + put(2, U32, END - 1) + put(3, U32, 1000)
    outcome = run(avm, program + assemble("RETURN", 3, 2, mode=4))
    assert values(outcome)[:2] == [5, 6]
    assert len(outcome.output) == 300 * 32
    world = world_of(avm, returning(0, 0))
    execute(machine_for(avm, world), calldata=b"".join(map(as_field, range(400))))
    assert world.events[0] == ("enter", ADDRESS, b"".join(map(as_field, range(300))))


@every
def test_cells_far_apart_keep_their_values(avm: ModuleType) -> None:
    places = [65_535, 65_536, 70_000, END - 1, *(step * 0x1234567 % END for step in range(1, 60))]
    program = b"".join(put_at(place, FF, number, pointer=1) for number, place in enumerate(places))
    for number, place in enumerate(places):
        program += put(2, U32, place) + assemble("MOV", 2, 100 + number, mode=1)
    assert values(run(avm, program + returning(100, len(places)))) == list(range(len(places)))


# ---- host ---------------------------------------------------------------------------------------------


class HostError(Exception):
    """Something a host raises that the interpreter knows nothing of."""


@every
@pytest.mark.parametrize("method", ["enter", "leave", "read_storage"])
def test_an_error_of_the_host_leaves_the_machine_as_it_is(avm: ModuleType, method: str) -> None:
    world = world_of(avm, calling(OTHER), assemble("SLOAD", 1, 2, 3))

    def complain(*_: Any) -> Any:
        raise HostError

    setattr(world, method, complain)
    machine = machine_for(avm, world)
    with pytest.raises(HostError):
        execute(machine)
    delattr(world, method)
    assert not execute(machine).success


@every
def test_a_host_halts_the_running_call_with_its_own_text(avm: ModuleType) -> None:
    callee = assemble("SLOAD", 1, 2, 3) + returning(5, 1)
    world = world_of(avm, calling(OTHER, l2_gas=5000) + assemble("SUCCESSCOPY", 5) + returning(5, 1), callee)

    def refuse(*_: Any) -> bytes:
        raise CallHalted("the slot is ünknown")

    world.read_storage = refuse  # type: ignore[method-assign]
    assert values(execute(machine_for(avm, world))) == [0]
    assert ("leave", False, b"", (0,), "the slot is ünknown") in world.events


@every
def test_texts_of_halts_are_told_apart(avm: ModuleType) -> None:
    """A refusal of the host, then an own halt: each call's text is its own."""
    world = world_of(avm, calling(as_field(0x9999), l2_gas=10) + assemble("JUMP", END - 1))
    outcome = execute(machine_for(avm, world))
    assert world.events[2][-1] == "Contract 0x9999 is not deployed"
    assert outcome.message.startswith(f"Instruction fetching error at pc {END - 1}")


@every
@pytest.mark.parametrize("answer", [b"", bytes(31), MODULUS.to_bytes(32, "big"), b"\xff" * 32])
def test_a_host_that_answers_with_no_field_is_refused(avm: ModuleType, answer: bytes) -> None:
    world = world_of(avm, assemble("SLOAD", 1, 2, 3))
    world.read_storage = lambda *_: answer  # type: ignore[method-assign]
    with pytest.raises(ValueError, match="storage"):
        execute(machine_for(avm, world))


@every
def test_a_host_that_gives_no_program_is_refused(avm: ModuleType) -> None:
    world = world_of(avm, b"")
    world.enter = lambda *_: b"code"  # type: ignore[method-assign]
    with pytest.raises(TypeError, match="program"):
        execute(machine_for(avm, world))


@every
def test_a_running_machine_cannot_be_started_again(avm: ModuleType) -> None:
    world = world_of(avm, assemble("SLOAD", 1, 2, 3))
    machine = machine_for(avm, world)
    world.read_storage = lambda *_: execute(machine)  # type: ignore[method-assign]
    with pytest.raises(RuntimeError, match="running"):
        execute(machine)


@every
def test_a_bad_debug_log_is_an_error_of_the_transaction(avm: ModuleType) -> None:
    program = put(1, U64, 3) + assemble("DEBUGLOG", 1, 2, 3, 4, 0)
    with pytest.raises(TxExecutionError, match=r"Wanted type 2 but got U64\(3\)"):
        run(avm, program)
    for value, text in ((0, "0x0"), (5, "0x5"), ((1 << 127) + 7, "0x80000000000000000000000000000007")):
        with pytest.raises(TxExecutionError, match=rf"Wanted type 2 but got U128\({text}\)"):
            run(avm, put(1, U128, value) + assemble("DEBUGLOG", 1, 2, 3, 4, 0))
    assert run(avm, program + returning(0, 0), options={"collect_debug_logs": False}).success


@every
def test_what_a_debug_log_reads_is_looked_at_before_its_level(avm: ModuleType) -> None:
    """After the tags of both, as in release 4.1.2."""
    level = put(1, U8, 9)
    with pytest.raises(TxExecutionError, match=r"^Invalid debug log level: 9$"):
        run(avm, level + put(4, U32, 5) + assemble("DEBUGLOG", 1, 2, 3, 4, 0))
    with pytest.raises(TxExecutionError, match=r"^Max debug log memory reads exceeded: 125001 > 125000$"):
        run(avm, level + put(4, U32, 124_999) + assemble("DEBUGLOG", 1, 2, 3, 4, 0))
    with pytest.raises(TxExecutionError, match="Wanted type 4 but got U64"):
        run(avm, level + put(4, U64, 5) + assemble("DEBUGLOG", 1, 2, 3, 4, 0))
    with pytest.raises(TxExecutionError, match="Wanted type 2 but got U64"):
        run(avm, put(1, U64, 9) + put(4, U64, 5) + assemble("DEBUGLOG", 1, 2, 3, 4, 0))


# ---- arguments ----------------------------------------------------------------------------------------


@every
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("chain_id", b""),
        ("version", MODULUS.to_bytes(32, "big")),
        ("block_number", 1 << 32),
        ("block_number", -1),
        ("timestamp", 1 << 64),
        ("fee_per_l2_gas", 1 << 128),
        ("fee_per_da_gas", -1),
        ("memory_limit", -1),
    ],
)
def test_what_does_not_fit_a_machine_is_refused(avm: ModuleType, name: str, value: Any) -> None:
    good = {"chain_id": as_field(1), "version": as_field(1), "block_number": 1, "timestamp": 1}
    good |= {"fee_per_l2_gas": 1, "fee_per_da_gas": 1}
    with pytest.raises(ValueError, match=name):
        avm.Machine(World(), **(good | {name: value}))


@every
@pytest.mark.parametrize("name", ["l2_gas", "da_gas", "l2_gas_limit", "da_gas_limit"])
@pytest.mark.parametrize("value", [1 << 32, -(1 << 32)])
def test_gas_beyond_32_bits_is_refused(avm: ModuleType, name: str, value: int) -> None:
    with pytest.raises(ValueError, match=name):
        run(avm, b"", **{name: value})


@every
def test_calldata_that_is_no_run_of_fields_is_refused(avm: ModuleType) -> None:
    with pytest.raises(ValueError, match="calldata"):
        run(avm, b"", calldata=bytes(33))
    with pytest.raises(ValueError, match="element 1 of calldata"):
        run(avm, b"", calldata=bytes(32) + b"\xff" * 32)
    with pytest.raises(TypeError, match="bytecode"):
        avm.Program("00")


# ---- threads ------------------------------------------------------------------------------------------


def counting_program(rounds: int) -> bytes:
    setup = put(1, U32, 0) + put(2, U32, 1) + put(3, U32, rounds)
    loop = assemble("ADD", 1, 2, 1) + assemble("LT", 1, 3, 4)
    return setup + loop + assemble("JUMPI", 4, len(setup)) + returning(1, 1)


@every
def test_many_threads_run_one_program_that_none_has_decoded(avm: ModuleType) -> None:
    for _ in range(20):
        program = avm.Program(counting_program(50))
        results: list[list[int]] = []
        together = threading.Barrier(4)

        def work(program: Any = program, results: list[Any] = results, together: Any = together) -> None:
            world = world_of(avm, b"")
            world.contracts[ADDRESS] = Contract(as_field(0), SENDER, SENDER, program)
            machine = machine_for(avm, world)
            together.wait()
            results.append(values(execute(machine)))

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert results == [[50]] * 4


@every
def test_other_threads_go_on_while_a_program_runs(avm: ModuleType) -> None:
    machine = machine_for(avm, world_of(avm, endless()), deadline=time.monotonic() + 30)
    ended: list[Exception] = []

    def work() -> None:
        try:
            execute(machine, l2_gas=END - 1)
        except ExecutionCancelled as error:
            ended.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    for _ in range(10):
        time.sleep(0.001)
    assert thread.is_alive()
    machine.cancel()
    thread.join()
    assert ended


# ---- gadgets against other implementations ------------------------------------------------------------

SHA_START = (0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A, 0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19)


@every
@given(st.binary(max_size=55))
def test_sha256_compression_is_that_of_the_standard_library(avm: ModuleType, message: bytes) -> None:
    block = message + b"\x80" + bytes(55 - len(message)) + (8 * len(message)).to_bytes(8, "big")
    words = [int.from_bytes(block[start : start + 4], "big") for start in range(0, 64, 4)]
    program = b"".join(put(100 + offset, U32, word) for offset, word in enumerate((*SHA_START, *words)))
    program += assemble("SHA256COMPRESSION", 200, 100, 108) + returning(200, 8)
    digest = b"".join(word.to_bytes(4, "big") for word in values(run(avm, program)))
    assert digest == hashlib.sha256(message).digest()


@every
@given(st.binary(max_size=135))
def test_keccak_f1600_makes_sha3_of_the_standard_library(avm: ModuleType, message: bytes) -> None:
    rate = 136
    padded = bytearray(message + bytes(rate - len(message)))
    padded[len(message)] ^= 0x06
    padded[-1] ^= 0x80
    lanes = [int.from_bytes(padded[start : start + 8], "little") for start in range(0, rate, 8)] + [0] * 8
    program = b"".join(put(100 + offset, U64, lane) for offset, lane in enumerate(lanes))
    program += assemble("KECCAKF1600", 200, 100) + returning(200, 4)
    digest = b"".join(lane.to_bytes(8, "little") for lane in values(run(avm, program)))
    assert digest == hashlib.sha3_256(message).digest()


#: A point of Grumpkin, y^2 = x^3 - 17 over this field; None is the one at infinity.
Point: TypeAlias = tuple[int, int] | None


def added(left: Point, right: Point) -> Point:
    """As in every textbook."""
    if left is None or right is None:
        return left or right
    if left[0] == right[0]:
        if (left[1] + right[1]) % MODULUS == 0:
            return None
        slope = 3 * left[0] * left[0] * pow(2 * left[1], -1, MODULUS)
    else:
        slope = (right[1] - left[1]) * pow(right[0] - left[0], -1, MODULUS)
    x = (slope * slope - left[0] - right[0]) % MODULUS
    return x, (slope * (left[0] - x) - left[1]) % MODULUS


def multiple(scalar: int) -> Point:
    """Coordinates of the generator."""
    point: Point = None
    for _ in range(scalar):
        point = added(point, grumpkin.GENERATOR)
    return point


def point_cells(start: int, point: Point) -> bytes:
    x, y = point or (3, 4)
    return put(start, FF, x) + put(start + 1, FF, y) + put(start + 2, U1, int(point is None))


@every
@given(st.integers(0, 40), st.integers(0, 40), st.booleans())
def test_points_are_added_as_everywhere_else(avm: ModuleType, first: int, second: int, negated: bool) -> None:
    left, right = multiple(first), multiple(second)
    if negated and right is not None:
        right = right[0], MODULUS - right[1]
    program = point_cells(50, left) + point_cells(53, right) + assemble("ECADD", *range(50, 56), 60)
    expected = added(left, right)
    assert values(run(avm, program + returning(60, 3))) == ([*expected, 0] if expected else [0, 0, 1])


@every
@given(st.integers(0, MODULUS - 1), st.integers(2, 256))
def test_digits_make_the_value_again(avm: ModuleType, value: int, radix: int) -> None:
    count = avm_gadgets.DIGIT_COUNTS[radix]
    program = put(1, FF, value) + put(2, U32, radix) + put(3, U32, count) + put(4, U1, 0)
    digits = values(run(avm, program + assemble("TORADIXBE", 1, 2, 3, 4, 50) + returning(50, count)))
    total = 0
    for digit in digits:
        assert digit < radix
        total = total * radix + digit
    assert total == value


fields = st.one_of(st.integers(0, MODULUS - 1), st.sampled_from([0, 1, MODULUS - 1, MODULUS - 2, 1 << 128, 1 << 253]))


@every
@given(fields, fields)
def test_field_arithmetic_is_arithmetic_modulo_p(avm: ModuleType, a: int, b: int) -> None:
    program = put(1, FF, a) + put(2, FF, b)
    for offset, name in enumerate(("ADD", "SUB", "MUL", "LT", "LTE", "EQ", *["FDIV"] * bool(b))):
        program += assemble(name, 1, 2, 50 + offset)
    results = values(run(avm, program + returning(50, 7)))
    quotient = a * pow(b, -1, MODULUS) % MODULUS if b else 0
    expected = [(a + b) % MODULUS, (a - b) % MODULUS, a * b % MODULUS, int(a < b), int(a <= b), int(a == b)]
    assert results == [*expected, quotient]
