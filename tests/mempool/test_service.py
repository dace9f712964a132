"""From settings to a mempool, and what stops a start."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
from tests.local_network.local_chain import OPTIONS, LocalChain
from tests.mempool.chain import chain_records
from tests.mempool.made import hash_of, made_txs
from tests.taking_node import start_taking

from fastnode.config.settings import Settings
from fastnode.errors import Refused, SettingError
from fastnode.mempool.entries import PoolEntry
from fastnode.mempool.network import NetworkIdentity
from fastnode.mempool.pool import Added
from fastnode.mempool.service import Mempool, MempoolOptions
from fastnode.mempool.validation import FEE_TOO_LOW, TxValidationResult
from fastnode.protocol.fields import MODULUS
from fastnode.protocol.releases import FIVE, FOUR, Release
from fastnode.protocol.tx import Tx


class _Chain:
    """The part of a view that a network identity reads: the bundled chain's genesis under another node version."""

    def __init__(self, version: str) -> None:
        self.node_version, self.release = version, FOUR
        self.l1_chain_id, self.rollup_version = 31337, 3658137161
        self._instances = {instance["address"]: instance for instance in chain_records()[1]["contractInstances"]}

    @property
    def chain(self) -> _Chain:
        return self

    def contract_instance_json(self, address: bytes) -> bytes | None:
        instance = self._instances.get("0x" + address.hex())
        return None if instance is None else orjson.dumps(instance)


def test_the_networks_values_follow_from_the_chain(network: NetworkIdentity) -> None:
    assert NetworkIdentity.of_view(_Chain("4.1.2")) == replace(network, node_version="4.1.2")


def test_an_unknown_release_needs_its_root_named(network: NetworkIdentity, caplog: pytest.LogCaptureFixture) -> None:
    unknown = NetworkIdentity.of_view(_Chain("9.9.9"))
    assert unknown == replace(network, vk_tree_root=None, node_version="9.9.9")
    assert "--vk-tree-root" in caplog.text
    named = NetworkIdentity.of_view(_Chain("9.9.9"), vk_tree_root=b"\1" * 32)
    assert named == replace(unknown, vk_tree_root=b"\1" * 32)


def test_settings_are_the_options_of_the_mempool() -> None:
    options = MempoolOptions.of(
        Settings(
            p2p_max_pending_tx_count=5,
            p2p_rpc_price_bump_percentage=0,
            p2p_tx_pool_delete_txs_after_reorg=True,
            transactions_disabled=True,
            vk_tree_root="0x05",
            proof_verifier_command="verify --fast",
        )
    )
    assert options.vk_tree_root == (5).to_bytes(32, "big")
    expected = MempoolOptions(
        p2p_max_pending_tx_count=5,
        p2p_rpc_price_bump_percentage=0,
        p2p_tx_pool_delete_txs_after_reorg=True,
        transactions_disabled=True,
        vk_tree_root=options.vk_tree_root,
        proof_verifier_command="verify --fast",
    )
    assert options == expected
    assert MempoolOptions.of(Settings()) == MempoolOptions()


@pytest.mark.parametrize(
    ("name", "value"),
    [("vk_tree_root", "x"), ("vk_tree_root", str(MODULUS))],
)
def test_a_value_without_meaning_is_named(name: str, value: str) -> None:
    values: dict[str, Any] = {name: value}
    with pytest.raises(SettingError, match="--" + name.replace("_", "-")):
        MempoolOptions.of(Settings(**values))


def test_a_running_node_keeps_transactions_over_a_restart(
    start_node: Callable[..., Any], sample_chain: Path, tmp_path: Path
) -> None:
    directory = f"--data-directory={tmp_path / 'data'}"
    tx = next(made_txs(1))
    chain = f"--chain-file={sample_chain}"
    node = start_taking(start_node, directory, chain).wait_until_serving()
    node.wait_for_line("chain file loaded")
    assert "error" not in node.call("node_sendTx", tx)
    assert node.stop() == 0
    node = start_node(directory, chain).wait_until_serving()
    assert node.call("node_getPendingTxCount")["result"] == 1
    assert node.call("node_getTxReceipt", hash_of(tx))["result"]["status"] == "pending"
    assert node.stop() == 0
    node = start_taking(start_node, directory, chain, "--transactions-disabled").wait_until_serving()
    error = node.call("node_sendTx", next(made_txs(1)))["error"]
    assert error["message"] == "Invalid tx: Transactions are not permitted"
    assert node.stop() == 0


@pytest.mark.parametrize("is_other_process", [True, False])
def test_one_that_a_client_sends_again_is_told_of_until_a_node_has_it(
    tmp_path: Path, *, is_other_process: bool
) -> None:
    """The first sender may hear that it could not be handed on."""
    heard: list[bytes] = []
    with LocalChain(tmp_path, replace(OPTIONS, automine=False)) as chain:
        mempool = chain.mempool
        mempool.watch_repeated(
            lambda tx, tx_json: heard.append(Tx.from_json(orjson.loads(tx_json), FOUR).hash + tx.hash)
        )

        def send(tx: Tx) -> None:
            if not is_other_process:
                chain.send(tx)
                return
            entry, tx_json = PoolEntry.of(tx, FOUR), tx.to_json_bytes()
            [outcome] = mempool.take([(entry, tx_json)])
            assert isinstance(outcome, Added)
            work = mempool.after_taking(entry.hash, tx_json, outcome)
            if work is not None:
                work()

        tx = chain.tx()
        send(tx)
        assert heard == []
        send(tx)
        assert heard == [2 * tx.hash]
        mempool.pool.mark_forwarded(tx.hash)
        send(tx)
        assert heard == [2 * tx.hash]


@pytest.mark.parametrize("release", [FOUR, FIVE], ids=["4.x", "5.x"])
def test_what_another_node_holds_may_wait_for_its_price_unless_the_release_calls_it_invalid(release: Release) -> None:
    def validate(*_: object, may_wait_for_price: bool) -> TxValidationResult:
        return (
            TxValidationResult("valid", (), ())
            if may_wait_for_price
            else TxValidationResult("skipped", (FEE_TOO_LOW,), ())
        )

    pool = SimpleNamespace(release=release, add=lambda *_, **__: Added.ACCEPTED)
    mempool: Any = SimpleNamespace(validate=validate, judge=SimpleNamespace(verifies=False), pool=pool)
    tx, view = Tx.from_json(next(made_txs(1)), FOUR), _Chain("")
    if release.low_price_is_invalid:
        with pytest.raises(Refused, match=FEE_TOO_LOW):
            Mempool.receive(mempool, tx, view)  # type: ignore[arg-type]
    else:
        assert Mempool.receive(mempool, tx, view) is Added.ACCEPTED  # type: ignore[arg-type]
