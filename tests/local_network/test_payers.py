"""Transactions that each could be included alone, but not together: the same payer, the same nullifier; and time."""

from __future__ import annotations

import base64
import threading

import pytest
from tests.local_network.local_chain import DAY, NOW, LocalChain

from fastnode.errors import Refused
from fastnode.mempool.ledger import ViewLedger
from fastnode.mempool.pricing import fee_limit
from fastnode.mempool.validation import BALANCE_TOO_LOW
from fastnode.protocol.releases import FOUR
from fastnode.protocol.tx import Tx
from fastnode.protocol.tx_layout import USUAL


def balance(chain: LocalChain, tx: Tx) -> int:
    return ViewLedger(chain.view).fee_juice_balance(tx.data.fee_payer)


def block_of(chain: LocalChain, txs: list[Tx]) -> list[bytes]:
    """Build a block of transactions that the pool has not looked at; the hashes of those that are in it."""
    mined = chain.network.do(lambda: chain.network.mine_one(may_be_empty=True, txs=txs))
    assert mined is not None
    return list(chain.ingestor.view.tx_hashes(mined.number) or ())


def test_a_payer_that_runs_dry_inside_a_block_pays_for_what_it_can(quiet_chain: LocalChain) -> None:
    chain = quiet_chain
    txs = [chain.tx() for _ in range(3)]
    limit = fee_limit(txs[0].data)
    chain.changes.set_fee_juice_balance(txs[0].data.fee_payer, limit)
    assert block_of(chain, txs) == [txs[0].hash]
    # What is left is less than the next might cost.
    assert 0 <= balance(chain, txs[0]) < limit
    assert [chain.network.notes.dropped_reason(tx.hash) for tx in txs] == [None, BALANCE_TOO_LOW, BALANCE_TOO_LOW]


def test_a_payer_with_enough_for_two_pays_for_two_in_one_block(quiet_chain: LocalChain) -> None:
    chain = quiet_chain
    txs = [chain.tx() for _ in range(3)]
    limit = fee_limit(txs[0].data)
    fee = chain.network.fees.current().fee_per_l2_gas * txs[0].data.gas_used.l2_gas
    chain.changes.set_fee_juice_balance(txs[0].data.fee_payer, limit + fee)
    assert block_of(chain, txs) == [tx.hash for tx in txs[:2]]
    assert balance(chain, txs[0]) == limit - fee


def test_the_pool_lets_go_of_what_a_payer_cannot_pay_any_more(quiet_chain: LocalChain) -> None:
    chain = quiet_chain
    txs = [chain.tx() for _ in range(3)]
    for tx in txs:
        chain.send(tx)
    chain.changes.set_fee_juice_balance(txs[0].data.fee_payer, 0)
    chain.changes.mine()
    assert chain.pending == []
    assert [chain.block_of(tx) for tx in txs].count(None) >= 2


def test_a_payer_that_gets_fee_juice_again_can_pay_again(quiet_chain: LocalChain) -> None:
    chain = quiet_chain
    tx = chain.tx()
    chain.changes.set_fee_juice_balance(tx.data.fee_payer, 0)
    with pytest.raises(Refused, match=BALANCE_TOO_LOW):
        chain.send(tx)
    chain.changes.set_fee_juice_balance(tx.data.fee_payer, fee_limit(tx.data))
    later = chain.tx()
    chain.send(later)
    chain.changes.mine()
    assert chain.block_of(later) is not None


def test_two_txs_with_the_same_nullifier_are_not_both_in_the_chain(quiet_chain: LocalChain) -> None:
    chain = quiet_chain
    first = chain.tx()
    # The same content at another price: another hash, the same nullifiers.
    data = bytearray(first.data.buffer)
    data[USUAL.max_priority_fees + 31] = 5
    second = Tx.from_json(first.to_json() | {"data": base64.b64encode(data).decode()}, FOUR)
    assert second.hash != first.hash
    chain.send(first)
    chain.send(second)
    chain.changes.mine(2)
    places = [chain.block_of(tx) for tx in (first, second)]
    assert places.count(None) == 1


def test_a_tx_is_taken_after_a_warp_of_two_days(chain: LocalChain) -> None:
    chain.changes.warp_by(2 * DAY)
    assert chain.timestamp() >= NOW + 2 * DAY
    tx = chain.tx()
    chain.send(tx)
    assert chain.block_of(tx) == chain.tip
    # Receivers refuse a log older than a day that is not final while a newer one is.
    assert chain.tip_numbers()[3] >= 5


def test_senders_at_the_same_time_all_get_their_blocks(chain: LocalChain) -> None:
    txs = [chain.tx() for _ in range(12)]
    threads = [
        threading.Thread(target=lambda part=part: [chain.send(tx) for tx in part]) for part in (txs[::2], txs[1::2])
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(chain.block_of(tx) is not None for tx in txs)
    assert chain.pending == []
