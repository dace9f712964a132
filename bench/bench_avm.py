"""The interpreter of the public virtual machine: instructions in a second, and what a transaction can cost at most.

Each workload is a loop that runs until the gas is gone.  The baseline, measured in the same run, is the twin in plain
Python on the same loop with less gas.  The host keeps storage in a dictionary and does nothing else, so that the
figures are those of the interpreter.

``instructions_per_s`` and ``times_faster`` are in the extra columns of ``--benchmark-json`` and are printed at the end
of a run, with the time of all the gas that a transaction may have.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from time import perf_counter
from types import ModuleType
from typing import Any, NamedTuple

import pytest
from pytest_benchmark.fixture import BenchmarkFixture
from tests._ext.avm_programs import DOUBLE, GENERATOR_Y, assemble, put
from tests._ext.avm_world import as_field

from fastnode._ext.avm import avm as kernel
from fastnode._twins import avm as twin
from fastnode._twins.avm_instructions import FF, U1, U8, U32, U64, decode

#: What a valid transaction may have for its public part.
GAS = 6_000_000
GAS_OF_TWIN = 100_000

ADDRESS = as_field(0x1000)


class Host:
    """One contract under every address."""

    def __init__(self, program: Any) -> None:
        self.program = program
        self.storage: dict[bytes, bytes] = {}

    def enter(self, address: bytes, calldata: bytes) -> Any:
        return self.program

    def leave(self, success: bool, output: bytes, pcs: array[int], message: str) -> None:
        pass

    def read_storage(self, address: bytes, slot: bytes) -> bytes:
        return self.storage.get(slot, bytes(32))

    def is_cold(self, address: bytes, slot: bytes) -> bool:
        return slot not in self.storage

    def write_storage(self, address: bytes, slot: bytes, value: bytes) -> None:
        self.storage[slot] = value


class Workload(NamedTuple):
    """``body`` is repeated, without end, after ``setup``."""

    name: str
    setup: bytes
    body: bytes

    def program(self) -> bytes:
        return self.setup + self.body + assemble("JUMP", len(self.setup))

    def instructions(self, gas: int) -> int:
        """How many of them a gas limit lets run, of those whose gas does not depend on memory."""
        setup, loop = gas_of(self.setup), gas_of(self.body + assemble("JUMP", 0))
        return len(setup) + (gas - sum(setup)) * len(loop) // sum(loop)


def gas_of(code: bytes) -> list[int]:
    found, pc = [], 0
    while pc < len(code):
        instruction = decode(code, pc)
        found.append(instruction.l2_gas)
        pc += instruction.size
    return found


#: Frame pointer, and the addressing mode of compiled code: everything relative to it.
FRAME = put(0, U32, 100)
RELATIVE_3, RELATIVE_2 = 0b101010, 0b1010
NUMBERS = put(1, U32, 1) + put(2, U32, 1 << 31) + put(3, FF, 1234567) + put(4, FF, 7)
IN_FRAME = put(101, U32, 0) + put(102, U32, 1) + put(103, U32, 1 << 31)
COMPILED = (
    assemble("MOV", 1, 6, mode=RELATIVE_2, form=0)
    + assemble("ADD", 6, 2, 1, mode=RELATIVE_3, form=0)
    + assemble("LT", 1, 3, 7, mode=RELATIVE_3, form=0)
    + assemble("JUMPI", 99, 0)
    + assemble("SET", 8, U32, 5, mode=0b10, form=0)
    + assemble("EQ", 1, 8, 9, mode=RELATIVE_3, form=0)
)
COPY = put(1, U32, 5_000) + put(2, U32, 0)
DIGITS = put(1, FF, (1 << 253) - 1) + put(2, U32, 3) + put(3, U32, 161) + put(4, U1, 0)
CURVE = put(1, FF, 1) + put(2, FF, GENERATOR_Y) + put(3, U1, 0)
CURVE += put(4, FF, DOUBLE[0]) + put(5, FF, DOUBLE[1]) + put(6, U1, 0)
LANES = b"".join(put(100 + lane, U64, lane) for lane in range(25))
WORDS = b"".join(put(100 + word, U32, word) for word in range(24))
CALL = put(1, U32, 0) + put(2, U32, 0) + put(3, FF, 0x2000) + put(4, U32, 300)
DEEP = put(1, U32, (1 << 32) - 1) + put(2, U32, 0) + put(3, FF, 0x2000) + put(4, U32, 300)
STRIDE = put(1, U32, 70_000) + put(2, U32, 32) + put(3, U8, 1)

WORKLOADS = [
    Workload("as compiled", FRAME + put(99, U1, 0) + IN_FRAME, COMPILED),
    Workload("jumps", b"", b""),
    Workload("sets of 254 bits", b"", 20 * assemble("SET", 5, FF, 1 << 250)),
    Workload("additions, u32", NUMBERS, 20 * assemble("ADD", 1, 2, 1)),
    Workload("additions, field", NUMBERS, 20 * assemble("ADD", 3, 4, 3)),
    Workload("products, field", NUMBERS, 20 * assemble("MUL", 3, 4, 3)),
    Workload("divisions, field", NUMBERS, 20 * assemble("FDIV", 3, 4, 3)),
    Workload("moves all over memory", STRIDE, assemble("ADD", 1, 2, 1) + assemble("MOV", 3, 1, mode=0b100)),
    Workload("Poseidon2", b"", 5 * assemble("POSEIDON2", 1, 1)),
    Workload("SHA-256", WORDS, 5 * assemble("SHA256COMPRESSION", 100, 100, 108)),
    Workload("Keccak", LANES, 5 * assemble("KECCAKF1600", 100, 100)),
    Workload("curve additions", CURVE, 5 * assemble("ECADD", 1, 2, 3, 4, 5, 6, 10)),
    Workload("digits", DIGITS, 5 * assemble("TORADIXBE", 1, 2, 3, 4, 100)),
    Workload("copies of 5,000 cells", COPY, assemble("CALLDATACOPY", 1, 2, 100)),
    Workload("calls that fail", CALL, assemble("CALL", 1, 2, 3, 4, 5)),
    Workload("calls within calls", DEEP, assemble("CALL", 1, 2, 3, 4, 5)),
    Workload("storage reads", b"", assemble("SLOAD", 1, 1, 2)),
]
#: Their gas depends on memory, so that only the time of all gas says something.
UNCOUNTED = {"digits", "copies of 5,000 cells", "calls that fail", "calls within calls"}


def run(avm: ModuleType, workload: Workload, program: Any, *, gas: int) -> Any:
    machine = avm.Machine(
        Host(program),
        chain_id=as_field(1),
        version=as_field(1),
        block_number=1,
        timestamp=1,
        fee_per_l2_gas=1,
        fee_per_da_gas=1,
    )
    outcome = machine.execute(
        ADDRESS,
        ADDRESS,
        b"",
        is_static=False,
        transaction_fee=bytes(32),
        l2_gas=gas,
        da_gas=gas,
        l2_gas_limit=gas,
        da_gas_limit=gas,
    )
    assert outcome.message.startswith("Out of gas"), outcome.message
    return outcome


def twin_seconds_per_gas(workload: Workload) -> float:
    program = twin.Program(workload.program())
    times = []
    for _ in range(3):
        started = perf_counter()
        run(twin, workload, program, gas=GAS_OF_TWIN)
        times.append(perf_counter() - started)
    return min(times) / GAS_OF_TWIN


@pytest.fixture(scope="module")
def figures() -> Iterator[list[str]]:
    lines: list[str] = []
    yield lines
    print("\n" + "\n".join(lines))


@pytest.mark.benchmark(group="all gas of a transaction", min_rounds=3, max_time=1)
@pytest.mark.parametrize("workload", WORKLOADS, ids=[workload.name for workload in WORKLOADS])
def test_all_gas_of_a_transaction(benchmark: BenchmarkFixture, workload: Workload, figures: list[str]) -> None:
    program = kernel.Program(workload.program())
    outcome = benchmark(run, kernel, workload, program, gas=GAS)
    assert outcome.l2_gas_left == 0
    if benchmark.stats is None:  # --benchmark-disable
        return
    seconds = benchmark.stats.stats.min  # of long loops: what is longer was interrupted
    faster = twin_seconds_per_gas(workload) * GAS / seconds
    benchmark.extra_info["times_faster"] = round(faster, 1)
    rate = ""
    if workload.name not in UNCOUNTED:
        per_second = workload.instructions(GAS) / seconds
        benchmark.extra_info["instructions_per_s"] = round(per_second)
        rate = f"{per_second / 1e6:8.2f} million a second"
    figures.append(f"{workload.name:<26} {1e3 * seconds:8.2f} ms {faster:8.1f} x twin {rate}")
