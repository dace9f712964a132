"""Blocks: transactions one after the other, and those that are left out."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from tests._ext.avm_programs import assemble, put
from tests.mempool.recorded import hashes, recorded_tx, recordings
from tests.public_execution.made import ENDLESS_LOOP, tx_running
from tests.public_execution.memory_state import MemoryState
from tests.public_execution.test_simulation import RECORDED_FEES, RECORDED_TIMESTAMP

from fastnode._twins.avm_instructions import FF, U32, U64
from fastnode.errors import DecodeError, ExecutionCancelled, TxExecutionError
from fastnode.kernels import avm
from fastnode.protocol.fields import ZERO_FIELD, field_from_int
from fastnode.protocol.header import GasFees, GlobalVariables
from fastnode.protocol.releases import FOUR
from fastnode.protocol.tx import Tx
from fastnode.protocol.tx_data import Gas, TxData
from fastnode.protocol.tx_layout import USUAL
from fastnode.public_execution.block import BlockLimits, execute_block
from fastnode.public_execution.contracts import ProgramCache
from fastnode.public_execution.executor import BlockExecutor, programs_of
from fastnode.public_execution.state import ViewState
from fastnode.public_execution.transaction import ExecutableTx, PrivateEffects
from fastnode.view import View

BLOCK = GlobalVariables(31337, 3658137161, 107, 0xA04, RECORDED_TIMESTAMP, bytes(20), bytes(32), RECORDED_FEES)

FREE_BLOCK = replace(BLOCK, gas_fees=GasFees(0, 0))


def labelled(*labels: str) -> list[Tx]:
    by_label = {recordings()[tx_hash]["label"]: tx_hash for tx_hash in hashes("fresh")}
    return [recorded_tx(by_label[label]) for label in labels]


TRANSFER, LOGS, REVERTS = labelled("token public transfer", "public logs", "assertion_failure")
(CHEAP,) = labelled("min fee cap 1")


# ---- blocks -------------------------------------------------------------------------------------


def test_a_block_has_the_effects_of_its_txs_in_order(view: View) -> None:
    outcome = execute_block(view, BLOCK, [TRANSFER, REVERTS, LOGS])
    assert [tx for tx, _ in outcome.included] == [TRANSFER, REVERTS, LOGS]
    assert [executed.effect.tx_hash for _, executed in outcome.included] == [TRANSFER.hash, REVERTS.hash, LOGS.hash]
    assert [executed.effect.revert_code for _, executed in outcome.included] == [0, 1, 0]
    assert outcome.left_out == []
    assert outcome.total_mana_used == sum(executed.gas.billed.l2_gas for _, executed in outcome.included)
    assert outcome.total_fees == outcome.total_mana_used * RECORDED_FEES.fee_per_l2_gas


def test_a_tx_sees_what_those_before_it_did(view: View) -> None:
    outcome = execute_block(view, BLOCK, [TRANSFER, TRANSFER, LOGS])
    assert [tx for tx, _ in outcome.included] == [TRANSFER, LOGS]
    (left_out,) = outcome.left_out
    assert left_out.tx is TRANSFER
    assert left_out.is_final
    assert "Attempted to emit duplicate siloed nullifier" in left_out.reason


def test_a_tx_that_is_left_out_changes_nothing_for_those_after_it(view: View) -> None:
    alone = execute_block(view, BLOCK, [LOGS]).included
    after = execute_block(view, BLOCK, [CHEAP, tx_running(b"\xff"), LOGS])
    assert [left_out.reason[:30] for left_out in after.left_out] == [
        "maxFeesPerGas.feePerL2Gas must",
        "C++ simulation failed: AVM sim",
    ]
    assert [left_out.is_final for left_out in after.left_out] == [False, True], "prices fall again, debts do not"
    assert after.included == alone


def test_a_tx_that_asks_for_more_gas_than_is_left_is_kept_for_another_block(view: View) -> None:
    ((_, first),) = execute_block(view, BLOCK, [TRANSFER]).included
    asked = LOGS.data.gas_limits
    da_gas, l2_gas = first.gas.billed.da_gas + asked.da_gas, first.gas.billed.l2_gas + asked.l2_gas
    for too_little in (Gas(da_gas - 1, l2_gas), Gas(da_gas, l2_gas - 1)):
        outcome = execute_block(view, BLOCK, [TRANSFER, LOGS], limits=BlockLimits(gas=too_little))
        assert [tx for tx, _ in outcome.included] == [TRANSFER]
        (left_out,) = outcome.left_out
        assert (left_out.tx, left_out.is_final) == (LOGS, False)
        assert left_out.reason == "The block has not enough gas left"
    assert execute_block(view, BLOCK, [TRANSFER, LOGS], limits=BlockLimits(gas=Gas(da_gas, l2_gas))).left_out == []


def test_a_tx_whose_effect_has_no_room_in_the_blobs_leaves_it_to_the_next(view: View) -> None:
    alone = [execute_block(view, BLOCK, [tx]) for tx in (LOGS, TRANSFER)]
    assert alone[0].blob_fields > alone[1].blob_fields > 0
    limits = BlockLimits(blob_fields=alone[0].blob_fields - 1)
    outcome = execute_block(view, BLOCK, [LOGS, TRANSFER], limits=limits)
    assert outcome.included == alone[1].included
    assert outcome.blob_fields == alone[1].blob_fields
    (left_out,) = outcome.left_out
    assert (left_out.tx, left_out.is_final) == (LOGS, False)
    exact = BlockLimits(blob_fields=alone[0].blob_fields + alone[1].blob_fields)
    assert execute_block(view, BLOCK, [LOGS, TRANSFER], limits=exact).left_out == []


def test_no_tx_is_begun_when_the_time_is_over(view: View) -> None:
    outcome = execute_block(view, BLOCK, [TRANSFER], limits=BlockLimits(deadline=time.monotonic()))
    assert outcome.included == []
    (left_out,) = outcome.left_out
    assert (left_out.reason, left_out.is_final) == ("The block's time is over", False)


def test_a_tx_that_takes_too_long_is_no_reason_to_drop_it(view: View) -> None:
    endless = tx_running(ENDLESS_LOOP, l2_gas=(1 << 32) - 1)
    outcome = execute_block(view, BLOCK, [TRANSFER, endless], limits=BlockLimits(deadline=time.monotonic() + 0.3))
    assert [tx for tx, _ in outcome.included] == [TRANSFER]
    (left_out,) = outcome.left_out
    assert "takes longer" in left_out.reason
    assert not left_out.is_final


def test_messages_of_the_checkpoint_are_there_before_the_first_tx(view: View) -> None:
    message, index = field_from_int(6001), ViewState(view).message_count
    program = put(10, FF, 6001) + put(11, U64, index + 1) + assemble("L1TOL2MSGEXISTS", 10, 11, 12)
    tx = tx_running(program + put(1, U32, 1) + assemble("RETURN", 1, 12))
    for messages, found in (([ZERO_FIELD, message], 1), ([message], 0), ([], 0)):
        outcome = execute_block(view, FREE_BLOCK, [tx], l1_to_l2_messages=messages)
        assert outcome.included[0][1].app_outputs == (field_from_int(found),)


def free_block() -> BlockExecutor:
    """A block that charges nothing, on an empty state."""
    return BlockExecutor(MemoryState(), FREE_BLOCK, programs=ProgramCache(release=FOUR))


def publisher_and_caller(program: bytes) -> tuple[ExecutableTx, ExecutableTx]:
    """One without public calls that publishes a contract, and one that calls it."""
    both = ExecutableTx.of(tx_running(program))
    publisher = replace(both, app_calls=())
    caller = replace(both, setup=PrivateEffects(nullifiers=(field_from_int(0xF125701),)))
    return publisher, caller


def test_a_contract_of_an_earlier_tx_can_be_called() -> None:
    publisher, caller = publisher_and_caller(put(1, U32, 1) + assemble("RETURN", 1, 2))
    assert free_block().execute(caller).failure is not None
    executor = free_block()
    executor.execute(publisher)
    executed = executor.execute(caller)
    assert executed.failure is None
    assert executed.app_outputs == (ZERO_FIELD,)


def test_notes_of_each_tx_have_64_leaves_of_their_own() -> None:
    """The program looks for the first note of the earlier transaction, its own one, and one place further."""
    first, second = field_from_int(5001), field_from_int(5002)
    program = b""
    for cell, (note, leaf) in enumerate([(first, 0), (second, 64), (second, 65)]):
        program += put(10, FF, int.from_bytes(note, "big")) + put(11, U64, leaf)
        program += assemble("NOTEHASHEXISTS", 10, 11, 20 + cell)
    publisher, caller = publisher_and_caller(program + put(1, U32, 3) + assemble("RETURN", 1, 20))
    executor = free_block()
    executor.execute(replace(publisher, setup=publisher.setup._replace(note_hashes=(first,))))
    executed = executor.execute(replace(caller, setup=caller.setup._replace(note_hashes=(second,))))
    assert executed.app_outputs == (field_from_int(1) * 2 + ZERO_FIELD,)


# ---- one transaction ----------------------------------------------------------------------------


def test_a_failed_tx_leaves_the_state_as_it_was(view: View) -> None:
    executor = BlockExecutor(ViewState(view), BLOCK, programs=programs_of(FOUR))
    with pytest.raises(TxExecutionError, match="Not enough balance"):
        executor.execute(ExecutableTx.of(tx_running(ENDLESS_LOOP, l2_gas=600_000)))
    with pytest.raises(TxExecutionError, match="Not enough balance"):
        executor.execute(ExecutableTx.of(tx_running(ENDLESS_LOOP, l2_gas=600_000)))
    executed = executor.execute(ExecutableTx.of(tx_running(ENDLESS_LOOP, l2_gas=600_000)), skip_fee_enforcement=True)
    assert executed.effect.revert_code == 1
    assert executed.failure is not None
    assert executed.failure[-1].message.startswith("Out of gas: total L2 used 600")


def test_a_cancelled_executor_runs_nothing_more(view: View) -> None:
    executor = BlockExecutor(ViewState(view), BLOCK, programs=programs_of(FOUR))
    executor.cancel()
    with pytest.raises(ExecutionCancelled):
        executor.execute(ExecutableTx.of(TRANSFER))


def test_a_contract_of_an_unpublished_class_is_an_error() -> None:
    tx = ExecutableTx.of(tx_running(ENDLESS_LOOP))
    setup = tx.setup._replace(class_logs=())
    unpublished = ExecutableTx(
        **{name: getattr(tx, name) for name in ExecutableTx.__slots__ if name != "setup"}, setup=setup
    )
    with pytest.raises(TxExecutionError, match=r"Contract class not found"):
        BlockExecutor(MemoryState(), BLOCK, programs=ProgramCache(release=FOUR)).execute(
            unpublished, skip_fee_enforcement=True
        )


def test_a_class_that_is_not_what_its_id_says_is_an_error() -> None:
    tx = tx_running(ENDLESS_LOOP)
    (log,) = tx.class_logs
    forged = log[:32] + (9).to_bytes(32, "big") + log[64:]
    wrong = Tx(tx.data, tx.proof, (forged,), tx.calldata)
    with pytest.raises(TxExecutionError, match="Invalid contract class id: computed 0x"):
        BlockExecutor(MemoryState(), BLOCK, programs=programs_of(FOUR)).execute(
            ExecutableTx.of(wrong), skip_fee_enforcement=True
        )


def test_a_log_longer_than_a_log_is_only_simulated(view: View) -> None:
    tx = tx_running(ENDLESS_LOOP)
    buffer = bytearray(tx.data.buffer)
    end = USUAL.non_revertible + USUAL.private_logs + USUAL.private_log_bytes
    buffer[end - 1] = 17
    overlong = Tx(TxData.from_buffer(bytes(buffer)), tx.proof, tx.class_logs, tx.calldata)
    with pytest.raises(DecodeError, match="emitted length 17, at most 16"):
        ExecutableTx.of(overlong)
    assert ExecutableTx.of(overlong, accepts_overlong_logs=True).setup.private_logs[0].emitted_length == 17
    assert execute_block(view, BLOCK, [overlong]).left_out[0].is_final


def test_the_cache_of_programs_lets_go_of_those_not_used_for_longest() -> None:
    cache = ProgramCache(bytecode_bytes_max=250, release=FOUR)
    programs = [avm.Program(bytes([number]) * 100) for number in range(3)]
    keys = [bytes([number]) for number in range(3)]
    for key, program in zip(keys[:2], programs[:2], strict=True):
        cache.put(key, program)
    assert cache.get(keys[0]) is programs[0]
    cache.put(keys[2], programs[2])
    assert [cache.get(key) for key in keys] == [programs[0], None, programs[2]]
