"""Whole nodes on the peer-to-peer network: a wallet sends to one, the pools of the others have it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.conftest import PATIENCE_S
from tests.mempool.made import hash_of, made_txs
from tests.p2p.nodes import FakeHost, running
from tests.ports import free_port

from fastnode.p2p.discovery.enr import NodeRecord
from fastnode.p2p.gossip.topics import Topic
from fastnode.p2p.node.options import StaticPeer
from fastnode.p2p.transport.identity import KEY_FILE, Identity
from fastnode.protocol.fields import hex_text
from fastnode.protocol.releases import FOUR
from fastnode.protocol.tx import Tx
from fastnode.protocol.tx_data import TxData
from fastnode.protocol.tx_layout import USUAL

Start = Callable[..., Any]

#: Of a node of a network on this machine.
ON_NETWORK = ("--p2p-enabled", "--p2p-listen-addr=127.0.0.1", "--p2p-ip=127.0.0.1", "--p2p-port=0")


def wait_until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.05)


def is_pending(node: Any, tx_hash: str) -> bool:
    return bool(node.call("node_getTxReceipt", tx_hash)["result"]["status"] == "pending")


def with_no_price(tx: Tx) -> Tx:
    """The same, paying nothing for its gas."""
    data = bytearray(tx.data.buffer)
    data[USUAL.max_fees : USUAL.max_fees + 32] = bytes(32)
    return Tx(TxData.from_buffer(bytes(data)), tx.proof, tx.class_logs, tx.calldata)


def test_a_transaction_sent_to_one_node_is_pending_at_all(
    start_node: Start, sample_chain: Path, tmp_path: Path
) -> None:
    def start(name: str, *arguments: object) -> Any:
        chain = f"--chain-file={sample_chain}"
        node = start_node(f"--data-directory={tmp_path / name}", chain, *ON_NETWORK, *arguments).wait_until_serving()
        wait_until(lambda: node.readiness().startswith("OK"))
        return node

    first = start("first")
    port = first.wait_for_line("on the peer-to-peer network")["port"]
    second = start("second", f"--p2p-peer=127.0.0.1:{port}", "--debug-p2p-disable-colocation-penalty")
    record = first.call("node_getEncodedEnr")["result"]
    third = start("third", f"--p2p-preferred-peers={record}")
    early, late = made_txs(2)
    # A peer says what it wants to hear of a moment after it is connected.
    wait_until(lambda: "error" not in second.call("node_sendTx", early))
    for node in (first, third):
        wait_until(lambda node=node: is_pending(node, hash_of(early)))
    wait_until(lambda: "error" not in third.call("node_sendTx", late))
    for node in (first, second):
        wait_until(lambda node=node: is_pending(node, hash_of(late)))

    assert first.call("node_getNodeInfo")["result"]["enr"] == record
    found = NodeRecord.from_text(record)
    assert (found.ip, found.port("tcp"), found.port("udp")) == ("127.0.0.1", port, port)
    assert found.version == "00-31337-322813fd-3658137161-2672340d-1dd2644a"
    assert found.peer_id == Identity.from_text((tmp_path / "first" / KEY_FILE).read_text()).peer_id
    assert first.stop() == 0
    again = start("first", f"--peer-id-private-key-path={tmp_path / 'first' / KEY_FILE}")
    assert NodeRecord.from_text(again.call("node_getEncodedEnr")["result"]).peer_id == found.peer_id


def test_the_record_of_a_node_without_an_announced_address_has_none_and_is_there_from_the_first_answer_on(
    start_node: Start, short_chain: Path, tmp_path: Path
) -> None:
    flags = ("--p2p-enabled", "--p2p-listen-addr=127.0.0.1", f"--p2p-port={free_port()}")
    node = start_node(f"--data-directory={tmp_path / 'node'}", f"--chain-file={short_chain}", *flags)
    node.wait_until_serving()
    record = NodeRecord.from_text(node.call("node_getEncodedEnr")["result"])
    node.wait_for_line("on the peer-to-peer network")
    assert set(record.values) == {"aztec", "id", "secp256k1", "ver"}
    assert record.peer_id == Identity.from_text((tmp_path / "node" / KEY_FILE).read_text()).peer_id
    assert NodeRecord.from_text(node.call("node_getEncodedEnr")["result"]) == record
    assert node.stop() == 0


def test_a_transaction_that_published_nodes_take_is_handed_on_as_it_came(
    start_node: Start, sample_chain: Path, tmp_path: Path
) -> None:
    """With bytes behind it, or a price below today's: who has it from them must not pay for it."""
    node = start_node(
        f"--data-directory={tmp_path / 'node'}",
        f"--chain-file={sample_chain}",
        *ON_NETWORK,
        "--debug-p2p-disable-colocation-penalty",
    ).wait_until_serving()
    wait_until(lambda: node.readiness().startswith("OK"))
    address = StaticPeer("127.0.0.1", node.wait_for_line("on the peer-to-peer network")["port"])
    version = "00-31337-322813fd-3658137161-2672340d-1dd2644a"
    txs = [Tx.from_json(value, FOUR) for value in made_txs(3)]
    txs[2] = with_no_price(txs[2])
    payloads = [tx.to_buffer() + tail for tx, tail in zip(txs, (b"\0", bytes(1000), b""), strict=True)]
    with running() as start:
        sender, other = (start(host=FakeHost(version), static_peers=(address,)) for _ in range(2))
        for peer in (sender, other):
            peer.wait_for_mesh(1)
        for tx, payload in zip(txs, payloads, strict=True):
            sender.network.publish(Topic.TX, payload)
            other.host.wait_for(payload)
            wait_until(lambda tx=tx: is_pending(node, hex_text(tx.hash)))
        assert [len(peer.network.snapshot.peers) for peer in (sender, other)] == [1, 1], "nobody is left"


def test_without_the_setting_nothing_of_the_network_is_imported(sample_chain: Path, tmp_path: Path) -> None:
    program = f"""
import asyncio, json, sys
from pathlib import Path
from fastnode.app.process.node import Node
from fastnode.config.settings import Settings

async def main():
    node = await Node.start(Settings(data_directory=Path({str(tmp_path)!r}), chain_file=Path({str(sample_chain)!r}),
                                     port=0, admin_port=0, metrics_port=0, disable_admin_api_key=True))
    try:
        print(json.dumps([name for name in sys.modules if "p2p" in name or "peer_" in name or name == "cryptography"]))
    finally:
        await node.stop()

asyncio.run(main())
"""
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE_S, check=True
    )
    assert set(json.loads(ran.stdout.splitlines()[-1])) <= {"fastnode.config.peer_settings"}
