"""A local network of release 5.x: its own transactions from the pool into blocks, and what it refuses."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from tests._ext.avm_programs import FF, U32, assemble, put
from tests.local_network.local_chain import LocalChain
from tests.protocol.releases import txs_5
from tests.public_execution.made import valid_tx_running

from fastnode.archiver.check import check_database
from fastnode.archiver.store import ArchiverStore
from fastnode.config.settings import Settings
from fastnode.errors import DecodeError, Refused, SettingError
from fastnode.local_network.genesis import setup_of
from fastnode.local_network.opening import BeginningChain, release_of
from fastnode.mempool.ledger import ViewLedger
from fastnode.mempool.validation import FEE_TOO_LOW
from fastnode.protocol.effects import PublicDataWrite
from fastnode.protocol.fields import field_from_int
from fastnode.protocol.header import GasFees
from fastnode.protocol.releases import FIVE, FOUR
from fastnode.protocol.siloing import public_leaf_slot
from fastnode.protocol.tx import Tx
from fastnode.protocol.tx_data import TxData
from fastnode.protocol.tx_layout import USUAL

PAYER = b"\0" * 30 + b"\xfe\xed"
FUNDS = 10**24
#: Writes 77 into its slot 5.
WRITES = put(10, FF, 77) + put(11, FF, 5) + assemble("SSTORE", 10, 11) + put(1, U32, 0) + assemble("RETURN", 1, 2)
REVERTS = put(1, U32, 0) + assemble("REVERT", 1, 2)


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalChain]:
    folder = tmp_path_factory.mktemp("five")
    with LocalChain(folder, setup=setup_of(FIVE), funds={PAYER: FUNDS}) as chain:
        yield chain


def tx_of(chain: LocalChain, bytecode: bytes, *, number: int) -> Tx:
    """``number``: a value in the bytecode, so that each publishes a class of its own."""
    version = chain.ingestor.view.chain.rollup_version
    return valid_tx_running(put(20, FF, number) + bytecode, chain.header(), version, PAYER, release=FIVE)


def edited(tx: Tx, *edits: tuple[int, bytes]) -> Tx:
    data = bytearray(tx.data.buffer)
    for offset, value in edits:
        data[offset : offset + len(value)] = value
    return replace(tx, data=TxData.from_buffer(bytes(data)))


def balance(chain: LocalChain) -> int:
    return ViewLedger(chain.view).fee_juice_balance(PAYER)


def test_a_new_network_has_the_contracts_of_its_release_and_no_others(chain: LocalChain) -> None:
    view = chain.ingestor.view
    assert view.chain.release is FIVE
    assert view.chain.node_version == FIVE.usual_version
    assert balance(chain) > 0
    for number in (1, 2, 3):
        assert view.contract_instance_json(field_from_int(number)) is not None
    assert view.contract_instance_json(field_from_int(4)) is None


def test_a_transaction_is_taken_executed_and_paid_for(chain: LocalChain) -> None:
    before = balance(chain)
    tx = tx_of(chain, WRITES, number=1)
    chain.send(tx)
    chain.changes.mine()
    number = chain.block_of(tx)
    assert number is not None
    block = chain.ingestor.view.load_block(number)
    assert block is not None
    (effect,) = block.body.tx_effects
    assert effect.revert_code == 0
    address = effect.private_logs[0].fields[1]
    written = PublicDataWrite(public_leaf_slot(address, field_from_int(5)), field_from_int(77))
    assert written in effect.public_data_writes
    assert before - balance(chain) == effect.transaction_fee > 0
    assert chain.ingestor.view.checkpoint(block.checkpoint_number) is not None


def test_a_transaction_that_reverts_is_in_a_block_and_pays(chain: LocalChain) -> None:
    tx = tx_of(chain, REVERTS, number=2)
    chain.send(tx)
    chain.changes.mine()
    number = chain.block_of(tx)
    assert number is not None
    block = chain.ingestor.view.load_block(number)
    assert block is not None
    assert (block.body.tx_effects[0].revert_code, bool(block.body.tx_effects[0].transaction_fee)) == (1, True)


@pytest.mark.parametrize("form", ["none", "compressed"])
def test_the_form_of_a_proof_is_kept_in_the_pool(chain: LocalChain, form: str) -> None:
    assert chain.mempool is not None
    packed = txs_5.made_compressed_proof(random.Random(1)) if form == "compressed" else b""
    tx = replace(tx_of(chain, WRITES, number=3 + len(packed)), proof=b"", compressed_proof=packed)
    # Priced too low for a block that is built at once, it would not be there to read.
    chain.changes.set_automine(False)
    try:
        chain.send(tx)
        stored = chain.mempool.pool.tx_json(tx.hash)
        assert stored == tx.to_json_bytes()
        assert Tx.from_json(orjson.loads(stored), FIVE) == tx
    finally:
        chain.changes.set_automine(True)
    chain.changes.mine()
    assert chain.block_of(tx) is not None


def reasons_of(chain: LocalChain, tx: Tx, **options: Any) -> tuple[str, tuple[str, ...]]:
    assert chain.mempool is not None
    found = chain.mempool.validate(tx, chain.view, **options)
    return found.result, found.reasons


def test_what_breaks_a_rule_of_5_x_is_invalid_by_its_reason(chain: LocalChain) -> None:
    tx = tx_of(chain, WRITES, number=5)
    assert reasons_of(chain, tx) == ("valid", ())
    log = USUAL.non_revertible + USUAL.private_logs
    registry = USUAL.non_revertible + USUAL.class_log_hashes + 36
    for offset, value, reason in (
        (USUAL.vk_tree_root, FOUR.vk_tree_root, "Incorrect verification keys tree root"),
        (USUAL.protocol_contracts_hash, FOUR.contracts_hash, "Incorrect protocol contracts hash"),
        (USUAL.chain_id, field_from_int(1), "Incorrect L1 chain id"),
        (USUAL.expiration, (1).to_bytes(8, "big"), "Invalid expiration timestamp"),
        (USUAL.gas_limits, (786_433).to_bytes(4, "big"), "Gas limit is higher than the amount of gas that the AVM"),
        (USUAL.gas_limits + 4, (539_999).to_bytes(4, "big"), "Gas limit is below the minimum fixed cost"),
        (USUAL.max_fees + 16, (10**30).to_bytes(16, "big"), "Insufficient fee payer balance"),
        (log + 64, field_from_int(1), "Failed to parse contract instance deployment log"),
        (log + 96, field_from_int(9), "Incorrect contract instance deployment address"),
    ):
        result, reasons = reasons_of(chain, edited(tx, (offset, value)))
        assert (result, any(said.startswith(reason) for said in reasons)) == ("invalid", True), (reason, reasons)
    # A log of the registry of 4.x publishes nothing in 5.x: whatever is in it, it is no class.
    forged = edited(tx, (registry, FOUR.addresses.class_registry))
    assert reasons_of(chain, forged) == ("valid", ())


def test_a_price_that_is_too_low_is_invalid_in_5_x(chain: LocalChain) -> None:
    assert chain.mempool is not None
    tx = edited(tx_of(chain, WRITES, number=6), (USUAL.max_fees, bytes(32)))
    validator = chain.mempool.validator
    found = validator.validate(tx, ViewLedger(chain.view), GasFees(0, 1))
    assert (found.result, found.reasons) == ("invalid", (FEE_TOO_LOW,))
    assert validator.validate(tx, ViewLedger(chain.view), GasFees(0, 1), may_wait_for_price=True).is_valid


def test_random_damages_are_refused_with_a_reason_or_taken_and_nothing_else(chain: LocalChain) -> None:
    """A transaction with any bytes changed: it does not decode, is refused, or is one that a block can have."""
    rng = random.Random(7)
    taken, refused = 0, 0
    whole = tx_of(chain, WRITES, number=7).to_buffer()
    for _ in range(60):
        buffer = bytearray(whole)
        for _ in range(rng.randrange(1, 3)):
            # The head and the first items of each kind: elsewhere most of it is zeros.
            place = rng.choice((rng.randrange(32, 32 + USUAL.head_bytes), rng.randrange(len(buffer))))
            buffer[place : place + 1] = rng.choice((b"\0", b"\1", b"\xff", rng.randbytes(1)))
        try:
            chain.send(Tx.from_buffer(bytes(buffer), FIVE))
            taken += 1
        except (DecodeError, Refused):
            refused += 1
        chain.changes.mine()
    assert taken + refused == 60
    assert refused > 0


def test_every_block_verifies_again(chain: LocalChain) -> None:
    """Last of those that use the chain."""
    report = check_database(chain.data.store)
    assert report.problems == []


@pytest.mark.parametrize(("said", "release"), [(None, FOUR), ("4.3.0", FOUR), ("5.2", FIVE), ("5.0.1", FIVE)])
def test_the_release_of_a_new_network_is_that_of_the_version_named(said: str | None, release: Any) -> None:
    assert release_of(Settings(release=said)) is release


def test_a_version_of_no_release_is_refused_by_name() -> None:
    with pytest.raises(SettingError, match=r"--release 9\.1: a node version of none of the releases 4\.x, 5\.x"):
        release_of(Settings(release="9.1"))


def test_with_an_l1_no_network_of_5_x_begins(tmp_path: Path) -> None:
    settings = Settings(release="5.2", l1_rpc_urls=("http://127.0.0.1:1",), local_network=True)
    with (
        ArchiverStore.open(tmp_path) as store,
        ExitStack() as stack,
        pytest.raises(SettingError, match=r"--l1-rpc-urls: a local network of release 5\.x has no L1 here"),
    ):
        BeginningChain(settings, store, tmp_path, stack)


def test_a_minor_version_means_its_first_that_is_known() -> None:
    assert [FIVE.version_named(text) for text in ("5.2", "5.0", "5.0.1", "5.9")] == ["5.2.0", "5.0.0", "5.0.1", "5.9"]
