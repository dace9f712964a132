"""Simulations with overrides answer as a chain does that has these values and instances."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests._ext.avm_programs import FF, U32, assemble, put
from tests.public_execution.made import ADDRESS, tx_running
from tests.public_execution.memory_state import MemoryState
from tests.public_execution.test_contracts import CHANGE, CONTRACT, DELAYS, ORIGINAL, POST, PREVIOUS, update
from tests.sources.l1.derivation.test_release_5 import instance_of_vectors

from fastnode.errors import CallHalted, TxExecutionError
from fastnode.kernels import USING_TWINS
from fastnode.protocol.contracts import ContractInstance
from fastnode.protocol.fields import ZERO_FIELD, field_from_int
from fastnode.protocol.header import GasFees, GlobalVariables
from fastnode.protocol.releases import FOUR
from fastnode.protocol.siloing import public_leaf_slot
from fastnode.public_execution.contracts import Contracts, CurrentContract, ProgramCache
from fastnode.public_execution.executor import BlockExecutor, programs_of
from fastnode.public_execution.overrides import OverriddenState, Overrides, StorageOverride
from fastnode.public_execution.results import ExecutedTx
from fastnode.public_execution.state import BaseState, StateJournal
from fastnode.public_execution.transaction import ExecutableTx

SEEDS = 3 if USING_TWINS else 40
SLOTS = [field_from_int(number) for number in range(4)]
BLOCK = GlobalVariables(31337, 0, 107, 0, CHANGE, bytes(20), ZERO_FIELD, GasFees(0, 0))


def executed(base: BaseState, program: bytes) -> ExecutedTx:
    executor = BlockExecutor(base, BLOCK, programs=programs_of(FOUR))
    tx = ExecutableTx.of(tx_running(program), accepts_overlong_logs=True)
    return executor.execute(tx, skip_fee_enforcement=True)


def reading_and_writing(source: random.Random) -> bytes:
    """A program that reads and writes its slots in any order, and returns what it has read."""
    program, read = assemble("GETENVVAR", 1, 0), 100
    for _ in range(source.randint(4, 12)):
        program += put(2, FF, source.randrange(len(SLOTS)))
        if source.random() < 0.3:
            program += put(3, FF, source.randrange(1 << 64)) + assemble("SSTORE", 3, 2)
        else:
            program += assemble("SLOAD", 2, 1, read)
            read += 1
    return program + put(4, U32, read - 100) + assemble("RETURN", 4, 100)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_program_finds_overridden_storage_as_it_would_find_it_on_the_chain(seed: int) -> None:
    source = random.Random(seed)
    program = reading_and_writing(source)
    before = {public_leaf_slot(ADDRESS, slot): field_from_int(source.randrange(1 << 64)) for slot in SLOTS[:2]}
    given = [
        StorageOverride(ADDRESS, source.choice(SLOTS), field_from_int(source.choice((0, source.randrange(1 << 64)))))
        for _ in range(source.randint(1, 5))
    ]
    there = MemoryState(leaves=before | {public_leaf_slot(ADDRESS, slot): value for _, slot, value in given})
    base = MemoryState(leaves=before)
    assert executed(OverriddenState(base, Overrides(given)), program) == executed(there, program)
    assert base.leaves == before


# ---- instances --------------------------------------------------------------------------------------


Claiming = Callable[[bytes], ContractInstance]


@pytest.fixture
def claiming(data_directory: Path) -> Claiming:
    """Makes an instance at the address of the tests that has this class now, and another deployer."""
    template = replace(
        instance_of_vectors(data_directory),
        address=ADDRESS,
        original_contract_class_id=ORIGINAL,
        deployer=field_from_int(7),
    )
    return lambda class_id: replace(template, current_contract_class_id=class_id)


def current(state: BaseState) -> CurrentContract | None:
    return Contracts(StateJournal(state), CHANGE, ProgramCache(release=FOUR)).current(ADDRESS)


def deployed() -> MemoryState:
    state = MemoryState()
    state.deploy(ADDRESS, CONTRACT)
    return state


def test_an_instance_stands_in_place_of_the_published_one(claiming: Claiming) -> None:
    found = current(OverriddenState(deployed(), Overrides(contracts=[claiming(ORIGINAL)])))
    assert found is not None
    assert (found.class_id, found.deployer) == (ORIGINAL, field_from_int(7))
    unchanged = current(OverriddenState(deployed(), Overrides()))
    assert unchanged == CurrentContract.of(CONTRACT, ORIGINAL)


def test_an_instance_of_another_class_needs_the_storage_of_its_update(claiming: Claiming) -> None:
    """As a wallet does that tries an upgrade before it is made."""
    overrides = Overrides(contracts=[claiming(POST)])
    message = rf"^Current class id: 0x{POST.hex()} does not match expected class id: 0x{ORIGINAL.hex()}$"
    with pytest.raises(TxExecutionError, match=message):
        current(OverriddenState(deployed(), overrides))
    state = deployed()
    update(state, ADDRESS, field_from_int(DELAYS | CHANGE), PREVIOUS, POST, field_from_int(1))
    found = current(OverriddenState(state, overrides))
    assert found is not None
    assert found.class_id == POST
    with pytest.raises(TxExecutionError, match="does not match expected class id"):
        current(OverriddenState(state, Overrides(contracts=[claiming(PREVIOUS)])))


def test_an_instance_does_not_deploy_a_contract(claiming: Claiming) -> None:
    state = OverriddenState(MemoryState(), Overrides(contracts=[claiming(ORIGINAL)]))
    assert current(state) is None
    with pytest.raises(CallHalted, match="is not deployed"):
        Contracts(StateJournal(state), CHANGE, ProgramCache(release=FOUR)).program(ADDRESS)
