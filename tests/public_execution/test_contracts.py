"""Class that runs at an address, and what the logs of a transaction publish."""

from __future__ import annotations

import pytest
from tests._ext.avm_programs import assemble
from tests.public_execution.made import ADDRESS, ENDLESS_LOOP, tx_running
from tests.public_execution.memory_state import REGISTRY, MemoryState

from fastnode.errors import CallHalted, TxExecutionError
from fastnode.protocol.constants import PROTOCOL_CONTRACTS_MAX
from fastnode.protocol.contracts import INSTANCE_PUBLISHED_TAG
from fastnode.protocol.effects import ContractClassLog, PrivateLog
from fastnode.protocol.fields import MODULUS, ZERO_FIELD, field_from_int
from fastnode.protocol.releases import FIVE, FOUR
from fastnode.protocol.siloing import public_leaf_slot, storage_map_slot
from fastnode.public_execution.contracts import Contracts, CurrentContract, ProgramCache, publish
from fastnode.public_execution.state import PublishedContract, StateJournal
from fastnode.public_execution.transaction import ExecutableTx

ORIGINAL, PREVIOUS, POST = (field_from_int(number) for number in (101, 102, 103))
DEPLOYER, INITIALIZATION = field_from_int(201), field_from_int(202)
CONTRACT = PublishedContract(ORIGINAL, DEPLOYER, INITIALIZATION)
#: Later than 2^31, as timestamps will be in 2038.
CHANGE = (1 << 31) + 1000
#: Other content of the first word of an update, above the timestamp.
DELAYS = 0x1234 << 32


def state_with(address: bytes = ADDRESS) -> MemoryState:
    state = MemoryState()
    state.deploy(address, CONTRACT)
    return state


def update(state: MemoryState, address: bytes, *words: bytes) -> None:
    """Write what the registry keeps of an update: the packed word, the class before and after, the hash."""
    base = int.from_bytes(storage_map_slot(field_from_int(1), address), "big")
    for offset, word in enumerate(words):
        state.leaves[public_leaf_slot(REGISTRY, field_from_int((base + offset) % MODULUS))] = word


def contracts_of(state: MemoryState, timestamp: int = CHANGE) -> Contracts:
    return Contracts(StateJournal(state), timestamp, ProgramCache(release=FOUR))


def class_at(state: MemoryState, timestamp: int) -> bytes:
    contract = contracts_of(state, timestamp).current(ADDRESS)
    assert contract is not None
    return contract.class_id


# ---- updates ------------------------------------------------------------------------------------


def test_a_class_changes_at_the_time_of_its_update_and_not_before() -> None:
    state = state_with()
    assert class_at(state, CHANGE) == ORIGINAL
    update(state, ADDRESS, field_from_int(DELAYS | CHANGE), PREVIOUS, POST, field_from_int(1))
    assert [class_at(state, CHANGE + offset) for offset in (-1, 0, 1)] == [PREVIOUS, POST, POST]


def test_class_zero_of_an_update_is_the_original_one() -> None:
    state = state_with()
    update(state, ADDRESS, field_from_int(DELAYS | CHANGE), ZERO_FIELD, POST, field_from_int(1))
    assert class_at(state, CHANGE - 1) == ORIGINAL
    update(state, ADDRESS, field_from_int(DELAYS | CHANGE), PREVIOUS, ZERO_FIELD, field_from_int(1))
    assert class_at(state, CHANGE) == ORIGINAL


def test_an_update_without_its_hash_is_none() -> None:
    state = state_with()
    update(state, ADDRESS, field_from_int(DELAYS | CHANGE), PREVIOUS, POST, ZERO_FIELD)
    assert [class_at(state, CHANGE + offset) for offset in (-1, 0)] == [ORIGINAL, ORIGINAL]


# ---- what is deployed ---------------------------------------------------------------------------


def test_a_contract_is_deployed_by_its_nullifier() -> None:
    state = state_with()
    state.nullifiers.clear()
    assert contracts_of(state).current(ADDRESS) is None
    with pytest.raises(CallHalted, match=r"^Contract 0xadd2e55 is not deployed$"):
        contracts_of(state).program(ADDRESS)


def test_a_nullifier_without_an_instance_is_an_error_of_the_tx() -> None:
    state = state_with()
    state.contracts.clear()
    with pytest.raises(TxExecutionError, match=r"Contract instance 0x0+add2e55 is not published"):
        contracts_of(state).current(ADDRESS)


