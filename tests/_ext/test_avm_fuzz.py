"""Random programs on the interpreter and on its twin: the same outcome, gas and questions to the host."""

from __future__ import annotations

import collections
import os
from array import array
from types import ModuleType
from typing import Any

import pytest
from tests._ext.avm_programs import CONTRACTS, LEAVES, Case, random_case
from tests._ext.avm_world import Contract, World, as_field, leaf_slot
from tests.effort import tries

from fastnode._twins import avm as twin
from fastnode.errors import ExecutionMemoryExceeded, TxExecutionError
from fastnode.kernels import USING_TWINS
from fastnode.kernels import avm as kernel

#: More of them by hand: FASTNODE_FUZZ_PROGRAMS=100000 takes some minutes.
PROGRAMS = int(os.environ.get("FASTNODE_FUZZ_PROGRAMS", tries(1_000, 20_000)))
FIRST_SEED = int(os.environ.get("FASTNODE_FUZZ_SEED", "0"))


class WatchingWorld(World):
    """Notes what a watched machine tells while calls begin and end."""

    machine: Any = None

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.told: list[Any] = []
        self._have_run: list[bool] = []

    def enter(self, address: bytes, calldata: bytes) -> Any:
        self.told.append(tuple(self.machine.opening))
        self._have_run.append(False)
        program = super().enter(address, calldata)
        self._have_run[-1] = True
        return program

    def leave(self, success: bool, output: bytes, pcs: array[int], message: str) -> None:
        meters = [tuple(meter) for meter in self.machine.gas_meters] if self._have_run.pop() else []
        self.told.append((self.machine.ending_gas, meters))
        super().leave(success, output, pcs, message)

    def emit_public_log(self, address: bytes, fields: bytes) -> None:
        self.told.append(self.machine.pc)
        super().emit_public_log(address, fields)


def build_world(avm: ModuleType, case: Case, kind: type[World] = World) -> World:
    world = kind(debug_reads_max=case.debug_reads_max)
    for number, (address, program) in enumerate(zip(CONTRACTS, case.programs, strict=False)):
        members = (as_field(number + offset) for offset in (50, 60, 70))
        world.contracts[as_field(address)] = Contract(*members, avm.Program(program))
    leaves = [as_field(value) for value in LEAVES]
    world.effects.notes.extend(leaves)
    world.effects.nullifiers.update(leaves)
    world.l1_to_l2_messages.extend(leaves)
    world.effects.storage[leaf_slot(as_field(CONTRACTS[0]), as_field(1))] = as_field(7)
    return world


def run_case(avm: ModuleType, case: Case) -> tuple[Any, World]:
    world = build_world(avm, case)
    return run_machine(machine_of(avm, world, case), case), world


def watch_case(avm: ModuleType, case: Case, first_step: int) -> tuple[Any, ...]:
    """All that a watched machine tells."""
    world = build_world(avm, case, WatchingWorld)
    assert isinstance(world, WatchingWorld)
    world.machine = machine_of(avm, world, case, is_watched=True, first_step=first_step, steps_max=300)
    outcome = run_machine(world.machine, case)
    machine = world.machine
    return outcome, world.told, machine.steps_taken, machine.step_count, machine.steps_json()


def machine_of(avm: ModuleType, world: World, case: Case, **options: Any) -> Any:
    return avm.Machine(
        world,
        chain_id=as_field(31337),
        version=as_field(4),
        block_number=(1 << 32) - 1,
        timestamp=(1 << 64) - 1,
        fee_per_l2_gas=(1 << 128) - 1,
        fee_per_da_gas=3,
        collect_debug_logs=case.collect_debug_logs,
        memory_limit=case.memory_limit,
        **options,
    )


def run_machine(machine: Any, case: Case) -> Any:
    try:
        outcome = machine.execute(
            as_field(CONTRACTS[0]),
            as_field(42),
            b"".join(map(as_field, case.calldata)),
            is_static=case.is_static,
            transaction_fee=as_field(9),
            l2_gas=case.l2_gas,
            da_gas=case.da_gas,
            l2_gas_limit=case.l2_gas + 1000,
            da_gas_limit=case.da_gas + 10,
        )
    except (TxExecutionError, ExecutionMemoryExceeded) as error:
        return type(error), str(error)
    return tuple(outcome)


def kind(outcome: Any) -> str:
    if len(outcome) == 2:
        return outcome[0].__name__
    return "success" if outcome[0] else " ".join(outcome[-1].split()[:2])


@pytest.mark.skipif(USING_TWINS, reason="there is only the twin")
def test_random_programs_run_on_the_kernel_as_on_the_twin() -> None:
    kinds: collections.Counter[str] = collections.Counter()
    for seed in range(FIRST_SEED, FIRST_SEED + PROGRAMS):
        case = random_case(seed)
        (outcome, world), (expected, expected_world) = run_case(kernel, case), run_case(twin, case)
        assert outcome == expected, f"seed {seed}"
        assert world.events == expected_world.events, f"seed {seed}"
        assert world.effects == expected_world.effects, f"seed {seed}"
        assert world.debug_logs == expected_world.debug_logs, f"seed {seed}"
        kinds[kind(outcome)] += 1
    if PROGRAMS >= 1000:
        assert {"success", "Assertion failed:", "Out of", "TxExecutionError", "ExecutionMemoryExceeded"} <= set(kinds)


@pytest.mark.skipif(USING_TWINS, reason="there is only the twin")
def test_a_watched_machine_runs_as_any_and_tells_the_same_on_the_kernel_as_on_the_twin() -> None:
    steps = 0
    for seed in range(FIRST_SEED, FIRST_SEED + PROGRAMS // 4):
        case = random_case(seed)
        first_step = (0, 0, 5, 1000)[seed % 4]
        told = watch_case(kernel, case, first_step)
        assert told == watch_case(twin, case, first_step), f"seed {seed}"
        assert told[0] == run_case(kernel, case)[0], f"seed {seed}"
        steps += told[3]
    assert PROGRAMS < 1000 or steps > 5_000


def test_a_machine_that_is_not_watched_tells_of_no_steps() -> None:
    case = random_case(1)
    world = build_world(kernel, case)
    machine = machine_of(kernel, world, case)
    run_machine(machine, case)
    assert (machine.steps_taken, machine.steps_json()) == (0, b"")
    with pytest.raises(RuntimeError, match="no watched call is running"):
        _ = machine.pc
