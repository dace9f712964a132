"""Effects of a transaction that survive a failure in one of its phases.  The vectors have the rest."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests._ext.avm_programs import assemble, put
from tests.public_execution.made import ADDRESS, CALLDATA_HASH, ENDLESS_LOOP, tx_running
from tests.public_execution.memory_state import MemoryState
from tests.public_execution.test_executor import BLOCK

from fastnode._twins.avm_instructions import U32
from fastnode.errors import TxExecutionError
from fastnode.protocol.effects import PrivateLog
from fastnode.protocol.fields import ZERO_FIELD, field_from_int
from fastnode.protocol.header import GasFees
from fastnode.protocol.releases import FIVE, FOUR, Release
from fastnode.protocol.tx_data import CallRequest, Gas
from fastnode.public_execution.contracts import ProgramCache
from fastnode.public_execution.executor import BlockExecutor
from fastnode.public_execution.results import ExecutedTx
from fastnode.public_execution.transaction import ExecutableTx

RETURNS = put(1, U32, 0) + assemble("RETURN", 1, 2)
REVERTS = put(1, U32, 0) + assemble("REVERT", 1, 2)
CALL = CallRequest(field_from_int(42), ADDRESS, 0, CALLDATA_HASH)
NOBODYS = CALL._replace(contract_address=field_from_int(0x9999))
APP_LOG = PrivateLog((field_from_int(77),) * 16, 16)


FREE = GasFees(0, 0)


def execute(tx: ExecutableTx, *, fees: GasFees = FREE, release: Release = FOUR) -> ExecutedTx:
    executor = BlockExecutor(MemoryState(), replace(BLOCK, gas_fees=fees), programs=ProgramCache(release=release))
    return executor.execute(tx, skip_fee_enforcement=True)


def made(program: bytes) -> ExecutableTx:
    """Its app logic brings a log and a nullifier, and calls a contract that its setup part publishes."""
    tx = ExecutableTx.of(tx_running(program))
    return replace(tx, app=tx.app._replace(private_logs=(APP_LOG,), nullifiers=(field_from_int(5000),)))


@pytest.mark.parametrize(
    ("app_call", "teardown_call", "code"),
    [(CALL, CALL, 0), (NOBODYS, CALL, 1), (CALL, NOBODYS, 2), (NOBODYS, NOBODYS, 3)],
)
def test_what_can_be_reverted_is_there_when_nothing_failed(
    app_call: CallRequest, teardown_call: CallRequest, code: int
) -> None:
    tx = replace(made(RETURNS), app_calls=(app_call,), teardown_call=teardown_call, teardown_gas_limits=Gas(0, 1000))
    effect = execute(tx).effect
    assert effect.revert_code == code
    assert (APP_LOG in effect.private_logs) == (code == 0)
    assert (field_from_int(5000) in effect.nullifiers) == (code == 0)
    assert set(tx.setup.private_logs) <= set(effect.private_logs)
    assert effect.contract_class_logs == tx.setup.class_logs
    assert set(tx.setup.nullifiers) <= set(effect.nullifiers)


def test_a_class_of_the_app_logic_goes_with_it() -> None:
    """It may run, but the log is gone when teardown fails."""
    tx = made(RETURNS)
    moved = replace(
        tx,
        setup=tx.setup._replace(class_logs=(), private_logs=()),
        app=tx.app._replace(class_logs=tx.setup.class_logs, private_logs=tx.setup.private_logs),
    )
    good = execute(moved)
    assert good.effect.revert_code == 0
    assert good.effect.contract_class_logs == tx.setup.class_logs
    failed = execute(replace(moved, teardown_call=NOBODYS))
    assert failed.effect.revert_code == 2
    assert failed.effect.contract_class_logs == failed.effect.private_logs == ()


def test_teardown_is_paid_for_with_its_limit_and_used_as_it_was() -> None:
    limits = Gas(100, 10_000)
    tx = replace(made(RETURNS), teardown_call=CALL, teardown_gas_limits=limits)
    with_limits = replace(tx, gas_used=Gas(tx.gas_used.da_gas + 100, tx.gas_used.l2_gas + 10_000))
    executed = execute(with_limits, fees=GasFees(2, 3))
    one_call = 27 + 9
    gas = executed.gas
    assert gas.teardown == Gas(0, one_call)
    assert gas.billed == Gas(with_limits.gas_used.da_gas, with_limits.gas_used.l2_gas + one_call)
    assert gas.total == Gas(gas.billed.da_gas - 100, gas.billed.l2_gas - 10_000 + one_call)
    assert gas.public == Gas(0, 2 * one_call)
    assert executed.effect.transaction_fee == 2 * gas.billed.da_gas + 3 * gas.billed.l2_gas


def test_a_limit_of_teardown_without_teardown_changes_nothing() -> None:
    tx = made(RETURNS)
    assert execute(replace(tx, teardown_gas_limits=Gas(7, 7))) == execute(tx)


def test_a_failing_setup_call_is_an_error_of_the_tx() -> None:
    text = rf"^C\+\+ simulation failed: AVM simulation failed: \[SETUP\] .* Enqueued call to 0x{ADDRESS.hex()} failed$"
    with pytest.raises(TxExecutionError, match=text):
        execute(replace(made(REVERTS), setup_calls=(CALL,), app_calls=()))


def test_a_nullifier_that_exists_reverts_the_app_logic_before_5_x_and_stops_the_tx_from_then_on() -> None:
    """As the native machines of both do; in the setup part it stops the transaction in both."""
    tx = replace(ExecutableTx.of(tx_running(RETURNS)), app_calls=(NOBODYS,))
    first = tx.setup.nullifiers[0]
    bare = replace(tx, setup=tx.setup._replace(class_logs=(), private_logs=()))
    in_app = replace(bare, app=tx.app._replace(nullifiers=(first,)))
    in_setup = replace(bare, setup=bare.setup._replace(nullifiers=(first, first)))
    duplicate = f"Attempted to emit duplicate siloed nullifier 0x{first.hex()}."
    start = "C++ simulation failed: AVM simulation failed: "
    assert execute(in_app).effect.revert_code == 1
    for wrong, release, reason in (
        (in_setup, FOUR, start + duplicate),
        (in_setup, FIVE, f"{start}[NR_NULLIFIER_INSERTION] UNRECOVERABLE ERROR! Nullifier collision: {duplicate}"),
        (in_app, FIVE, f"{start}[R_NULLIFIER_INSERTION] UNRECOVERABLE ERROR! Nullifier collision: {duplicate}"),
    ):
        with pytest.raises(TxExecutionError) as refusal:
            execute(wrong, release=release)
        assert str(refusal.value) == reason


def test_from_5_x_on_effects_do_not_say_which_part_reverted() -> None:
    tx = made(RETURNS)
    bare = replace(tx, setup=tx.setup._replace(class_logs=(), private_logs=()), teardown_call=NOBODYS)
    for app_calls, codes in (((), [2, 1]), ((NOBODYS,), [3, 1])):
        failing = replace(bare, app_calls=app_calls)
        assert [execute(failing, release=release).effect.revert_code for release in (FOUR, FIVE)] == codes


def test_calls_after_the_first_that_fails_are_not_run() -> None:
    executed = execute(replace(made(ENDLESS_LOOP), app_calls=(NOBODYS, CALL), gas_limits=Gas(1000, 700_000)))
    assert len(executed.app_outputs) == 1
    assert executed.gas.billed.l2_gas == 700_000, "a halt takes all that is left"
    assert executed.failure is not None
    assert executed.failure[0].address == NOBODYS.contract_address


def test_unknown_calldata_is_empty() -> None:
    program = put(1, U32, 3) + put(2, U32, 0) + assemble("CALLDATACOPY", 1, 2, 10) + assemble("RETURN", 1, 10)
    tx = replace(made(program), calldata={CALLDATA_HASH: field_from_int(5) * 3})
    assert execute(tx).app_outputs == (field_from_int(5) * 3,)
    assert execute(replace(tx, calldata={})).app_outputs == (ZERO_FIELD * 3,)