@pytest.mark.parametrize("number", [1, PROTOCOL_CONTRACTS_MAX])
def test_a_protocol_address_needs_no_nullifier(number: int) -> None:
    state = MemoryState(contracts={field_from_int(number): CONTRACT})
    assert contracts_of(state).current(field_from_int(number)) == CurrentContract.of(CONTRACT, ORIGINAL)


@pytest.mark.parametrize("number", [0, PROTOCOL_CONTRACTS_MAX + 1])
def test_the_addresses_beside_the_protocols_need_one(number: int) -> None:
    address = field_from_int(number)
    assert contracts_of(MemoryState(contracts={address: CONTRACT})).current(address) is None
    assert contracts_of(state_with(address)).current(address) is not None


# ---- what a transaction publishes ---------------------------------------------------------------


def instance_log(address: bytes, *, tag: bytes = INSTANCE_PUBLISHED_TAG, version: int = 1) -> PrivateLog:
    keys = [field_from_int(300 + number) for number in range(8)]
    fields = (tag, address, field_from_int(version), field_from_int(5), ORIGINAL, INITIALIZATION, *keys, DEPLOYER)
    return PrivateLog((*fields, ZERO_FIELD), len(fields))


def test_an_instance_is_published_as_its_log_states_it() -> None:
    journal = StateJournal(MemoryState())
    publish(journal, (), [instance_log(ADDRESS)], FOUR)
    assert journal.contract(ADDRESS) == CONTRACT


def test_a_private_log_with_another_tag_publishes_nothing() -> None:
    journal = StateJournal(MemoryState())
    publish(journal, (), [instance_log(ADDRESS, tag=field_from_int(7))], FOUR)
    assert journal.contract(ADDRESS) is None


def test_an_instance_of_another_version_is_an_error_of_the_tx() -> None:
    with pytest.raises(TxExecutionError, match=r"^Unexpected contract instance version 2$"):
        publish(StateJournal(MemoryState()), (), [instance_log(ADDRESS, version=2)], FOUR)


def test_a_class_that_nobody_has_published_is_an_error_of_the_tx() -> None:
    with pytest.raises(TxExecutionError, match=r"Reason   : Contract class not found$"):
        contracts_of(state_with()).program(ADDRESS)


@pytest.mark.parametrize("number", [1, PROTOCOL_CONTRACTS_MAX])
def test_a_contract_of_the_protocol_cannot_be_published(number: int) -> None:
    journal = StateJournal(MemoryState())
    publish(journal, (), [instance_log(field_from_int(number))], FOUR)
    assert Contracts(journal, CHANGE, ProgramCache(release=FOUR)).current(field_from_int(number)) is None


def test_only_the_class_registry_publishes_classes() -> None:
    (log,) = ExecutableTx.of(tx_running(ENDLESS_LOOP)).setup.class_logs
    assert log.contract_address == FOUR.addresses.class_registry
    other_contract = ContractClassLog(ADDRESS, log.fields, log.emitted_length)
    other_event = ContractClassLog(log.contract_address, field_from_int(9) + log.fields[32:], log.emitted_length)
    class_id = log.fields[32:64]
    journal = StateJournal(MemoryState())
    publish(journal, [other_contract, other_event], (), FOUR)
    assert journal.contract_class(class_id) is None
    publish(journal, [log], (), FOUR)
    assert journal.contract_class(class_id) == assemble("JUMP", 0)


def test_a_class_under_an_id_that_is_not_its_own_fails_the_tx_or_is_used_by_it_alone_as_the_release_says() -> None:
    (log,) = ExecutableTx.of(tx_running(ENDLESS_LOOP)).setup.class_logs
    wrong = ContractClassLog(log.contract_address, log.fields[:32] + ORIGINAL + log.fields[64:], log.emitted_length)
    address = FIVE.addresses.class_registry
    with pytest.raises(TxExecutionError, match="Invalid contract class id"):
        publish(StateJournal(MemoryState()), [wrong], (), FOUR)
    journal, programs = StateJournal(state_with()), ProgramCache(release=FIVE)
    genuine = programs.decode(assemble("JUMP", 7))
    programs.put(ORIGINAL, genuine)
    assert Contracts(journal, CHANGE, programs).program(ADDRESS) is genuine
    publish(journal, [ContractClassLog(address, wrong.fields, wrong.emitted_length)], (), FIVE)
    assert Contracts(journal, CHANGE, programs).program(ADDRESS).bytecode == assemble("JUMP", 0)
    assert programs.get(ORIGINAL) is genuine, "what others run"
